"""Features of the page, one folder each."""
