"""How the page shows the L-curve lab."""
