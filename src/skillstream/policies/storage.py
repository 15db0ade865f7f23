"""Policies as named arrays and a JSON header, and back, each array checked against what it must be."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from skillstream.errors import FileFormatError, InputError
from skillstream.policies.gaussian import TabularGaussianModel, gaussian_tables
from skillstream.policies.layout import TABLES
from skillstream.policies.neural import NeuralModel, neural_model, shape_from
from skillstream.policies.protocol import ConditionalModel
from skillstream.policies.tabular import TabularModel, from_tables, tables_of

if TYPE_CHECKING:
    from skillstream.policies.policy import OptionPolicy

Model = TabularModel | ConditionalModel


def named_arrays(tree: Any) -> dict[str, Any]:
    """The array leaves of a pytree by their place in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): leaf
        for path, leaf in leaves
        if hasattr(leaf, "dtype") and hasattr(leaf, "shape")
    }


def fill(where: str, template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`template` with its arrays replaced by those of the same name; shapes and types must agree."""
    for name, leaf in named_arrays(template).items():
        found = arrays[name]
        if found.shape != leaf.shape or found.dtype != leaf.dtype:
            raise FileFormatError(
                f"{where}: damaged or of another policy: {name} is {found.dtype} {list(found.shape)}, "
                f"expected {leaf.dtype} {list(leaf.shape)}"
            )
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: arrays.get(jax.tree_util.keystr(path, simple=True, separator="."), leaf), template
    )


def pack(policy: "OptionPolicy") -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What a file holds of a policy: arrays and header."""
    model = policy.model
    if isinstance(model, TabularModel):
        return {**tables_of(model), "initial": policy.initial}, {"model": "tabular"}
    kind = next((kind for kind, known in KINDS.items() if type(model) is known), type(model).__name__)
    arrays = {name: np.asarray(leaf) for name, leaf in named_arrays(model).items()}
    return {**arrays, "initial": policy.initial}, {"model": kind, "structure": model.structure()}


def names_in(where: str, header: dict[str, Any], like: Model | None) -> set[str]:
    """The arrays that a file with this header must hold."""
    if header.get("model") == "tabular":
        return {*TABLES, "initial"}
    return {*named_arrays(_template(where, header, like)), "initial"}


def unpack(
    where: str,
    arrays: dict[str, np.ndarray],
    header: dict[str, Any],
    like: Model | None = None,
) -> tuple[Model, np.ndarray]:
    """A model and its `mu` from what a file holds, checked as if a user had given them."""
    _refuse_non_finite(where, arrays)
    initial = arrays["initial"]
    if header.get("model") != "tabular":
        return fill(where, _template(where, header, like), arrays), initial
    wrong = [name for name in (*TABLES, "initial") if arrays[name].dtype != np.float64]
    if wrong:
        raise FileFormatError(f"{where}: the array {wrong[0]} holds {arrays[wrong[0]].dtype}, not float64")
    try:
        return from_tables(*(arrays[name] for name in TABLES)), initial
    except InputError as error:
        raise FileFormatError(f"{where}: damaged: {error}") from error


def _template(where: str, header: dict[str, Any], like: Model | None) -> Any:
    """A model of the right structure, whatever its numbers."""
    kind = str(header.get("model"))
    if like is not None and (type(like).__name__ == kind or type(like) is KINDS.get(kind)):
        return like
    if kind not in KINDS:
        raise FileFormatError(
            f"{where}: holds a policy of the kind {kind!r}, which is not known here; if it is a class of "
            "your own, give a policy of that class and shape as like="
        )
    try:
        structure = header["structure"]
        if kind == "neural":
            return neural_model(shape_from(structure), 0, None)
        return _gaussian_template(**structure)
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{where}: damaged: {error}") from error


def _gaussian_template(num_options: int, num_states: int, action_size: int) -> TabularGaussianModel:
    shape = (num_states, num_options, action_size)
    flat = np.full((num_states, num_options), 1 / num_options)
    return gaussian_tables(flat, np.zeros(shape), np.ones(shape), np.full((*shape[:2], 2), 0.5), 1.0)


def _refuse_non_finite(where: str, arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FileFormatError(f"{where}: damaged: the array {name} holds a number that is not finite")


KINDS = {"neural": NeuralModel, "tabular gaussian": TabularGaussianModel}
