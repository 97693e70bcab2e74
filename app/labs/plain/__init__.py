"""The default tab, for labs without a folder here."""
