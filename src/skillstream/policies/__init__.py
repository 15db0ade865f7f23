"""Policies: the triplet of selection, action and termination, and what they say of data."""
