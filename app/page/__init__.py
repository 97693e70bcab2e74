"""The shell of one browser tab: header, tabs, keys, address bar, notices, theme and explained words."""
