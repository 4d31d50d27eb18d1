"""Measurements: cost now; accuracy, consistency and robustness of trained networks belong here too."""
