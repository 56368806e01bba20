"""What the package reads is data: who pickles, evaluates or executes anything is listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.projects import ROOT

PACKAGE = ROOT / "kspec"
FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
# Modules whose formats can make a reader run code.
UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "yaml",
}
# Built-in function to the files that call it.
EVALUATING = {
    # `reference`, by `kspec demo` and `kspec test`; what launch rules became in our own parser.
    "eval": {"build/examples.py", "launch_rules.py"},
    # Call paths of kernels: text that these modules write, of positions and dtypes.
    "exec": {"runtime/raw_launch.py", "runtime/raw_route.py", "runtime/route.py"},
    # The same text; whether a `reference` parses; whether a launch rule is nested too deeply.
    "compile": {"runtime/pattern.py", "spec/rules.py", "expressions.py"},
    "__import__": set(),
}


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Name) and node.id in EVALUATING:
            yield node.id  # handed to something that calls it


def modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_pickled(name: str) -> None:
    tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
    assert UNSAFE_MODULES.isdisjoint(modules(tree))


@pytest.mark.parametrize("function", EVALUATING)
def test_who_evaluates(function: str) -> None:
    found = {
        name
        for name in FILES
        if function in calls(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))
    }
    assert found == EVALUATING[function]


def test_numpy_does_not_unpickle() -> None:
    for name in FILES:
        tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
        words = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
        assert "allow_pickle" not in keywords | words
