"""Converts a field on a device into a picture of one byte per pixel: a file per backend, and the camera to run them."""
