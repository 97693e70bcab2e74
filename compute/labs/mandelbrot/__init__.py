"""The Mandelbrot set at any depth: escape counts of z^2 + c, live, coarse to fine."""

from compute.labs.mandelbrot.lab import Mandelbrot

__all__ = ["Mandelbrot"]
