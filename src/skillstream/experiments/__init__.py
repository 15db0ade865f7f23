"""Experiments: whole stories, from an expert to a table."""
