"""`shiftproof bench` with other packages' layers beside ours. `zoo` lets torchvision, which timm needs, be imported."""

import sys

import zoo  # noqa: F401
from shiftproof.cli import main

sys.exit(main(["bench", *sys.argv[1:]]))
