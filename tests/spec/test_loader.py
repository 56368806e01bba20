from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kspec.build.settings import load_settings
from kspec.errors import DuplicateKernelError, SpecError
from kspec.spec.loader import SpecFileError, load_spec_file, load_specs
from tests.golden_cases import cases, read_case

GOOD = """\
#:schema ../kspec.schema.json
doc = "Norms."

[reduction.l2norm]
inputs   = ["T x", "float32 scale"]
outputs  = ["T y"]
map      = '''
x * x'''
reduce   = "a + b"
post_map = "y = sqrt(a) * scale"
identity = 0
types    = { T = ["float16", "f4"] }

[raw.fx3]
source = "fx3.cu"
name_expressions = ["fx3<float>"]
params = ["T* arr", "int n"]

[elementwise."add"]
inputs = "T x, T y"
outputs = "T z"
operation = \"""
z = x + y;
\"""
"""


@pytest.mark.parametrize("path", cases("spec"), ids=lambda path: path.stem)
def test_rejected_files(path: Path, tmp_path: Path, update_golden: bool) -> None:
    case = read_case(path)
    case.write_files(tmp_path)
    with pytest.raises(SpecFileError) as caught:
        load_specs(tmp_path / "specs", tmp_path)
    case.check(str(caught.value), update_golden)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs" / "norms.toml"
    path.write_text(GOOD)
    (tmp_path / "specs" / "fx3.cu").write_text("// fx3\n")
    return path


def test_a_good_file(good: Path, tmp_path: Path) -> None:
    file = load_spec_file(good, tmp_path)
    assert (file.stem, file.path, file.doc) == ("norms", "specs/norms.toml", "Norms.")
    assert [(spec.kind, spec.name) for spec in file.specs] == [
        ("reduction", "l2norm"),
        ("raw", "fx3"),
        ("elementwise", "add"),
    ]
    assert file.specs[1].text == "// fx3\n"  # type: ignore[union-attr]
    assert file.specs[0].identity == "0"  # type: ignore[union-attr]
    assert load_specs(tmp_path / "specs", tmp_path) == (file,)
    assert pickle.loads(pickle.dumps(file)) == file


def test_lines_point_at_the_first_line_of_content(good: Path, tmp_path: Path) -> None:
    file = load_spec_file(good, tmp_path)
    text = GOOD.splitlines()
    expected = {
        ("l2norm", "map"): "x * x'''",
        ("l2norm", "reduce"): 'reduce   = "a + b"',
        ("add", "operation"): "z = x + y;",
        ("fx3", "source"): 'source = "fx3.cu"',
    }
    assert {key: text[file.lines[key] - 1] for key in expected} == expected


def test_windows_line_ends(good: Path, tmp_path: Path) -> None:
    before = load_spec_file(good, tmp_path)
    good.write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert load_spec_file(good, tmp_path) == before


def test_only_duplicates_is_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('raw.f.code = "x"')
    (tmp_path / "b.toml").write_text('raw.f.code = "x"')
    with pytest.raises(DuplicateKernelError, match=r"declared already in a\.toml:1") as caught:
        load_specs(tmp_path, tmp_path)
    assert isinstance(caught.value, SpecFileError)
    (tmp_path / "b.toml").write_text("raw.f.code = 3")
    with pytest.raises(SpecFileError) as mixed:
        load_specs(tmp_path, tmp_path)
    assert not isinstance(mixed.value, DuplicateKernelError)


def test_problems_are_data(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[raw.f]\ncode = 3")
    with pytest.raises(SpecFileError) as caught:
        load_specs(tmp_path, tmp_path)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.column) == ("a.toml", 2, 8)
    assert problem.source_line == "code = 3"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("stem", ["2d", "my-norms", "class"])
def test_stem_is_a_module_name(stem: str, tmp_path: Path) -> None:
    (tmp_path / f"{stem}.toml").write_text("")
    with pytest.raises(SpecFileError, match="is not a Python identifier; rename the file"):
        load_specs(tmp_path, tmp_path)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no folder 'specs'"):
        load_specs(tmp_path / "specs", tmp_path)
    with pytest.raises(SpecFileError, match=r"a\.toml:1:1: error: cannot be read: No such file"):
        load_spec_file(tmp_path / "a.toml", tmp_path)
    (tmp_path / "a.toml").write_bytes(b"\xff")
    with pytest.raises(SpecFileError, match="not UTF-8"):
        load_spec_file(tmp_path / "a.toml", tmp_path)


def test_no_files_no_specs(tmp_path: Path) -> None:
    assert load_specs(tmp_path, tmp_path) == ()


def test_a_byte_order_mark_is_left_out(tmp_path: Path) -> None:
    """Some editors begin files with it."""
    text = '[elementwise.f]\ninputs = "T x"\noutputs = "T y"\noperation = "y = x"\n'
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs/a.toml"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    file = load_spec_file(path, tmp_path)
    assert [spec.name for spec in file.specs] == ["f"] and file.lines["f", "name"] == 1
    path.write_bytes(b"\xef\xbb\xbf" + text.replace('"T y"', '"T y').encode())
    with pytest.raises(SpecFileError, match=r"specs/a\.toml:3:"):
        load_spec_file(path, tmp_path)
    (tmp_path / "pyproject.toml").write_bytes(b"\xef\xbb\xbf[tool.kspec]\nspecs = 'mine'\n")
    assert load_settings(tmp_path).specs == "mine"
