"""A little of what `make fuzz` does at length: damaged files load as sound data, or are refused."""

import random
from dataclasses import replace
from functools import partial

import pytest
from campaign import SHARES, Worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from targets import TARGETS, learner_seeds, mutated, read_learner


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    """Readers, each made when it is asked for."""
    made: dict[str, Worker] = {}

    def worker(name: str) -> Worker:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            target = TARGETS[name]
            if name == "learner":  # where the next sample costs seconds of compiling
                read, seeds = partial(read_learner, learn_on=False), partial(learner_seeds, amounts=(0,))
                target = replace(target, read=read, seeds=seeds)
            made[name] = Worker(name, "0", folder / "scratch", folder / "found", target)
        return made[name]

    return worker


def test_every_reader_has_its_share():
    assert SHARES.keys() == TARGETS.keys()


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # HDF5, closing what is damaged
@pytest.mark.filterwarnings("ignore::UserWarning:gymnasium")
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_no_damaged_file_fails_in_another_way(workers, name, seed):
    worker, rng = workers(name), random.Random(seed)
    files = mutated(worker.target, rng, rng.choice(worker.seeds), rng.choice(worker.seeds))
    verdict, what = worker.outcome(files)
    assert verdict != "failed", what
