"""Seeded random input for a served app and for readers of foreign files: `python -m tests.fuzz --help`."""
