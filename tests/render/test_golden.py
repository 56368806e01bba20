"""Rendered text of whole spec files, byte for byte, and that every one of them compiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kspec.model.stages import CudaSource, Target
from kspec.render import render_file, specializations
from kspec.spec.loader import load_specs
from tests.compiling import compiled
from tests.golden_cases import cases, read_case


@pytest.mark.parametrize("path", cases("render"), ids=lambda path: path.stem)
def test_rendered_text(path: Path, tmp_path: Path, update_golden: bool) -> None:
    case = read_case(path)
    case.write_files(tmp_path)
    files = load_specs(tmp_path / "specs", tmp_path)
    text = "".join(render_file(spec_file) for spec_file in files)
    case.check(text, update_golden)
    assert text == "".join(render_file(f) for f in load_specs(tmp_path / "specs", tmp_path))
    assert str(tmp_path) not in text


@pytest.mark.parametrize("path", cases("render"), ids=lambda path: path.stem)
def test_rendered_text_compiles(path: Path, tmp_path: Path) -> None:
    read_case(path).write_files(tmp_path)
    for spec_file in load_specs(tmp_path / "specs", tmp_path):
        source = CudaSource(f"{spec_file.stem}.cu", render_file(spec_file))
        wanted = [one.name_expression for spec in spec_file.specs for one in specializations(spec)]
        image = compiled(replace(source, name_expressions=tuple(wanted)), Target("compute_80"))
        assert set(image.symbols) == set(wanted)
        assert image.log == ""
