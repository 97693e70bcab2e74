"""Stories: lectures in steps."""
