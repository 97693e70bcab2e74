"""How the page shows the crossover lab."""
