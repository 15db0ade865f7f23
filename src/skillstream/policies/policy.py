"""The hierarchical policy a user holds."""

import os
from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from skillstream.demonstrations.dataset import Demonstrations
from skillstream.errors import FileFormatError, InputError
from skillstream.files import load_arrays, save_arrays
from skillstream.policies.checks import check_distribution, check_floats, check_whole
from skillstream.policies.gaussian import (
    TabularGaussianModel,
    draw_gaussians,
    gaussian_tables,
    redrawn_gaussians,
)
from skillstream.policies.layout import VERSION
from skillstream.policies.neural import NeuralModel, neural_model, redrawn_networks
from skillstream.policies.protocol import ConditionalModel
from skillstream.policies.shape import GaussianActions, check_shape
from skillstream.policies.storage import names_in, pack, unpack
from skillstream.policies.tabular import TabularModel, draw_tables, from_tables, tables_of


class OptionPolicy(eqx.Module):
    """A policy with options: what selects them, what each does, when each stops; immutable.

    Build one with `OptionPolicy.tabular`, `OptionPolicy.neural` or `OptionPolicy.from_tables`, or
    give it a model of your own class and, if it is not uniform, mu(o) as `initial`.
    """

    model: TabularModel | ConditionalModel
    initial: Float[np.ndarray, "K"]

    def __init__(self, model: TabularModel | ConditionalModel, initial: ArrayLike | None = None):
        self.model = model
        options = model.num_options
        mu = np.full(options, 1 / options) if initial is None else initial
        self.initial = check_distribution("initial", mu, (options,))

    @staticmethod
    def tabular(
        num_options: int,
        num_states: int,
        num_actions: int | GaussianActions,
        seed: int = 0,
        standardise: Demonstrations | None = None,
    ) -> "OptionPolicy":
        """A random tabular policy to start learning from.

        Every row is drawn from a flat Dirichlet distribution, the probabilities to stop uniformly
        between 0.02 and 0.2: options must differ, or learning cannot tell them apart, and last a while,
        or nothing ties one step to the next.

        Parameters
        ----------
        num_options, num_states
            `K` and `S`.
        num_actions
            `A`, or `GaussianActions(size)` for continuous actions: a Gaussian in each state.
        seed
            Gives the same policy twice.
        standardise
            With Gaussian actions: data whose mean and spread the first Gaussians have.

        Examples
        --------
        >>> OptionPolicy.tabular(num_options=2, num_states=5, num_actions=3, seed=1)
        OptionPolicy(2 options, tabular: 5 states, 3 actions)
        """
        check_whole("num_options", num_options, 1)
        check_whole("num_states", num_states, 1)
        check_whole("seed", seed, 0)
        if isinstance(num_actions, GaussianActions):
            mean, scale = np.zeros(num_actions.size), np.ones(num_actions.size)
            if standardise is not None:
                check_floats("actions", standardise.actions, num_actions.size)
                mean, scale = standardise.actions.mean(0), standardise.actions.std(0)
            model = draw_gaussians(num_options, num_states, mean, scale, num_actions.floor, seed)
            return OptionPolicy(model)
        check_whole("num_actions", num_actions, 1)
        return OptionPolicy(draw_tables(num_options, num_states, num_actions, seed))

    @staticmethod
    def neural(
        num_options: int,
        observation_size: int,
        num_actions: int | Sequence[int] | GaussianActions,
        seed: int = 0,
        *,
        selection_hidden: Sequence[int] = (100,),
        action_hidden: Sequence[int] = (30,),
        termination_hidden: Sequence[int] = (30,),
        activation: str = "relu",
        weight_range: float = 0.5,
        standardise: Demonstrations | None = None,
        dtype: str = "float32",
    ) -> "OptionPolicy":
        """Networks with fresh weights; by default the paper's triplet.

        Parameters
        ----------
        num_options, observation_size
            `K` and `D`.
        num_actions
            `A`; or several sizes for several choices at once (Gymnasium's `MultiDiscrete`); or
            `GaussianActions(size)` for continuous actions.
        seed
            Gives the same weights twice; every option's networks get weights of their own.
        selection_hidden, action_hidden, termination_hidden
            Sizes of the hidden layers of pi_hi, pi_lo and pi_b; `()` is a linear map.
        activation
            `relu`, `tanh`, `gelu`, `silu`, `elu`, `softplus` or `sigmoid`.
        weight_range
            Weights and biases are drawn uniformly between minus this and this.
        standardise
            Data to fit a standardisation of observations (and of continuous actions) to; it is part
            of the policy and saved with it. Default: none, as in the paper.
        dtype
            `float32` or `float64`, of the weights; inference is in float64 either way.

        Examples
        --------
        >>> OptionPolicy.neural(num_options=2, observation_size=4, num_actions=2)
        OptionPolicy(2 options, neural: 4 observations, 2 actions, 1550 parameters)
        """
        check_whole("seed", seed, 0)
        if standardise is not None and not isinstance(standardise, Demonstrations):
            raise InputError(f"standardise: must be Demonstrations to fit it to, found {standardise!r}")
        shape = check_shape(
            num_options=num_options,
            observation_size=observation_size,
            num_actions=num_actions,
            selection_hidden=selection_hidden,
            action_hidden=action_hidden,
            termination_hidden=termination_hidden,
            activation=activation,
            weight_range=weight_range,
            dtype=dtype,
        )
        return OptionPolicy(neural_model(shape, seed, standardise))

    @staticmethod
    def from_tables(
        selection: ArrayLike, action: ArrayLike, termination: ArrayLike, initial: ArrayLike | None = None
    ) -> "OptionPolicy":
        """A policy from its probabilities.

        Parameters
        ----------
        selection
            `[S, K]`, pi_hi(o | s).
        action
            `[S, K, A]`, pi_lo(a | s, o).
        termination
            `[S, K, 2]`, pi_b(b | s, o): going on first, stopping second.
        initial
            `[K]`, mu(o), the option before an episode's first step. Default: uniform.
        """
        return OptionPolicy(from_tables(selection, action, termination), initial)

    @staticmethod
    def from_gaussians(
        selection: ArrayLike,
        mean: ArrayLike,
        scale: ArrayLike,
        termination: ArrayLike,
        initial: ArrayLike | None = None,
        floor: float = 1e-2,
    ) -> "OptionPolicy":
        """A policy over finitely many states with continuous actions.

        Parameters
        ----------
        selection, termination, initial
            As in `from_tables`.
        mean, scale
            `[S, K, M]`, of the Gaussian that each option draws its actions from in each state.
        floor
            No standard deviation is learnt below this.
        """
        return OptionPolicy(gaussian_tables(selection, mean, scale, termination, floor), initial)

    @property
    def num_options(self) -> int:
        """How many options there are, `K`."""
        return self.model.num_options

    def redrawn(self, num_options: int | None = None, seed: int = 0) -> "OptionPolicy":
        """A fresh random policy of the same kind and size, with as many options or another number.

        A standardisation stays as it was fitted.
        """
        options, model = num_options or self.num_options, self.model
        if isinstance(model, TabularModel):
            return OptionPolicy(draw_tables(options, model.num_states, model.num_actions, seed))
        if isinstance(model, TabularGaussianModel):
            return OptionPolicy(redrawn_gaussians(model, options, seed))
        if isinstance(model, NeuralModel):
            return OptionPolicy(redrawn_networks(model, options, seed))
        raise InputError(
            f"policy: {self!r} is of a class of your own, which cannot be drawn anew; build the fresh policy "
            "yourself and give it to fit"
        )

    def tables(self) -> dict[str, np.ndarray]:
        """Copies of `selection`, `action`, `termination` and `initial`, as `from_tables` takes them."""
        if not isinstance(self.model, TabularModel):
            raise InputError(f"tables: {self!r} does not consist of tables of probabilities")
        return {**tables_of(self.model), "initial": self.initial.copy()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to one file, whole or not at all (safetensors with a JSON header)."""
        save_arrays(path, "policy", VERSION, *pack(self))

    @staticmethod
    def load(path: str | os.PathLike[str], like: "OptionPolicy | None" = None) -> "OptionPolicy":
        """Read a policy that `save` wrote; anything else is refused with a `FileFormatError`.

        `like` is needed for policies of a class of your own: one of the same class and shape, whose
        numbers do not matter.
        """
        template, where = None if like is None else like.model, str(path)
        arrays, header = load_arrays(
            path, "policy", VERSION, lambda header: names_in(where, header, template)
        )
        try:
            return OptionPolicy(*unpack(where, arrays, header, template))
        except InputError as error:
            raise FileFormatError(f"{where}: damaged: {error}") from error

    def __repr__(self) -> str:
        return f"OptionPolicy({self.num_options} options, {_describe(self.model)})"


def _describe(model: TabularModel | ConditionalModel) -> str:
    if isinstance(model, TabularModel):
        return f"tabular: {model.num_states} states, {model.num_actions} actions"
    if isinstance(model, TabularGaussianModel):
        states, _, size = model.mean.shape
        return f"tabular: {states} states, Gaussian actions of size {size}"
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves(eqx.filter(model, model.trainable())))
    if isinstance(model, NeuralModel):
        return (
            f"neural: {model.shape.observation_size} observations, {model.shape.describe_actions()}, "
            f"{parameters} parameters"
        )
    return f"{type(model).__name__}, {parameters} parameters"
