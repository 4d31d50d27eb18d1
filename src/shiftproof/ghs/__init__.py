"""Gaussian-Hermite Sampling: functions, moments, grids, the matrix, the pivot, the sample; reads like the paper."""
