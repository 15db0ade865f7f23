"""The command line. Nothing heavy is loaded before a command has been chosen and its flags are right."""

import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from skillstream.errors import InputError, SkillstreamError


@dataclass(frozen=True)
class Demo:
    """Learn the two known skills of a small expert, from a stream and in batch, and compare.

    Example: skillstream demo --steps 50000 --seed 1
    """

    steps: int = 20_000
    """Steps of demonstration to learn from."""
    starts: int = 6
    """Random starts of each algorithm; the best on the training data is kept."""
    seed: int = 0
    """Gives the same numbers twice."""
    output: Path = Path("runs/demo")
    """Directory for the picture and the policies; if it exists, one with a number is made."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1000), ("starts", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"--{name}: must be at least {least}, found {getattr(self, name)}")

    def run(self) -> None:
        """Run it."""
        from rich.console import Console

        from skillstream.experiments.demo import run_demo

        run_demo(self.steps, self.starts, self.seed, _unused(self.output), Console())


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code is 0, or 2 for bad input."""
    try:
        command = tyro.extras.subcommand_cli_from_dict(
            {"demo": Demo},
            prog="skillstream",
            description="Learn options (skills) from expert demonstrations, in batch or from a stream.",
            args=arguments,
        )
        command.run()
    except (SkillstreamError, OSError) as error:
        print(f"skillstream: {error}", file=sys.stderr)
        return 2
    return 0


def _unused(directory: Path) -> Path:
    """The directory itself, or with the first number that makes it new."""
    candidate, number = directory, 1
    while candidate.exists():
        number += 1
        candidate = directory.with_name(f"{directory.name}-{number}")
    return candidate
