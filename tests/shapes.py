"""The run-time check of the shapes in signatures, for the modules that hold the mathematics."""

from beartype import BeartypeConf, beartype

CHECKED = [
    "skillstream.inference",
    "skillstream.learning.objective",
    "skillstream.learning.reservoir",
    "skillstream.learning.sample_stream",
    "skillstream.learning.samples",
    "skillstream.learning.stream",
    "skillstream.learning.tables",
    "skillstream.policies.chains",
    "skillstream.policies.distributions",
    "skillstream.policies.gaussian",
    "skillstream.policies.networks",
    "skillstream.policies.neural",
    "skillstream.policies.protocol",
    "skillstream.policies.tabular",
]

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
