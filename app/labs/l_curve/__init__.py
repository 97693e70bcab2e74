"""The tab of the L-curve lab."""
