from __future__ import annotations

from kspec.render import render_specs, specializations
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec


def names(spec) -> list[str]:
    return [one.name_expression for one in specializations(spec)]


def test_elementwise_has_every_layout_for_each_binding() -> None:
    spec = build_spec(
        ElementwiseSpec,
        name="f",
        inputs="T x",
        outputs="U y",
        operation="y = x",
        types=[{"T": "float32", "U": "int8"}, {"T": "complex128", "U": "bool"}],
    )
    assert names(spec) == [
        "f<float, signed char, kspec::Flat>",
        "f<float, signed char, kspec::Strided<8>>",
        "f<float, signed char, kspec::Rows>",
        "f<float, signed char, kspec::Packs>",
        "f<float, signed char, kspec::Tiles>",
        # One complex128 is as wide as an access: there are no packs of it.
        "f<complex<double>, bool, kspec::Flat>",
        "f<complex<double>, bool, kspec::Strided<8>>",
    ]


def test_elements_that_ask_for_their_number_are_visited_in_order() -> None:
    spec = build_spec(
        ElementwiseSpec, name="f", inputs="float32 x", outputs="float32 y", operation="y = x * i",
    )  # fmt: skip
    assert "f<kspec::Tiles>" not in names(spec)
    assert "f<kspec::Rows>" in names(spec)


def test_raw_arguments_multiply_the_layouts_by_their_dimensions() -> None:
    spec = build_spec(
        ElementwiseSpec, name="f", inputs="float32 x, raw int32 w", outputs="float32 y",
        operation="y = x * w[i]",
    )  # fmt: skip
    assert names(spec) == [
        "f<kspec::Flat, 1>",
        "f<kspec::Flat, 2>",
        "f<kspec::Strided<8>, 1>",
        "f<kspec::Strided<8>, 2>",
    ]


def test_only_raw_arguments_have_no_strided_layout() -> None:
    spec = build_spec(
        ElementwiseSpec, name="f", inputs="raw int32 w", outputs="raw int32 y",
        operation="y[i] = w[i]",
    )  # fmt: skip
    assert names(spec) == ["f<kspec::Flat, 1, 1>", "f<kspec::Flat, 2, 2>"]


def test_a_generic_kernel_without_types_is_lazy_only() -> None:
    spec = build_spec(
        ReductionSpec, name="r", inputs="T x", outputs="T y", map="x", reduce="a + b",
        post_map="y = a", identity="0",
    )  # fmt: skip
    assert names(spec) == []


def test_raw_kernels_are_their_name_expressions() -> None:
    code = "template <class T> __global__ void k(T* x) {}"
    spec = build_spec(RawSpec, name="k", code=code, name_expressions=["k<int>", "k<float>"])
    assert names(spec) == ["k<int>", "k<float>"]


def test_a_preamble_for_one_binding_may_use_the_placeholders() -> None:
    spec = build_spec(
        ElementwiseSpec, name="f", inputs="T x", outputs="T y", operation="y = half_of(x)",
        preamble="__device__ T half_of(T x) { return x / 2; }",
    )  # fmt: skip
    bound = render_specs([spec], "f.cu", (("T", "float64"),))
    assert "typedef double T;" in bound.text


def test_views_are_precompiled_for_the_axes_of_each_layout() -> None:
    spec = build_spec(
        ElementwiseSpec, name="f", inputs="float32 x, raw float32 w", outputs="float32 y",
        operation="y = _raw_x[n - 1 - i] + w[0]",
    )  # fmt: skip
    names = [one.name_expression for one in specializations(spec)]
    assert names == [
        "f<kspec::Flat, 1, 1>",
        "f<kspec::Flat, 2, 1>",
        *(f"f<kspec::Strided<8>, {w}, {x}>" for w in (1, 2) for x in (1, 2)),
    ]
