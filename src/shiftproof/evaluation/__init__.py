"""Measurements: accuracy, consistency, robustness, aliasing, cost."""
