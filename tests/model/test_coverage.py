"""What a spec must say so that more is precompiled."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

from kspec.model.coverage import (
    Coverage,
    bindings_of,
    layout_fault,
    layout_text,
    layouts_of,
    parse_layout,
    types_text,
    widened,
)
from kspec.model.declaration import ElementwiseDeclaration, ReductionDeclaration
from kspec.model.signature import Param, Signature

X, Y = Param("T", "x"), Param("T", "y")
RAW = Param("T", "w", raw=True)
PLAIN = ElementwiseDeclaration("f", Signature((X,)), Signature((Y,)))
INDEXED = ElementwiseDeclaration("f", Signature((X, RAW)), Signature((Y,)))
FOLD = ReductionDeclaration("f", Signature((X,)), Signature((Y,)))


def binding(**types: str) -> tuple[tuple[str, str], ...]:
    return tuple(types.items())


@pytest.mark.parametrize(
    ("types", "wanted", "result"),
    [
        ({}, [binding(T="int8")], {"T": ("int8",)}),
        ({"T": ("int8",)}, [binding(T="int8")], {"T": ("int8",)}),
        (({"T": "int8"},), [binding(T="int16")], ({"T": "int8"}, {"T": "int16"})),
    ],
)
def test_widened(types, wanted, result) -> None:
    assert widened(types, ("T",), wanted) == result


def test_lists_grow_while_they_compile_little_that_nobody_asked_for() -> None:
    types = {"S": ("int8",), "T": ("int8",)}
    grown = widened(types, ("S", "T"), [binding(S="int16", T="int16")])
    assert grown == {"S": ("int8", "int16"), "T": ("int8", "int16")}
    wanted = [binding(S="int16", T="int16"), binding(S="int32", T="int32")]
    rows = widened(types, ("S", "T"), wanted)
    assert rows == tuple({"S": one, "T": one} for one in ("int8", "int16", "int32"))


@pytest.mark.parametrize(
    "types",
    [{"T": ("int8", "{x: float32, n: int32[3]}")}, ({"S": "int8", "T": "int16"},), {}],
)
def test_the_text_of_types_is_toml(types) -> None:
    parsed = tomllib.loads(f"types = {types_text(types)}")["types"]
    if isinstance(types, dict):
        assert {letter: tuple(names) for letter, names in parsed.items()} == types
    else:
        assert tuple(parsed) == types


def test_bindings_without_placeholders() -> None:
    assert bindings_of({}, ()) == ((),)
    assert bindings_of({}, ("T",)) == ()
    assert Coverage(1, {"T": ("int8",)}).bindings(("T",)) == (binding(T="int8"),)


def test_layouts_beside_those_that_follow() -> None:
    usual = layouts_of(INDEXED, binding(T="float32"))
    more = layouts_of(INDEXED, binding(T="float32"), ["Strided<64>, 3", "Flat, 1"])
    assert more == (*usual, ("kspec::Strided<64>", (3,)))
    for layout, ndims in more:
        assert parse_layout(layout_text(layout, ndims)) == (layout, ndims)
        assert not layout_fault(INDEXED, layout_text(layout, ndims))


@pytest.mark.parametrize(
    ("declaration", "text", "message"),
    [
        (PLAIN, "Flta", "unknown layout 'Flta'; expected one of Flat, Rows, "),
        (FOLD, "Flat", "unknown layout 'Flat'; expected one of Lines, "),
        (PLAIN, "Flat, 3", "'Flat, 3' has numbers, but the kernel indexes no array by itself"),
        (INDEXED, "Flat", "'Flat' needs the number of axes of 1 array that the kernel indexes"),
        (INDEXED, "Flat, x", "needs the number of axes"),
        (PLAIN, "", "unknown layout ''"),
    ],
)
def test_layouts_that_there_are_not(declaration, text: str, message: str) -> None:
    assert message in layout_fault(declaration, text)


class TestParts:
    """``layouts = ["parts"]``: what reduces arrays that are in several places."""

    def test_they_are_compiled_beside_the_others(self) -> None:
        plain = layouts_of(FOLD, binding(T="float32"))
        more = layouts_of(FOLD, binding(T="float32"), ["parts"])
        assert more[: len(plain)] == plain
        assert [layout.replace("kspec::", "") for layout, _ in more[len(plain) :]] == [
            "ToAggregates<Strided<8>>",
            "ToAggregates<Lines>",
            "ToAggregates<ShortLines>",
            "ToAggregates<Columns>",
            "ToAggregates<FromAggregates<Strided<8>>>",
            "FromAggregates<Strided<8>>",
        ]
        assert {layout_text(*one) for one in more[len(plain) :]} == {"parts"}

    def test_forms_have_theirs(self) -> None:
        ordered = {"ToAggregates<SegmentLines<8>>", "ToAggregates<SegmentColumns<8>>"}
        scans = {f"Continued<Scan{one}<8>>" for one in ("Lines", "Columns", "Walks", "Waves")}
        joined = {"ToAggregates<FromAggregates<Strided<8>>>", "FromAggregates<Strided<8>>"}
        keyed = {f"Counting<{one}>" for one in joined}
        keyed |= {f"ToAggregates<Key{one}<8>>" for one in ("Cells", "Runs", "Groups", "Sorted")}
        plain = set(layouts_of(FOLD, binding(T="float32"), ["parts"]))
        for forms, wanted in (
            (("scan",), ordered | scans),
            (("segments",), ordered),
            (("by_key",), keyed),
            (("window",), set()),
        ):
            kernel = replace(FOLD, forms=forms)
            more = layouts_of(kernel, binding(T="float32"), ["parts"])
            stages = {one for one in more if layout_text(*one) == "parts"} - plain
            assert {layout.replace("kspec::", "") for layout, _ in stages} == wanted

    def test_faults(self) -> None:
        assert layout_fault(FOLD, "parts") == ""
        assert "elementwise kernels take each part by itself" in layout_fault(PLAIN, "parts")
        indexed = replace(FOLD, indexed=True)
        assert layout_fault(indexed, "parts").startswith("'parts' is not possible: its map")
        unknown = replace(FOLD, ordered=True)  # by a package of an older kspec
        assert layout_fault(unknown, "parts").startswith("'parts' is not possible")
