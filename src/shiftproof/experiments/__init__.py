"""Experiments: which runs a table needs, running them, their records, the paper's numbers."""
