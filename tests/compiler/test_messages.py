"""What every compiler says becomes the same findings: golden logs, and text that fits no form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.compiler import compile_source
from kspec.compiler.messages import parse_log, source_line
from kspec.errors import CompileError
from kspec.model.stages import CudaSource, Header, Target
from tests.golden_cases import cases, read_case


@pytest.mark.parametrize("path", cases("messages"), ids=lambda path: path.stem)
def test_golden(path: Path, update_golden: bool) -> None:
    case = read_case(path)
    files = dict(case.files)
    text, log = files.pop("source"), files.pop("log")
    headers = tuple(Header(name, body) for name, body in files.items())
    found = parse_log(log, CudaSource("a.cu", text, headers=headers))
    case.check("\n".join(map(str, found)), update_golden)


@given(st.text(st.sampled_from("a1(:) #^|~\n\t") | st.characters(codec="utf-8"), max_size=120))
def test_any_log_is_understood(log: str) -> None:
    """Whatever a compiler prints, something is made of it, and nothing fails."""
    for text in (log, f"a.cu(3): error: {log}", f"a.cu:3:7: error: {log}"):
        found = parse_log(text, CudaSource("a.cu", "one\ntwo\nthree"))
        assert all(one.severity in ("error", "warning", "note") for one in found)
        assert all(str(one) for one in found)
    assert parse_log(f"a.cu(3): error: {log}")


def test_unknown_words_are_an_error() -> None:
    (one,) = parse_log("the compiler ate itself\nand was not sorry")
    assert (one.severity, one.message) == ("error", "the compiler ate itself and was not sorry")


def test_instantiations_of_templates_are_no_messages() -> None:
    log = """\
kspec/windows.cuh: In instantiation of ‘void kspec::each(const Op&) [with Op = <lambda()>]’:
kspec/elements.cuh:124:7:   required from ‘void kspec::for_each(const Op&) [with Op = <lambda()>]’
k.cu:12:18:   required from here
specs/a.toml:4:9: error: lvalue required as left operand of assignment
kspec/windows.cuh:209:5:   required from ‘void kspec::each(const Op&) [with bool INSIDE = true]’
"""
    (one,) = parse_log(log)
    assert (one.path, one.message) == (
        "specs/a.toml",
        "lvalue required as left operand of assignment",
    )
    assert one.details == ()


def test_line_directives_count() -> None:
    text = 'a\n#line 7 "specs/a.toml"\nb\nc\n#line 4 "k.cu"\nd'
    source = CudaSource("k.cu", text)
    assert source_line(source, "k.cu", 1) == "a"
    assert source_line(source, "specs/a.toml", 8) == "c"
    assert source_line(source, "k.cu", 4) == "d"
    assert source_line(source, "k.cu", 9) == ""


def test_a_mistake_in_a_template_is_shown_once() -> None:
    text = """\
template <class U> __device__ U twice(U v) { return v.no; }
template <class T> __global__ void f(T* x) { int unused = 3; x[0] = twice(x[0]) + v.no; }
"""
    source = CudaSource("k.cu", text, ("f<float>", "f<double>"))
    with pytest.raises(CompileError) as caught:
        compile_source(source, Target("sm_90"))
    log = str(caught.value)
    assert log.startswith('k.cu(2): error: identifier "v" is undefined\n')
    assert log.count("expression must have class type") == 1
    assert "never referenced" not in log and "Remark" not in log and "errors detected" not in log
    found = [(one.severity, one.line, one.column) for one in caught.value.diagnostics]
    assert found == [("error", 2, 83), ("error", 1, 53)]
