"""The L-curve lab: Tikhonov regularisation for all λ from one bidiagonalisation."""
