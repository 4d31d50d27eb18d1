"""`python -m shiftproof`."""

import sys

from shiftproof.cli import main

sys.exit(main())
