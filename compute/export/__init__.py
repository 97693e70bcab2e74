"""Export: pictures, films and tables from a lab's parameters alone, without the page."""
