"""The L-curve lab: Tikhonov regularisation for all λ from one bidiagonalisation, live."""

from compute.labs.l_curve.lab import LCurve

__all__ = ["LCurve"]
