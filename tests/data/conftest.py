from helpers.data_fixtures import server as server
from helpers.data_fixtures import small as small
