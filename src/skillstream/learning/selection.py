"""Choosing among policies to learn, such as by how many options they have, by data they have not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import ImpossibleDataError, InputError
from skillstream.learning.batch import fit
from skillstream.learning.config import BatchConfig
from skillstream.policies.checks import check_whole
from skillstream.policies.policy import OptionPolicy
from skillstream.policies.posteriors import smooth


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """How well each candidate explains what it was not fitted to."""

    log_likelihoods: Float[np.ndarray, "candidates folds"]  # of a held-out step; -inf where it is impossible

    @property
    def best(self) -> int:
        """The first candidate that none after it beats by more than a standard error.

        Give the simplest first: where the data cannot tell, it is the one to have.
        """
        chosen = 0
        for other in range(1, len(self.log_likelihoods)):
            gain, error = self._gain(other, chosen)
            if gain > error:
                chosen = other
        return chosen

    def _gain(self, one: int, other: int) -> tuple[float, float]:
        """The mean over folds of what one has over the other, and its standard error."""
        ours, theirs = self.log_likelihoods[one], self.log_likelihoods[other]
        if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
            return float(np.isfinite(ours).sum() - np.isfinite(theirs).sum()), 0.0
        gaps = ours - theirs
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def cross_validate(
    candidates: Sequence[OptionPolicy],
    demos: Demonstrations,
    config: BatchConfig | None = None,
    folds: int = 4,
) -> CrossValidation:
    """Fit every candidate to all demonstrations but a stretch, and see how well it explains that.

    The stretches are consecutive and of one length, so a single long episode will do; an episode that one
    cuts through counts as two.

    Parameters
    ----------
    candidates
        Where learning starts, the simplest first.
    demos
        The demonstrations.
    config
        How to fit.
    folds
        How many stretches there are.

    Examples
    --------
    >>> demos = Demonstrations([0, 1] * 20, [1, 0] * 20)
    >>> candidates = [OptionPolicy.tabular(options, 2, 2) for options in (1, 2)]
    >>> cross_validate(candidates, demos, BatchConfig(iterations=5, pseudo_count=0.1)).best
    0
    """
    check_whole("folds", folds, 2)
    if not candidates:
        raise InputError("candidates: there is none; give at least one policy to start from")
    if demos.num_steps < folds:
        raise InputError(f"folds: {demos.num_steps} steps cannot be cut into {folds} stretches")
    scores = np.empty((len(candidates), folds))
    for fold in range(folds):
        held_out = np.zeros(demos.num_steps, bool)
        held_out[fold * demos.num_steps // folds : (fold + 1) * demos.num_steps // folds] = True
        train, test = demos.where(~held_out), demos.where(held_out)
        for row, candidate in enumerate(candidates):
            try:
                fitted = fit(candidate, train, config).policy
                scores[row, fold] = smooth(fitted, test).log_likelihood / test.num_steps
            except ImpossibleDataError:
                scores[row, fold] = -np.inf
    return CrossValidation(scores)
