"""The command line: arguments, options and settings."""
