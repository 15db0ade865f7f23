"""Worlds to learn in: grid worlds of our own, Gymnasium's by short names, and discretising wrappers.

Importing this registers `skillstream/GridWorld-v0` and `skillstream/HiddenGoal-v0` with Gymnasium,
whose `make("skillstream.environments:skillstream/GridWorld-v0")` does the import itself.
"""

from skillstream.environments.registration import register

register()
