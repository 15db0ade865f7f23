"""What importing costs and shows."""

import subprocess
import sys

import pytest

import skillstream as ss


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_every_public_name_is_there():
    for name in ss.__all__:
        assert getattr(ss, name) is not None
        assert name in dir(ss)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        ss.nothing_like_it  # noqa: B018


@pytest.mark.parametrize("heavy", ["jax", "matplotlib", "gymnasium", "minari", "pyarrow", "h5py", "numpy"])
def test_importing_the_package_loads_nothing_heavy(heavy):
    assert run(f"import skillstream, sys; print({heavy!r} in sys.modules)").strip() == "False"


@pytest.mark.parametrize("heavy", ["matplotlib", "gymnasium", "minari", "pyarrow", "h5py"])
def test_learning_loads_no_plots_and_no_worlds(heavy):
    code = "import skillstream as ss, sys; "
    code += "[getattr(ss, name) for name in ss.__all__ if not name.startswith('make_')]; "
    code += f"print({heavy!r} in sys.modules)"
    assert run(code).strip() == "False"
