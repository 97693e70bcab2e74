"""Tests of compute/export and app/features/export."""
