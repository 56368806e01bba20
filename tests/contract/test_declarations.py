"""Constructors: the mini-language and what else is refused when a kernel is made."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

SYNTAX = (kspec.SignatureSyntaxError, kspec.SpecError, ValueError)
UNKNOWN = (*SYNTAX, TypeError)


def elementwise(inputs: Any = "T x", outputs: Any = "T y", body: Any = "y = x", **rest: Any) -> Any:
    return kspec.ElementwiseKernel(inputs, outputs, body, **{"name": "declared", **rest})


def reduction(inputs: Any = "T x", outputs: Any = "T y", **rest: Any) -> Any:
    fields = {
        "map_expr": "x",
        "reduce_expr": "a + b",
        "post_map_expr": "y = a",
        "identity": "0",
        "name": "declared",
    }
    return kspec.ReductionKernel(inputs, outputs, **{**fields, **rest})


BOTH = pytest.mark.parametrize("make", [elementwise, reduction], ids=["elementwise", "reduction"])


class TestGrammar:
    @BOTH
    @pytest.mark.parametrize(
        ("inputs", "errors", "message"),
        [
            ("x", SYNTAX, "'x' is not a parameter"),
            ("raw", SYNTAX, "'raw' is not a parameter"),
            ("T x,", SYNTAX, "a comma too many"),
            (",T x", SYNTAX, "a comma too many"),
            ("T x,,T z", SYNTAX, "a comma too many"),
            (" ", SYNTAX, "no parameter"),
            ("\n", SYNTAX, "no parameter"),
            ("const T x", SYNTAX, "inputs are const already"),
            ("in T x", SYNTAX, "unknown keyword 'in'"),
            ("raw raw T x", SYNTAX, "'raw' is given twice"),
            ("unsigned int x", SYNTAX, "unknown keyword 'unsigned'"),
            ("T x = 1", SYNTAX, ""),
            ("T x(3)", SYNTAX, "x(3)"),
            ("T *x", SYNTAX, "*x"),
            ("T* x", SYNTAX, "is a pointer"),
            ("T 2x", SYNTAX, "2x"),
            ("T x y", SYNTAX, "unknown keyword 'T'"),
            ("...", SYNTAX, "'...' is not a parameter"),
            ("T ...", SYNTAX, "..."),
            ("size_t x", UNKNOWN, "unknown type 'size_t'"),
            ("char x", UNKNOWN, "unknown type 'char'"),
            ("unsigned x", UNKNOWN, "unknown type 'unsigned'"),
            ("float3 x", UNKNOWN, "unknown type 'float3'"),
            ("flaot32 x", UNKNOWN, "did you mean 'float32'?"),
            ("object x", UNKNOWN, "Unsupported dtype 'object'"),
            ("str x", UNKNOWN, "Unsupported dtype 'str'"),
            ("datetime64 x", UNKNOWN, "Unsupported dtype 'datetime64'"),
            ("longdouble x", UNKNOWN, "Unsupported dtype 'longdouble'"),
            (">f4 x", UNKNOWN, "Unsupported dtype '>f4'"),
            ("T z, {x: float32, n: int32} p", SYNTAX, "write a placeholder, such as 'T p'"),
        ],
    )
    def test_what_does_not_parse(
        self, make: Any, inputs: str, errors: tuple[type[Exception], ...], message: str
    ) -> None:
        for place in ({"inputs": inputs}, {"outputs": inputs}):
            with pytest.raises(ValueError) as caught:
                make(**place)
            for error in errors:
                assert isinstance(caught.value, error)
            assert message in str(caught.value)

    @pytest.mark.parametrize(
        ("inputs", "outputs", "message"),
        [
            ("T i", "T y", "'i' is the index"),
            ("T x", "T i", "'i' is the index"),
            ("T _ind", "T y", "'_ind' is a name of generated code"),
            ("T _arg_x", "T y", "'_arg_x' is a name of generated code"),
            ("T x, T x", "T y", "two parameters are called 'x'"),
            ("T x", "T x", "two parameters are called 'x'"),
            ("T x", "T y, raw T y", "two parameters are called 'y'"),
        ],
    )
    def test_names_that_are_taken(self, inputs: str, outputs: str, message: str) -> None:
        with pytest.raises(kspec.SpecError, match=message):
            elementwise(inputs, outputs)

    def test_i_is_free_in_reductions(self, place: ArrayDevice) -> None:
        kernel = reduction("T i", map_expr="i * i")
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0]))), 5)

    def test_one_letter_is_always_a_placeholder(self, place: ArrayDevice) -> None:
        letters = "fdlqFU"
        kernel = elementwise(
            ", ".join(f"{letter} x_{letter}" for letter in letters),
            ", ".join(f"{letter} y_{letter}" for letter in letters),
            "; ".join(
                f"{letter} t_{letter} = x_{letter}; y_{letter} = t_{letter}" for letter in letters
            ),
        )
        for dtypes in (("int32", "float64") * 3, ("float64", "int32") * 3):
            found = kernel(*(place.array([1, 2], dtype) for dtype in dtypes))
            assert tuple(place.numpy(one).dtype.name for one in found) == dtypes

    @pytest.mark.parametrize(
        ("spelling", "dtype"),
        [
            ("int", "int64"),
            ("uint", "uint64"),
            ("intp", "int64"),
            ("float", "float64"),
            ("complex", "complex128"),
            ("bool", "bool"),
            ("f4", "float32"),
            ("<i2", "int16"),
            ("half", "float16"),
            ("int8", "int8"),
        ],
    )
    def test_names_mean_what_they_mean_in_numpy(
        self, spelling: str, dtype: str, place: ArrayDevice
    ) -> None:
        kernel = elementwise(f"{spelling} x", f"{spelling} y")
        y = place.numpy(kernel(place.array([0, 1], dtype)))
        assert y.dtype == dtype and y.dtype == np.dtype(spelling)
        with pytest.raises(TypeError, match="Type is mismatched"):
            kernel(place.zeros(2, "uint16"))

    def test_newlines_and_spaces_separate(self, place: ArrayDevice) -> None:
        kernel = elementwise(
            " T\tx,\n\n  raw\n float64   w ", "\n_non_const raw T y", "y[i] = x + w[0]"
        )
        y = kernel(place.array([1.0]), place.array([2.0]), place.zeros(1))
        np.testing.assert_array_equal(place.numpy(y), [3])

    def test_keywords_in_any_order(self, place: ArrayDevice) -> None:
        for keywords in ("raw _non_const", "_non_const raw"):
            kernel = elementwise(f"{keywords} T x", "", "x[i] = i")
            x = place.zeros(3)
            assert kernel(x, size=3) == ()
            np.testing.assert_array_equal(place.numpy(x), [0, 1, 2])

    def test_an_empty_list_is_no_parameters(self, place: ArrayDevice) -> None:
        kernel = elementwise("", "raw int32 y", "y[i] = i")
        y = kernel(place.zeros(3, "int32"), size=3)
        np.testing.assert_array_equal(place.numpy(y), [0, 1, 2])


class TestConstructors:
    def test_names_order_and_defaults_are_those_of_cupy(self) -> None:
        def listed(kind: Any) -> dict[str, Any]:
            return {
                name: parameter.default
                for name, parameter in inspect.signature(kind).parameters.items()
            }

        need = inspect.Parameter.empty
        assert list(listed(kspec.ElementwiseKernel).items())[:11] == [
            ("in_params", need),
            ("out_params", need),
            ("operation", need),
            ("name", "kernel"),
            ("reduce_dims", True),
            ("preamble", ""),
            ("no_return", False),
            ("return_tuple", False),
            ("options", ()),
            ("loop_prep", ""),
            ("after_loop", ""),
        ]
        assert list(listed(kspec.ReductionKernel).items())[:11] == [
            ("in_params", need),
            ("out_params", need),
            ("map_expr", need),
            ("reduce_expr", need),
            ("post_map_expr", need),
            ("identity", need),
            ("name", "reduce_kernel"),
            ("reduce_type", None),
            ("reduce_dims", True),
            ("preamble", ""),
            ("options", ()),
        ]

    @BOTH
    @pytest.mark.parametrize("name", ["", " ", "1st", "a-b", "a b", "a.b", "é", "f<int>"])
    def test_kernel_names(self, make: Any, name: str) -> None:
        with pytest.raises(ValueError, match="Invalid kernel name"):
            make(name=name)

    @BOTH
    @pytest.mark.parametrize("wrong", [1, None, 1.5, object()])
    def test_parameter_lists_are_strings(self, make: Any, wrong: Any) -> None:
        for fields in ({"inputs": wrong}, {"outputs": wrong}):
            with pytest.raises(TypeError, match="must be a string"):
                make(**fields)

    @pytest.mark.parametrize(
        ("make", "field"),
        [
            (elementwise, "body"),
            (elementwise, "preamble"),
            (elementwise, "loop_prep"),
            (elementwise, "after_loop"),
            (reduction, "map_expr"),
            (reduction, "reduce_expr"),
            (reduction, "post_map_expr"),
            (reduction, "preamble"),
        ],
    )
    def test_fragments_are_strings(self, make: Any, field: str) -> None:
        for wrong in (1, None, ["y = x"]):
            with pytest.raises(TypeError, match="must be a string"):
                make(**{field: wrong})

    @BOTH
    def test_unknown_keywords(self, make: Any) -> None:
        with pytest.raises(TypeError, match="'colour'"):
            make(colour="red")

    def test_options_of_elementwise_kernels_are_keywords(self) -> None:
        with pytest.raises(TypeError, match="positional arguments"):
            kspec.ElementwiseKernel("T x", "T y", "y = x", "k", True, "", False, False, ())  # type: ignore[misc]

    @BOTH
    @pytest.mark.parametrize("options", ["-DA", (1,), 1])
    def test_options_are_strings(self, make: Any, options: Any) -> None:
        with pytest.raises(TypeError, match="options"):
            make(options=options)

    def test_a_reduction_says_its_identity(self) -> None:
        with pytest.raises(TypeError, match="'identity'"):
            kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a")  # type: ignore[call-arg]

    @pytest.mark.parametrize("reduce_type", [None, "T", "float"])
    def test_a_reduction_has_outputs(self, reduce_type: str | None) -> None:
        with pytest.raises(ValueError, match="needs at least one output"):
            reduction(outputs="", reduce_type=reduce_type)

    @pytest.mark.parametrize("name", ["float64", "int32", "complex64"])
    def test_reduce_types_are_those_of_cpp(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name!r} is a NumPy name"):
            reduction(reduce_type=name)

    def test_an_unknown_letter_as_reduce_type(self) -> None:
        with pytest.raises(ValueError, match="'S' is not a type placeholder"):
            reduction(reduce_type="S")

    @pytest.mark.parametrize("name", ["Sum", "flaot", "s64"])
    def test_accumulators_that_nobody_declares(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"reduce_type: the preamble declares no '{name}'"):
            reduction(reduce_type=name)

    @pytest.mark.parametrize(
        ("reduce_type", "preamble", "options"),
        [
            ("S", "typedef double S;", ()),
            ("Sum", "typedef double Sum;", ()),
            ("Sum", "#define Sum double", ()),
            ("Sum", "", ("-DSum=double",)),
            ("ptrdiff_t", "", ()),
            ("unsigned", "", ()),
        ],
    )
    def test_accumulators_that_somebody_declares(
        self, reduce_type: str, preamble: str, options: tuple[str, ...], place: ArrayDevice
    ) -> None:
        kernel = reduction(reduce_type=reduce_type, preamble=preamble, options=options)
        assert place.numpy(kernel(place.array([1.0, 2.0]))) == 3

    @pytest.mark.parametrize(
        ("identity", "expected"), [("1", 7), (1, 7), (1.5, 7.5), (np.float32(2), 8), ("0.5 * 2", 7)]
    )
    def test_identities_are_text_or_numbers(
        self, identity: Any, expected: float, place: ArrayDevice
    ) -> None:
        y = reduction(identity=identity)(place.array([1.0, 2.0, 3.0]))
        np.testing.assert_array_equal(place.numpy(y), expected)
