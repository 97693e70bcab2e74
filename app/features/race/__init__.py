"""Races between backends."""
