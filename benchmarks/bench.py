"""`shiftproof bench` with other packages' layers beside ours. `zoo` lets torchvision, which timm needs, be imported."""

import sys

from helpers import zoo  # noqa: F401
from shiftproof.commands.main import main

sys.exit(main(["bench", *sys.argv[1:]]))
