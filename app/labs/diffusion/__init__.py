"""How the page shows the diffusion lab."""
