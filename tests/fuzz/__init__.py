"""Random nonsense, seeded, against a served app and against what reads foreign files: `python -m tests.fuzz --help`."""
