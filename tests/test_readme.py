"""The README's Python runs, block after block, as a reader would type it."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


@pytest.mark.filterwarnings("ignore::skillstream.errors.ImpossibleSampleWarning")
def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) >= 3
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.startswith("Evaluation(100 episodes, return 12")
    assert (tmp_path / "segments.csv").exists()
