"""Exports of a page: links, pictures, films, recordings and numbers, each computed from the lab's current state."""
