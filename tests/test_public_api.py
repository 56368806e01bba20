"""The public API is the list in ``kspec/__init__.py``: sorted, complete, and the same for types."""

from __future__ import annotations

import ast
import importlib

import pytest

import kspec
from tests.projects import BLOCKED, ROOT, run_python


def typed_names() -> dict[str, str]:
    """Return the names imported for type checkers and their modules."""
    tree = ast.parse((ROOT / "kspec/__init__.py").read_text(encoding="utf-8"))
    guards = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: node.module or ""
        for guard in guards
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_list_is_sorted_and_has_no_duplicates() -> None:
    assert list(kspec.__all__) == sorted(set(kspec.__all__))


@pytest.mark.parametrize("name", kspec.__all__)
def test_every_name_resolves(name: str) -> None:
    value = getattr(kspec, name)
    home = typed_names().get(name)
    if home is not None:
        assert value is getattr(importlib.import_module(home), name)
    assert value.__doc__, f"kspec.{name} has no docstring"


def test_type_checkers_see_the_same_names() -> None:
    missing = set(kspec.__all__) ^ set(typed_names())
    # Sub-packages need no import statement.
    assert not {name for name in missing if not (ROOT / "kspec" / name).is_dir()}


def test_dir_lists_it() -> None:
    assert set(kspec.__all__) <= set(dir(kspec))


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'elementwise_kernel'"):
        kspec.elementwise_kernel


def test_constructors_without_the_authoring_libraries_say_what_to_install() -> None:
    code = f"""{BLOCKED}
import kspec
try:
    kspec.ElementwiseKernel
except kspec.ToolNotFoundError as error:
    print(error)
"""
    said = run_python(code, ROOT)
    assert "kspec.ElementwiseKernel declares kernels, which needs" in said
    assert "pip install 'kspec[author]'" in said
