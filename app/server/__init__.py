"""The HTTP server's own rules: hosts, requests, page ids, tokens, log-in, connections, changes by browsers."""
