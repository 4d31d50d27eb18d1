"""The camera: which crop of a frame to look at, so that a scene that moves gives the same crop."""
