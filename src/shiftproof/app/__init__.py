"""`shiftproof app`: a page in the browser on which pictures are moved, and what layers and networks make of it."""
