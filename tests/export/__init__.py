"""Tests of compute/export and app/export."""
