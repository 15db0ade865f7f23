"""Reporting: pictures of what was learnt."""
