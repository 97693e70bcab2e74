"""The tab of the crossover lab."""
