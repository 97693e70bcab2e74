"""Audience mode: mirrors a lecturer's page to followers' phones and to the lecturer's second window."""
