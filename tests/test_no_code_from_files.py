"""Nothing in the package unpickles, evaluates or starts a program, so no file that is read runs code."""

import ast
from pathlib import Path

import pytest

import skillstream

SOURCES = sorted(Path(skillstream.__file__).parent.rglob("*.py"))
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "jsonpickle", "marshal", "shelve"}
MODULES |= {"subprocess", "pty", "runpy", "code", "codeop", "ctypes", "cffi", "yaml", "torch"}
BUILTINS = {"eval", "exec", "compile", "__import__", "execfile"}
ATTRIBUTES = {
    "system",
    "popen",
    "execv",
    "execve",
    "execvp",
    "spawnv",
    "spawnl",
    "posix_spawn",
    "read_pickle",
}
# Of joblib, what runs trials in processes of this very program; its files, which are pickles, stay unread.
WORKERS = {"Parallel", "delayed", "parallel_config"}
# What each may name without a file saying so: public names, readers of formats, libraries of extras.
IMPORTERS = {"__init__.py", "formats.py", "pieces.py"}


def complaints(source: str, name: str = "some.py") -> list[str]:
    return [problem for node in ast.walk(ast.parse(source)) for problem in _problems(node, name)]


def _problems(node: ast.AST, name: str):
    if isinstance(node, ast.Import | ast.ImportFrom):
        modules = (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if not (modules == ["joblib"] and {alias.name for alias in node.names} <= WORKERS):
            yield from (module for module in modules if module.partition(".")[0] in MODULES)
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name) and called.id in BUILTINS:
            yield called.id
        if isinstance(called, ast.Name) and called.id == "import_module" and name not in IMPORTERS:
            yield "import_module"
        if isinstance(called, ast.Attribute):
            of = getattr(called.value, "id", "")
            if called.attr in ATTRIBUTES or (called.attr in ("load", "loads") and of in ("np", "numpy")):
                yield f"{of}.{called.attr}"
        for keyword in node.keywords:
            given = getattr(keyword.value, "value", None)
            if keyword.arg in ("allow_pickle", "shell") and given is not False:
                yield f"{keyword.arg}={given}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_can_run_what_a_file_says(path):
    assert complaints(path.read_text(), path.name) == []


def test_joblib_may_run_trials_but_not_read_files():
    assert complaints("from joblib import Parallel, delayed") == []
    assert complaints("from joblib import Parallel, load") == ["joblib"]
    assert complaints("import joblib") == ["joblib"]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from subprocess import run",
        "eval('1')",
        "os.system('true')",
        "np.load(path)",
        "np.lib.format.read_array(file, allow_pickle=True)",
        "run('x', shell=True)",
        "import_module(name)",
    ],
)
def test_the_check_finds_them(source):
    assert complaints(source)
