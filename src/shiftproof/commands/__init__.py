"""The command line. Each command has a module with its arguments and its `run`."""
