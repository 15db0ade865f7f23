"""Exact inference on options: potentials in, posteriors out, O(K) a step.

Nothing here knows of states, actions, tables or networks. Arrays are `[T, K]` for one chain, or
`[T, K, E]` for `E` chains side by side; a chain may hold several episodes, one after the other.
"""
