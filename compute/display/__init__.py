"""From a field on a device to a picture of one byte a pixel; one file per backend, and the camera that runs them."""
