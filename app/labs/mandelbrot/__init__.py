"""How the page shows the Mandelbrot lab."""
