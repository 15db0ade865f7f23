"""Policies as named arrays and a JSON header, and back, each array checked against what it must be."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from skillstream.errors import FileFormatError, InputError, shown
from skillstream.policies.gaussian import TabularGaussianModel, gaussian_tables
from skillstream.policies.layout import TABLES, Layout, check_arrays, layout_of
from skillstream.policies.neural import NeuralModel, neural_model
from skillstream.policies.protocol import ConditionalModel
from skillstream.policies.shape import shape_from
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
    return set(_layout(where, header, like))


def unpack(
    where: str,
    arrays: dict[str, np.ndarray],
    header: dict[str, Any],
    like: Model | None = None,
) -> tuple[Model, np.ndarray]:
    """A model and its `mu` from what a file holds, checked as if a user had given them."""
    check_arrays(where, arrays, _layout(where, header, like))
    initial = arrays["initial"]
    if _of_class(header, like):
        return fill(where, like, arrays), initial
    try:
        if header["model"] == "tabular":
            return from_tables(*(arrays[name] for name in TABLES)), initial
        if header["model"] == "neural":
            return fill(where, neural_model(shape_from(header["structure"]), 0, None), arrays), initial
        selection, mean, scale, ends = (arrays[n] for n in ("selection", "mean", "scale", "termination"))
        return gaussian_tables(selection, mean, scale, ends, float(arrays["floor"])), initial
    except (InputError, OverflowError) as error:
        raise FileFormatError(f"{where}: damaged: {error}") from error


def _layout(where: str, header: dict[str, Any], like: Model | None) -> Layout:
    """The arrays of a policy with this header, of the class given or of one that is known."""
    if _of_class(header, like):
        own = {name: (leaf.shape, str(leaf.dtype)) for name, leaf in named_arrays(like).items()}
        return own | {"initial": ((like.num_options,), "float64")}  # pyright: ignore
    layout = layout_of(where, header)
    if layout is None:
        raise FileFormatError(
            f"{where}: holds a policy of the kind {shown(header.get('model'))}, which is not known here; "
            "if it is a class of your own, give a policy of that class and shape as like="
        )
    return layout


def _of_class(header: dict[str, Any], like: Model | None) -> bool:
    """Whether a policy that the user gave is of the kind that the header says."""
    kind = header.get("model")
    return like is not None and type(like).__name__ == kind and kind not in KINDS


KINDS = {"neural": NeuralModel, "tabular gaussian": TabularGaussianModel}
