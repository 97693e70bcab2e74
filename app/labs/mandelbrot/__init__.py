"""The tab of the Mandelbrot lab."""
