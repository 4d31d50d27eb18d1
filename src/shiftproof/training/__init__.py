"""Training: one configuration, one loop, checkpoints that lose nothing."""
