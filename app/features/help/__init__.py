"""Help: the keys, and texts about the shown lab."""

from app.features.help.help import Help

FEATURE = Help
