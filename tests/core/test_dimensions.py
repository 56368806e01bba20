"""The model of core dimensions: their texts, the sizes of a call, declarations and manifests."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kspec
from kspec.errors import ShapeError, SignatureSyntaxError
from kspec.model import manifest
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.dimensions import (
    DimensionError,
    bind_core,
    core_names,
    core_shape,
    core_signature,
    dimension,
    split_core,
)
from kspec.model.infer import Abstract, infer
from kspec.model.manifest import Manifest, ModuleEntry
from kspec.model.signature import Param, Signature
from kspec.runtime.schedules import marshal
from kspec.spec.parser import parse_signature
from tests.core.kernels import CONVOLVE, FIRST, MATVEC, SOLVE
from tests.core.test_schedules import compiled


def params(text: str) -> tuple[Param, ...]:
    return parse_signature(text).params


class TestTexts:
    @pytest.mark.parametrize(
        ("text", "canonical", "names"),
        [
            ("n", "n", ("n",)),
            (" n ", "n", ("n",)),
            ("3", "3", ()),
            ("0", "0", ()),
            ("0x10", "16", ()),
            ("n+m-1", "n + m - 1", ("n", "m")),
            ("(n)", "n", ("n",)),
            ("(n+1)*2", "(n + 1) * 2", ("n",)),
            ("n - (m - k)", "n - (m - k)", ("n", "m", "k")),
            ("n*n//2", "n * n // 2", ("n",)),
        ],
    )
    def test_canonical(self, text: str, canonical: str, names: tuple[str, ...]) -> None:
        one = dimension(text)
        assert one.text == canonical
        assert sorted(one.names) == sorted(names)
        assert dimension(canonical) == one

    @pytest.mark.parametrize(
        ("text", "is_name", "is_plain"),
        [("n", True, True), ("3", False, True), ("n + 1", False, False), ("n * n", False, False)],
    )
    def test_kinds(self, text: str, is_name: bool, is_plain: bool) -> None:
        assert (dimension(text).is_name, dimension(text).is_plain) == (is_name, is_plain)

    @pytest.mark.parametrize(
        "text",
        [
            *("", " ", "n /2", "n % 2", "n ** 2", "1.5", "True", "'a'", "f(n)", "n.m", "n, m"),
            *("n[0]", "not n", "n if m else k", "n == m", "n\nm", "n := 2", "*n", "2 n", "(n"),
            *("[n]", "{n}", "n and m", "n | 1", "~n", "n << 1", "...", "None", "1j", "\0"),
            "(" * 500 + "n" + ")" * 500,
        ],
    )
    def test_no_dimensions(self, text: str) -> None:
        with pytest.raises(DimensionError) as caught:
            dimension(text)
        assert str(caught.value) == (
            f"{text.strip()!r} is not a dimension; write a name, a number, or an expression of "
            "them with + - * //"
        )


_names = st.sampled_from("nmk")
_numbers = st.integers(0, 9).map(str)


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "//"])
    return st.tuples(inner, operators, inner).map(lambda one: f"({one[0]} {one[1]} {one[2]})")


expressions = st.recursive(st.one_of(_names, _numbers), _joined, max_leaves=6)


@given(text=expressions, n=st.integers(0, 9), m=st.integers(0, 9), k=st.integers(0, 9))
def test_values_are_pythons(text: str, n: int, m: int, k: int) -> None:
    sizes = {"n": n, "m": m, "k": k}
    one = dimension(text)
    assert dimension(one.text) == one
    try:
        wanted = eval(text, {}, dict(sizes))
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            one.value(sizes)
    else:
        assert one.value(sizes) == wanted


def test_values_of_the_compiler_are_the_same() -> None:
    texts = ["n + m - 1", "n // m", "(1 - n) // m", "(n - m) // 3"]
    texts += ["n * (n + 1) // 2", "n - m - 3", "n - (m - 3)", "2 * n - 3 * m", "(0 - n) // (0 - m)"]
    rows = [*itertools.product(range(5), range(1, 4))]
    calls = "".join(
        f"  {{ const int n = {n}, m = {m}; *out++ = {dimension(text).cpp}; }}\n"
        for text, (n, m) in itertools.product(texts, rows)
    )
    found = np.zeros((len(texts), len(rows)), "int64")
    block = marshal.PackedParameters([found.ctypes.data.to_bytes(8, "little")])
    kernel = compiled(f"__global__ void item_sizes(long long* out) {{\n{calls}}}\n", "item_sizes")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    wanted = [[dimension(text).value({"n": n, "m": m}) for n, m in rows] for text in texts]
    assert found.tolist() == wanted


class TestParser:
    @pytest.mark.parametrize(
        ("text", "core", "ndim"),
        [
            ("T x", (), None),
            ("T x[n]", ("n",), None),
            ("T x [ n , 3 ]", ("n", "3"), None),
            ("T x[n,m,k,n]", ("n", "m", "k", "n"), None),
            ("T x[n+m-1, 2*n]", ("n + m - 1", "2 * n"), None),
            ("_non_const T x[n]", ("n",), None),
            ("float32 x[n]", ("n",), None),
            ("raw T x", (), None),
            ("raw T x[2]", (), 2),
            ("raw T x[0]", (), 0),
            ("raw T x[64]", (), 64),
        ],
    )
    def test_brackets(self, text: str, core: tuple[str, ...], ndim: int | None) -> None:
        (param,) = params(text)
        assert (param.core, param.ndim) == (core, ndim)
        assert parse_signature(str(param)).params == (param,)

    @pytest.mark.parametrize(
        ("text", "column", "message"),
        [
            ("T x[n", 3, "']' is missing"),
            ("T a, T x[n", 8, "']' is missing"),
            ("T x[]", 4, "'' is not a dimension"),
            ("T x[n,]", 6, "'' is not a dimension"),
            ("T x[,n]", 4, "'' is not a dimension"),
            ("T x[n, m / 2]", 7, "'m / 2' is not a dimension"),
            ("T x[-1]", 4, "'-1' is not a dimension"),
            ("T x[2.0]", 4, "'2.0' is not a dimension"),
            ("T x[n] y", 7, "nothing can follow ']'"),
            ("T x[n][m]", 6, "nothing can follow ']'"),
            ("T x[n]]", 6, "nothing can follow ']'"),
            ("T x[a, b, c, d, e]", 3, "a parameter has at most 4 core dimensions, not 5"),
            ("raw T x[n]", 7, "a raw parameter has the number of its axes in brackets"),
            ("raw T x[1, 2]", 7, "a raw parameter has the number of its axes in brackets"),
            ("raw T x[65]", 7, "a raw parameter has the number of its axes in brackets"),
            ("raw T x[1 + 1]", 7, "a raw parameter has the number of its axes in brackets"),
            ("T [n]", 0, "'T' is not a parameter; write a type and a name"),
            ("[n]", 0, "no parameter"),
        ],
    )
    def test_faults(self, text: str, column: int, message: str) -> None:
        with pytest.raises(SignatureSyntaxError) as caught:
            parse_signature(text)
        error: Any = caught.value
        assert message in str(error), str(error)
        assert error.offset == column, str(error)


_cores = st.lists(expressions.map(lambda text: dimension(text).text), max_size=4).map(tuple)
_keywords = st.sampled_from(["", "raw ", "_non_const "])


@given(cores=st.lists(_cores, max_size=4), keywords=st.lists(_keywords, min_size=4, max_size=4))
def test_printing_undoes_parsing(cores: list[tuple[str, ...]], keywords: list[str]) -> None:
    made = []
    for number, (core, keyword) in enumerate(zip(cores, keywords, strict=False)):
        if keyword == "raw ":
            made.append(Param("T", f"x{number}", raw=True, ndim=len(core) or None))
        else:
            made.append(Param("T", f"x{number}", non_const=bool(keyword), core=core))
    signature = Signature(tuple(made))
    assert parse_signature(str(signature)) == signature


class TestBinding:
    def test_names(self) -> None:
        found = core_names(params("T A[n, m], T b[m], raw T u[2], T c[k + n, 3]"))
        assert found == ("n", "m", "k")
        assert core_names(params("T x, T y")) == ()

    def test_signatures(self) -> None:
        inputs, outputs = (
            parse_signature("T A[n, m], T b, T c[3]"),
            parse_signature("T y[n+m], T z"),
        )
        assert core_signature(inputs, outputs) == "(n,m),(),(3)->(n + m),()"

    def test_split(self) -> None:
        (A,) = params("T A[n, m]")
        assert split_core("k", A, (5, 6, 3, 4)) == ((5, 6), (3, 4))
        assert split_core("k", A, (3, 4)) == ((), (3, 4))
        assert split_core("k", params("T x")[0], (3, 4)) == ((3, 4), ())
        with pytest.raises(ShapeError) as caught:
            split_core("k", A, (3,))
        assert str(caught.value) == (
            "k: argument A does not have enough dimensions (has 1, T A[n, m] requires 2)"
        )

    def test_sizes(self) -> None:
        A, b, c = params("T A[n, n], T b[m], T c[2]")
        arguments: list[Any] = [(A, (7, 3, 3)), (b, (4,)), (c, (1, 2))]
        assert bind_core("k", arguments, {"q": 9}, "") == {"q": 9, "n": 3, "m": 4}
        assert bind_core("k", [], {"q": 9}, "") == {"q": 9}

    @pytest.mark.parametrize(
        ("text", "shape", "given", "axis", "found", "wanted"),
        [
            ("T A[n, n]", (7, 3, 4), {}, 1, 4, 3),
            ("T A[n]", (4,), {"n": 3}, 0, 4, 3),
            ("T A[3]", (4,), {}, 0, 4, 3),
            ("T A[2, n + 1]", (2, 4), {"n": 2}, 1, 4, 3),
            ("T A[1]", (3,), {}, 0, 3, 1),
            ("T A[3]", (1,), {}, 0, 1, 3),
        ],
    )
    def test_mismatches(
        self, text: str, shape: Any, given: dict[str, int], axis: int, found: int, wanted: int
    ) -> None:
        with pytest.raises(ShapeError) as caught:
            bind_core("k", [(params(text)[0], shape)], given, "(n)->()")
        assert str(caught.value) == (
            f"k: argument A has a mismatch in its core dimension {axis}, with signature (n)->() "
            f"(size {found} is different from {wanted})"
        )

    def test_shapes_of_outputs(self) -> None:
        (c,) = params("T c[n + m - 1, 2, n // m]")
        assert core_shape("k", c, {"n": 3, "m": 2}) == (4, 2, 1)
        assert core_shape("k", params("T c")[0], {}) == ()
        with pytest.raises(ShapeError) as caught:
            core_shape("k", c, {"n": 0, "m": 0})
        assert str(caught.value) == f"k: {c} has n + m - 1 = -1 elements for n = 0, m = 0"
        with pytest.raises(ShapeError) as caught:
            core_shape("k", c, {"n": 3, "m": 0})
        assert str(caught.value) == f"k: {c} divides by zero in n // m for n = 3, m = 0"

    def test_as_many_elements_as_integers_count(self) -> None:
        (A,) = params("T A[n, n]")
        largest = 2**31 - 1
        assert split_core("k", A, (largest, 1)) == ((), (largest, 1))
        for shape, count in [((2**31, 1), 2**31), ((2**16, 2**15), 2**31), ((0, 2**40), 2**40)]:
            with pytest.raises(ShapeError) as caught:
                split_core("k", A, shape)
            assert str(caught.value) == (
                f"k: argument A has {count} elements along its core dimensions; kernels take "
                f"{largest}"
            )
        with pytest.raises(ShapeError, match="argument A has 4294967296 elements along"):
            core_shape("k", A, {"n": 2**16})

    def test_symbols_pass_through(self) -> None:
        """torch and Dask have extents that are unknown: they are neither compared nor counted."""
        nan = float("nan")
        (A,) = params("T A[n, m]")
        assert split_core("k", A, (nan, 2**40, nan))[0] == (nan,)
        (c,) = params("T c[n + 1]")
        (extent,) = core_shape("k", c, {"n": nan})
        assert extent != extent


class TestInference:
    def test_shapes(self) -> None:
        a, b = Abstract((5, 1, 3), "float32"), Abstract((4, 2), "float32")
        found = infer(CONVOLVE.declaration, [a, b])
        assert (found.loop, found.shape, found.shapes) == ((5, 4), (5, 4), ((5, 4, 4),))
        assert found.sizes == (("n", 3), ("m", 2))
        assert found.dtypes == ("float32",)

    def test_numbers_cannot_have_axes(self) -> None:
        with pytest.raises(ShapeError, match=r"argument b does not have enough dimensions \(has 0"):
            infer(SOLVE.declaration, [Abstract((3, 3), "float32"), Abstract(None, None)])

    def test_other_loops_do_not_broadcast(self) -> None:
        shapes = [Abstract((5, 3), "float32"), Abstract((4, 2), "float32")]
        with pytest.raises(ShapeError) as caught:
            infer(CONVOLVE.declaration, shapes)
        assert str(caught.value) == (
            "core_convolve: operands could not be broadcast together with shapes (5,) (4,) of a, b"
        )


class TestDeclaration:
    def test_core_names_are_sizes(self) -> None:
        declared = MATVEC.declaration
        assert declared.has_core
        assert declared.sizes == (("n", ()), ("m", ()))
        assert declared.given_sizes == ()
        assert FIRST.declaration.given_sizes == (("k", (2,)),)

    def test_arrays_are_needed(self) -> None:
        declared = kspec.ElementwiseKernel(
            "T x[n], T y", "T z", "z = x(0) + y", "core_needs"
        ).declaration
        assert [declared.needs_array(param) for param in declared.inputs] == [True, False]

    @pytest.mark.parametrize("kernel", [MATVEC, FIRST, CONVOLVE])
    def test_manifest(self, kernel: kspec.ElementwiseKernel) -> None:
        check_manifest(kernel.declaration)

    def test_manifest_of_raw_parameters(self) -> None:
        for text in ("raw T u[0]", "raw T u[2]", "raw T u"):
            signature = parse_signature(f"T x[n, 2], {text}")
            check_manifest(
                ElementwiseDeclaration(
                    "e", signature, parse_signature("T y[n * 2]"), sizes=(("n", ()),)
                )
            )

    def test_plain_parameters_are_as_before(self) -> None:
        """Manifests of kernels without core dimensions have not changed."""
        plain = parse_signature("T x, raw T y")
        text = dumped(ElementwiseDeclaration("e", plain, parse_signature("T z")))
        assert "core" not in text
        assert "ndim" not in text


def dumped(declaration: ElementwiseDeclaration) -> str:
    entry = ModuleEntry("m", "specs/m.toml", "11", (declaration,))
    return manifest.dump(Manifest("kernels", (entry,)))


def check_manifest(declaration: ElementwiseDeclaration) -> None:
    text = dumped(declaration)
    (entry,) = manifest.load(text).modules
    assert entry.kernels == (declaration,)
    assert dumped(declaration) == text
