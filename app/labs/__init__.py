"""The labs' tabs: one folder per lab with the lab's name; `plain` is the default for labs without a folder."""
