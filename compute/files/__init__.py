"""Files: reading within bounds, writing, pictures."""
