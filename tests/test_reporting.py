"""Pictures and reports: there is something on them, and it is what the data say."""

import numpy as np
import pytest
from PIL import Image

import skillstream as ss
from skillstream.reporting.telling import most_telling, most_telling_pair
from skillstream.reporting.timeline import plot_segmentation
from skillstream.reporting.usage import plot_usage


def segmented(demos, options, seed=0):
    """A segmentation that says the options are `options`, with some doubt."""
    count = int(options.max()) + 1
    probabilities = 0.9 * np.eye(count)[options] + 0.1 / count
    changed = np.r_[True, options[1:] != options[:-1]] | demos.episode_starts
    return ss.Segmentation(demos.episode_lengths, options, probabilities, changed * 1.0, changed, -1.0)


def random_demos(steps=90, size=None, actions="discrete", lengths=None, **more):
    rng = np.random.default_rng(0)
    seen = rng.integers(0, 30, steps) if size is None else rng.normal(size=(steps, size))
    done = rng.integers(0, 3, steps) if actions == "discrete" else rng.normal(size=(steps, 2))
    return ss.Demonstrations(seen, done, lengths, **more)


def ink(path):
    """The share of pixels that are not white, and how many colours there are."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    return (pixels < 250).any(1).mean(), len(np.unique(pixels, axis=0))


def shows(path, colour):
    """Whether an option's colour is on a picture."""
    wanted = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    return bool((abs(pixels - wanted).max(-1) < 30).any())


KINDS = {
    "discrete": {},
    "one step": {"steps": 1},
    "one coordinate": {"size": 1},
    "continuous": {"size": 4},
    "many coordinates": {"size": 20},
    "continuous actions": {"size": 3, "actions": "continuous"},
    "episodes": {"lengths": [30, 60]},
    "actions not recorded": {"action_mask": np.arange(90) % 2 == 0},
    "true options": {"true_options": np.arange(90) // 9 % 3},
}


@pytest.mark.parametrize("options", [1, 2, 9])
@pytest.mark.parametrize("kind", KINDS)
def test_pictures_have_content(tmp_path, kind, options):
    demos = random_demos(**KINDS[kind])
    found = segmented(demos, np.arange(demos.num_steps) // 5 % options)
    for name, plot in (("timeline", plot_segmentation), ("usage", plot_usage)):
        path = tmp_path / f"{name}.png"
        plot(path, found, demos)
        share, colours = ink(path)
        assert share > 0.008
        assert colours > 20
        assert shows(path, "#0072B2")
        assert demos.num_steps == 1 or options == 1 or shows(path, "#E69F00")


def test_the_timeline_shows_its_first_steps_only(tmp_path):
    demos = random_demos(lengths=[60, 30])
    found = segmented(demos, (np.arange(90) >= 50).astype(int))
    plot_segmentation(tmp_path / "all.png", found, demos)
    plot_segmentation(tmp_path / "first.png", found, demos, steps=40)

    def strip(name):
        with Image.open(tmp_path / name) as image:
            pixels = np.asarray(image.convert("RGB")).astype(int)
        below = pixels[int(len(pixels) * 0.25) :]  # under the legend
        return (abs(below - [0xD8, 0x9F, 0x00]).max(-1) < 40).any()

    assert strip("all.png")
    assert not strip("first.png")


@pytest.mark.parametrize("task", ["grid-world", "hidden-goal", "skillstream/HiddenGoal-v0"])
@pytest.mark.parametrize("observation", ["index", "coordinates"])
def test_maps_of_the_grid_tasks(tmp_path, task, observation):
    demos = ss.collect(ss.make_expert(task), ss.make_env(task, observation=observation), 120)
    found = segmented(demos, np.asarray(demos.true_options))
    plot_usage(tmp_path / "map.png", found, demos, task)
    plot_usage(tmp_path / "other.png", found, demos)
    assert ink(tmp_path / "map.png")[0] > 0.05
    assert (tmp_path / "map.png").read_bytes() != (tmp_path / "other.png").read_bytes()


def test_observations_that_are_not_the_maps_are_drawn_otherwise(tmp_path):
    demos = random_demos(size=4)
    found = segmented(demos, np.arange(90) % 2)
    plot_usage(tmp_path / "a.png", found, demos, "grid-world")
    plot_usage(tmp_path / "b.png", found, demos)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_the_coordinates_that_tell_the_options_apart_are_found():
    rng = np.random.default_rng(1)
    seen = rng.normal(size=(3000, 6))
    alone = np.eye(2)[(seen[:, 4] > 0).astype(int)]
    assert most_telling(seen, alone, 1) == [4]
    # Neither of the two tells anything by itself.
    together = np.eye(2)[((seen[:, 1] > 0) ^ (seen[:, 3] > 0)).astype(int)]
    assert most_telling_pair(seen, together) == (1, 3)
