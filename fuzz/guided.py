"""Fuzz one reader guided by coverage, with Atheris (libFuzzer); needs the extra `fuzz`.

    python fuzz/guided.py csv -max_total_time=60 [any other flag of libFuzzer's]

Inputs come from the same mutators as in `campaign.py`, and are judged alike; those that reach a new branch of
the readers' Python live on. The first failure ends the run and is kept beside the others.
"""

import importlib
import pkgutil
import random
import shutil
import sys
import warnings
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parent))
with atheris.instrument_imports(include=["skillstream"]):
    import targets
    from campaign import Worker

    import skillstream

    for module in pkgutil.walk_packages(skillstream.__path__, "skillstream."):
        if module.name.startswith(
            ("skillstream.demonstrations", "skillstream.learning")
        ):  # most come in late
            importlib.import_module(module.name)

_SEPARATOR = b"\x00\xff--file--\xff\x00"


def main() -> None:
    """Set libFuzzer up and hand over to it."""
    name, scratch = sys.argv.pop(1), Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")
    scratch /= f"skillstream-guided-{name}"
    warnings.simplefilter("error")
    for quiet in ("gymnasium", "minari", "h5py", "jax", "atheris"):
        warnings.filterwarnings("ignore", module=quiet)
    worker = Worker(name, "guided", scratch, Path(__file__).parent / "found")
    names = list(worker.seeds[0])
    corpus = scratch / "corpus"
    corpus.mkdir()
    alike = [files for files in worker.seeds if list(files) == names]
    for number, files in enumerate(alike):
        (corpus / str(number)).write_bytes(_SEPARATOR.join(files.values()))

    def files_of(data: bytes) -> targets.Files:
        return dict(zip(names, data.split(_SEPARATOR, len(names) - 1), strict=False))

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        files = files_of(data)
        if list(files) != names:
            return _SEPARATOR.join(alike[0].values())
        changed = targets.mutated(worker.target, rng, files, rng.choice(alike))
        return _SEPARATOR.join(changed.values())[:most]

    def once(data: bytes) -> None:
        files = files_of(data)
        if list(files) != names:
            return
        verdict, what = worker.outcome(files)
        if verdict == "failed":
            worker.save("failed", files, str(what))
            raise AssertionError(f"{name}: {what}")

    worker.keep.mkdir(parents=True, exist_ok=True)
    flags = [sys.argv[0], str(corpus), "-rss_limit_mb=3000", f"-max_len={2**18}", "-len_control=0"]
    flags += [f"-timeout={20 if name == 'learner' else 1}", f"-artifact_prefix={worker.keep}/"]  # it compiles
    atheris.Setup([*flags, *sys.argv[1:]], once, custom_mutator=mutate)
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
