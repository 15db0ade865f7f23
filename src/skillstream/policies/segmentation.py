"""Which skill runs when: demonstrations cut into the runs of their options, and written as a table."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.demonstrations.pieces import optional
from skillstream.errors import InputError
from skillstream.files import open_whole
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import decode, smooth

Method = Literal["smooth", "filter", "viterbi"]


class Run(NamedTuple):
    """Steps of one episode in which one option runs on."""

    episode: int
    first: int  # step of the episode
    length: int
    option: int


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The option of every demonstration step, how sure that is, and where options change."""

    episode_lengths: Int[np.ndarray, "episodes"]
    options: Int[np.ndarray, "T"]
    probabilities: Float[np.ndarray, "T K"]  # P(o_t), given what the method looks at
    selections: Float[np.ndarray, "T"]  # P(b_t = 1): an option has just been selected, perhaps the same one
    switches: Bool[np.ndarray, "T"]  # where an episode begins or the option is not the one before
    log_likelihood: float

    def __repr__(self) -> str:
        usage = ", ".join(f"{share:.0%}" for share in self.usage())
        return f"Segmentation({len(self.options)} steps, {len(self.runs())} runs, options used {usage})"

    @property
    def episodes(self) -> Int[np.ndarray, "T"]:
        """The number of each step's episode."""
        return np.repeat(np.arange(len(self.episode_lengths)), self.episode_lengths)

    @property
    def steps(self) -> Int[np.ndarray, "T"]:
        """Each step's place in its episode."""
        starts = np.repeat(np.cumsum(self.episode_lengths) - self.episode_lengths, self.episode_lengths)
        return np.arange(len(self.options)) - starts

    def runs(self) -> list[Run]:
        """Uninterrupted runs of an option, in order."""
        first = np.flatnonzero(self.switches)
        lengths = np.diff(np.append(first, len(self.options)))
        columns = (self.episodes[first], self.steps[first], lengths, self.options[first])
        return [Run(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def usage(self) -> Float[np.ndarray, "K"]:
        """The share of steps each option has."""
        return np.bincount(self.options, minlength=self.probabilities.shape[1]) / len(self.options)

    def columns(self) -> dict[str, np.ndarray]:
        """The table that `save` writes, one row a step."""
        table = {
            "episode": self.episodes,
            "step": self.steps,
            "option": self.options,
            "probability": self.probabilities[np.arange(len(self.options)), self.options],
            "switch": self.switches.astype(int),
            "selection": self.selections,
        }
        rest = {f"probability_{o}": column for o, column in enumerate(self.probabilities.T)}
        return table | rest

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one row a step as `.csv` or `.parquet`, whole or not at all.

        Columns: `episode`, `step` of the episode, `option` and its `probability`; `switch`, 1 where an
        episode begins or the option is another than the step before; `selection`, the probability that
        an option has just been selected, perhaps the same one again; `probability_0` and so on, of every
        option.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".csv":
            _write_csv(Path(path), self.columns())
        elif suffix == ".parquet":
            _write_parquet(Path(path), self.columns())
        else:
            raise InputError(f"path: {str(path)!r} must end in .csv or .parquet")


def segment(policy: OptionPolicy, demos: Demonstrations, method: Method = "smooth") -> Segmentation:
    """Cut demonstrations into the skills of a policy.

    Parameters
    ----------
    policy
        The hierarchy to read the demonstrations with.
    demos
        The demonstrations.
    method
        `smooth`: each step's most probable option given its whole episode; `filter`: given what came
        before it only; `viterbi`: the most probable path.

    Examples
    --------
    >>> policy = OptionPolicy.tabular(num_options=2, num_states=3, num_actions=2)
    >>> segment(policy, Demonstrations([0, 1, 2, 0], [1, 0, 0, 1])).runs()
    [Run(episode=0, first=0, length=4, option=1)]
    """
    if method not in get_args(Method):
        raise InputError(f"method: must be one of {', '.join(get_args(Method))}, found {method!r}")
    posterior = smooth(policy, demos, lag=0 if method == "filter" else None)
    options = decode(policy, demos).options if method == "viterbi" else posterior.options.argmax(1)
    changed = np.ones(len(options), bool)
    changed[1:] = options[1:] != options[:-1]
    return Segmentation(
        np.asarray(demos.episode_lengths),
        options,
        posterior.options,
        posterior.switches.sum(1),
        changed | demos.episode_starts,
        posterior.log_likelihood,
    )


def _write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    formats = ["%d" if column.dtype.kind == "i" else "%.9g" for column in columns.values()]
    with open_whole(path) as file:
        np.savetxt(
            file,
            np.stack([column.astype(float) for column in columns.values()], 1),
            fmt=formats,
            delimiter=",",
            header=",".join(columns),
            comments="",
        )


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    arrow = optional("pyarrow", "parquet", "writing Parquet")
    parquet = optional("pyarrow.parquet", "parquet", "writing Parquet")
    with open_whole(path) as file:
        parquet.write_table(arrow.table(columns), file)
