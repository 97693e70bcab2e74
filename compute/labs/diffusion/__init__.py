"""2D diffusion, live: u_t = D lap(u) by explicit Euler steps, displayed with its Laplacian."""

from compute.labs.diffusion.lab import Diffusion

__all__ = ["Diffusion"]
