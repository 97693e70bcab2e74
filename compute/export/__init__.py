"""What is seen, taken along: pictures and films from a lab's parameters alone, without the page."""
