"""Smoothing, nanoseconds a step, side by side with plain C, dynamax and hmmlearn's compiled core.

All work in float64 on the same potentials. dynamax gets the same posterior through dense transitions
that change with time; hmmlearn's core knows constant ones only, so it does less.
"""

from ctypes import c_ssize_t, c_void_p
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model import hmm_smoother
from hmmlearn import _hmmc  # pyright: ignore[reportAttributeAccessIssue]
from racing import compile_c, keep_memory, publish, race, table

import skillstream as ss
from skillstream.inference.potentials import Potentials
from skillstream.inference.smoothing import smooth

STEPS = 100_000
CHAINS, LENGTH = 256, 1000


def draw(options: int, steps: int, seed: int = 0):
    """Random potentials `[T, K]`, kept away from zero."""
    rng = np.random.default_rng(seed)
    stop = rng.uniform(0.01, 0.99, (steps, options))
    return rng.dirichlet(np.ones(options), steps), stop, 1 - stop, rng.uniform(0.05, 1, (steps, options))


def in_c(function: str, arrays, mu, chains: int):
    """A call of the C loop into arrays allocated beforehand, and its posterior P(o_t)."""
    options = len(mu)
    library = compile_c("reference.c", K=options, E=chains)
    results = [np.empty_like(arrays[0]) for _ in range(5)]
    results.append(np.empty(chains))
    steps = c_ssize_t(len(arrays[0]))
    pointers = [x.ctypes.data_as(c_void_p) for x in (*arrays, mu, *results)]
    return partial(getattr(library, function), steps, *pointers), results[1]


def in_jax(arrays, mu, episode: int | None = None):
    """A call of our compiled smoother; in one chain, an episode may start every few steps."""
    shape = arrays[0].shape
    h, stop, stay, action = (jnp.asarray(x) for x in arrays)
    potentials = Potentials(h, stop, stay, action, jnp.zeros((shape[0], *shape[2:])))
    starts = jnp.arange(shape[0]) % (episode or shape[0]) == 0
    starts = jnp.broadcast_to(starts.reshape(-1, *[1] * (len(shape) - 2)), (shape[0], *shape[2:]))
    compiled = jax.jit(partial(smooth, restarts=episode is not None))
    return lambda: jax.block_until_ready(compiled(potentials, jnp.asarray(mu), starts))


def in_dynamax(arrays, mu):
    """dynamax's smoother on the hidden Markov model over options that the potentials make."""
    h, stop, stay, action = (jnp.asarray(x) for x in arrays)
    transitions = jax.vmap(jnp.diag)(stay) + stop[:, :, None] * h[:, None, :]
    first = jnp.asarray(mu) @ transitions[0]
    compiled = jax.jit(hmm_smoother)
    return lambda: jax.block_until_ready(compiled(first, transitions[1:], jnp.log(action)))


def in_hmmlearn(arrays, mu):
    """hmmlearn's forward and backward passes with the first step's transitions throughout."""
    h, stop, stay, action = arrays
    transitions = np.diag(stay[0]) + stop[0][:, None] * h[0]

    def run():
        _, _, scaling = _hmmc.forward_scaling(mu, transitions, action)
        _hmmc.backward_scaling(mu, transitions, action, scaling)

    return run


def one_episode(options: int) -> list[str]:
    """One long episode."""
    arrays, mu = draw(options, STEPS), np.full(options, 1 / options)
    c, expected = in_c("smooth_one", arrays, mu, 1)
    ours, rival = in_jax(arrays, mu), in_dynamax(arrays, mu)
    rivals = {"c": c, "ours": ours, "hmmlearn": in_hmmlearn(arrays, mu)}
    seconds = race(rivals) | race({"dynamax": rival}, rounds=3)
    error = np.abs(np.asarray(ours()[0].options) - expected).max()
    theirs = np.abs(np.asarray(rival().smoothed_probs) - expected).max()
    return [
        *row(options, seconds, STEPS, ("c", "ours", "dynamax", "hmmlearn")),
        f"{seconds['ours'] / seconds['c']:.2f}",
        f"{seconds['dynamax'] / seconds['ours']:.1f}",
        f"{error:.0e}",
        f"{theirs:.0e}",
    ]


def many_episodes(options: int) -> list[str]:
    """Many episodes of one length."""
    mu = np.full(options, 1 / options)
    flat = draw(options, CHAINS * LENGTH)
    arrays = [np.ascontiguousarray(x.reshape(LENGTH, CHAINS, options).transpose(0, 2, 1)) for x in flat]
    c, expected = in_c("smooth_many", arrays, mu, CHAINS)
    ours = in_jax(arrays, mu)
    seconds = race({"c": c, "ours": ours})
    error = np.abs(np.asarray(ours()[0].options) - expected).max()
    ratio = f"{seconds['ours'] / seconds['c']:.2f}"
    return [*row(options, seconds, CHAINS * LENGTH, ("c", "ours")), ratio, f"{error:.0e}"]


def whole_call(options: int, lengths: list[int]) -> list[str]:
    """`ss.smooth(policy, demos)`, NumPy to NumPy, beside its scans alone."""
    rng = np.random.default_rng(0)
    steps = sum(lengths)
    policy = ss.OptionPolicy.tabular(options, num_states=416, num_actions=5)
    demos = ss.Demonstrations(rng.integers(0, 416, steps), rng.integers(0, 5, steps), lengths)
    scans = in_jax(
        draw(options, steps), np.full(options, 1 / options), lengths[0] if len(lengths) > 1 else None
    )
    seconds = race({"scans": scans, "whole": lambda: ss.smooth(policy, demos)})
    return [
        str(len(lengths)),
        *row(options, seconds, steps, ("scans", "whole")),
        f"{seconds['whole'] / seconds['scans']:.2f}",
    ]


def sticky() -> list[str]:
    """Options that stop with probability 1e-12: the largest error of each smoother against C."""
    rng = np.random.default_rng(1)
    h, stop, _, action = draw(2, STEPS)
    stop = np.full_like(stop, 1e-12)
    action = np.where(rng.random((STEPS, 1)) < 0.5, [[0.6, 0.4]], [[0.4, 0.6]]) + 0 * action
    arrays, mu = (h, stop, 1 - stop, action), np.full(2, 0.5)
    c, expected = in_c("smooth_one", arrays, mu, 1)
    c()
    ours = np.asarray(in_jax(arrays, mu)()[0].options)
    theirs = np.asarray(in_dynamax(arrays, mu)().smoothed_probs)
    return [f"{np.abs(ours - expected).max():.0e}", f"{np.abs(theirs - expected).max():.0e}"]


def row(options: int, seconds: dict[str, float], steps: int, names) -> list[str]:
    """The number of options and each rival's nanoseconds a step."""
    return [str(options), *(f"{seconds[name] / steps * 1e9:.1f}" for name in names)]


def main() -> None:
    """Measure and publish."""
    keep_memory()
    long, short = [STEPS], [LENGTH] * CHAINS
    with jax.enable_x64(True):
        sections = {
            f"One episode of {STEPS} steps, ns a step": table(
                [
                    "K",
                    "C",
                    "skillstream",
                    "dynamax",
                    "hmmlearn",
                    "ours / C",
                    "dynamax / ours",
                    "our error",
                    "dynamax error",
                ],
                [one_episode(options) for options in (2, 4, 8, 32)],
            ),
            f"{CHAINS} episodes of {LENGTH}, ns a step of one episode": table(
                ["K", "C, vectorised", "skillstream", "ours / C", "our error"],
                [many_episodes(options) for options in (2, 4, 8)],
            ),
            "`ss.smooth(policy, demos)` with tables, ns a step": table(
                ["episodes", "K", "scans alone", "whole call", "whole / scans"],
                [whole_call(options, lengths) for lengths in (long, short) for options in (2, 4, 8)],
            ),
            "Options that stop with probability 1e-12, largest error": table(
                ["skillstream", "dynamax"], [sticky()]
            ),
        }
    publish("inference", sections)


if __name__ == "__main__":
    main()
