"""Timing the ways to compute a lab, in one run, results first: what `fieldlab bench` does."""
