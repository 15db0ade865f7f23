import jax
import pytest
from jaxtyping import install_import_hook
from shapes import CHECKED

# Before any of these modules is imported for the first time.
install_import_hook(CHECKED, "shapes.checker")

jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(autouse=True)
def global_configuration_is_left_alone():
    before = jax.config.jax_enable_x64
    yield
    assert jax.config.jax_enable_x64 == before
