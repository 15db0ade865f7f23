"""Demonstrations: what an expert saw and did."""
