"""The command line: one module per command, with its arguments and its `run`."""
