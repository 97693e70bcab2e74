"""How strongly the cycle attracts that a point of the Mandelbrot set ends in: |multiplier|, to colour the interior."""
