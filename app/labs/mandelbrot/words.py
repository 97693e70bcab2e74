"""Explanations of the Mandelbrot lab's words, for app/page/explain.py, which finds them by the name of this file."""

# Explained wherever they first occur on the page.
WORDS = {
    "precision": "Precision: number of digits of the numbers. Deep zooms need more digits than float64 has.",
    "zoom": "Zoom: the height of the picture is 4 / zoom.",
}
# Explained as whole labels of the status bar: too general to be explained everywhere.
LABELS = {
    "pixel": "Pixel: distance of two neighbouring pixels in the plane of c.",
    "iterations": "Iterations: the limit after which a point counts as inside the set.",
    "samples": "Samples: points computed per pixel. Their mean is its colour, which smooths edges.",
    "reference orbit": "Reference orbit: one high-precision orbit, from which all pixels of a deep view are computed.",
    "computed by": "Computed by: a backend of the host, because the chosen one has no float64, which this view needs.",
    "picture": "Picture: the fraction of it that is computed.",
}
