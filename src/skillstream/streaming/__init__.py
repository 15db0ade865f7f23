"""Streams that are left running: what writes them, and what watches."""
