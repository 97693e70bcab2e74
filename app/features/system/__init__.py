"""The card with the load of the machine."""
