"""2D diffusion, live: u_t = D lap(u) by explicit Euler steps, with the Laplacian beside it."""

from compute.labs.diffusion.lab import Diffusion

__all__ = ["Diffusion"]
