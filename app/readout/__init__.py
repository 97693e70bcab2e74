"""The live comparison of CPU and GPU."""
