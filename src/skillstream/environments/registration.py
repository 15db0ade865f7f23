"""Gymnasium's registry learns of our environments when `skillstream.environments` is imported."""

import gymnasium

_ENVIRONMENTS = {
    "skillstream/GridWorld-v0": ("skillstream.environments.grid_world:GridWorld", 100),
    "skillstream/HiddenGoal-v0": ("skillstream.environments.hidden_goal:HiddenGoal", 200),
}


def register() -> None:
    """Register what is not there yet; a second call changes nothing and warns of nothing."""
    for name, (entry_point, steps) in _ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=entry_point, max_episode_steps=steps)
