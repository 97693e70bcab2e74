"""The tab of the diffusion lab."""
