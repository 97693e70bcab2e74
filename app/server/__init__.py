"""The server: access, admission, sessions and the bounds on incoming messages."""
