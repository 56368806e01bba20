"""A few draws of each family, so that the programs stay alive; `__main__` runs thousands."""

import importlib
import pathlib
import pkgutil

import pytest

from tests import drawn
from tests.drawn.__main__ import program
from tests.drawn.worker import run

NAMES = [
    m.name for m in pkgutil.iter_modules(drawn.__path__) if not m.name.startswith(("_", "test_"))
]
MODULES = {name: importlib.import_module(f"tests.drawn.{name}") for name in NAMES}
FAMILIES = [name for name, module in MODULES.items() if hasattr(module, "draw")]


@pytest.mark.parametrize("index", range(6))
@pytest.mark.parametrize("family", FAMILIES)
def test_drawn_programs_are_right(family: str, index: int, tmp_path: pathlib.Path) -> None:
    text = program(family, 0, index)
    kind, _, trace = run(text, str(tmp_path / "drawn.py"), "host")
    assert kind == "right", f"{text}\n{trace}"
