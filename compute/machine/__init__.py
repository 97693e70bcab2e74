"""The machine: its parts, their load, and its description in records."""
