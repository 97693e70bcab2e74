"""Audience mode: what a lecturer's page shows, on the phones of a room; and the lecturer's second window."""
