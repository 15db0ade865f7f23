"""Writes the tables that come with the package: `python -m skillstream.experts.training`."""

import time

from rich.console import Console

from skillstream.experts.trained import PACKAGED, TRAININGS, train, write


def main() -> None:
    """Train every expert with seed 0, in place of the tables that are there."""
    console = Console()
    PACKAGED.mkdir(exist_ok=True)
    for name, task in TRAININGS.items():
        began = time.perf_counter()
        learnt = train(name)
        for old in PACKAGED.glob(f"{name}-*.safetensors"):
            old.unlink()
        path = PACKAGED / f"{name}-{task.key(0)}.safetensors"
        write(path, learnt, name)
        console.print(f"{name}: mean return {learnt.score:.2f}, {time.perf_counter() - began:.1f} s, {path}")


if __name__ == "__main__":
    main()
