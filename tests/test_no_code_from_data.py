"""What the package reads is data: who pickles, evaluates or executes anything is listed here."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

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
    "eval": {"build/properties/examples.py", "model/raw/launch_rules.py"},
    # Call paths of kernels: text that these modules write, of positions and dtypes.  Constructors
    # of our dataclasses: of the names of their fields.
    "exec": {"runtime/callcache/__init__.py", "dataclass.py"},
    # The same text; whether a `reference` parses; whether a launch rule is nested too deeply.
    "compile": {"runtime/callcache/codegen.py", "spec/rules.py", "model/raw/expressions.py"},
    "__import__": set(),
}


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
        elif isinstance(node, ast.Name) and node.id in EVALUATING:
            yield node.id  # handed to something that calls it


def imported(node: ast.AST) -> list[str]:
    """Return the modules at the top of packages that a node imports."""
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]]
    return []


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.AST]:
    """Return each file of the package, parsed."""
    return {name: ast.parse((PACKAGE / name).read_text(encoding="utf-8")) for name in FILES}


def places(trees: dict[str, ast.AST], is_found: Callable[[ast.AST], bool]) -> list[str]:
    """Return the places of the nodes that are looked for."""
    return [
        f"kspec/{name}:{getattr(node, 'lineno', 0)}"
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if is_found(node)
    ]


def test_nothing_is_pickled(trees: dict[str, ast.AST]) -> None:
    assert places(trees, lambda node: not UNSAFE_MODULES.isdisjoint(imported(node))) == []


@pytest.mark.parametrize("function", EVALUATING)
def test_who_evaluates(function: str, trees: dict[str, ast.AST]) -> None:
    assert {name for name, tree in trees.items() if function in calls(tree)} == EVALUATING[function]


def test_numpy_does_not_unpickle(trees: dict[str, ast.AST]) -> None:
    def is_found(node: ast.AST) -> bool:
        return "allow_pickle" in (getattr(node, "attr", ""), getattr(node, "arg", ""))

    assert places(trees, is_found) == []
