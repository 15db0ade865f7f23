"""`skillstream demo`: the whole story in about two minutes."""

from dataclasses import dataclass
from pathlib import Path

from skillstream.errors import InputError


@dataclass(frozen=True)
class Demo:
    """Learn the known skills of two experts, from a stream and in batch, and compare.

    Example: skillstream demo --seed 1
    """

    starts: int = 4
    """Random starts of each algorithm; the best on the training data is kept."""
    seed: int = 0
    """Gives the same numbers twice."""
    output: Path = Path("runs/demo")
    """Directory for the reports, policies and pictures; if it exists, one with a number is made."""

    def __post_init__(self) -> None:
        for name, least in (("starts", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"--{name}: must be at least {least}, found {getattr(self, name)}")

    def run(self) -> int:
        """Run it."""
        from rich.console import Console

        from skillstream.experiments.demo import run_demo
        from skillstream.runs import unused

        run_demo(self.starts, self.seed, unused(self.output), Console())
        return 0
