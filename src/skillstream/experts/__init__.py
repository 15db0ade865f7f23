"""Experts to learn from: policies known to be good, for every world with a short name."""
