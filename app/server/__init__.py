"""The HTTP server's own rules: hosts, requests, tokens, log-in, connections."""
