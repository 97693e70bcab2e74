"""The bar of presenter mode."""
