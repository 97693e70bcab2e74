"""How the page shows a lab that has no parts of its own."""
