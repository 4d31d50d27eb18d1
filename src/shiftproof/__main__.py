"""`python -m shiftproof`."""

import sys

from shiftproof.commands.main import main

sys.exit(main())
