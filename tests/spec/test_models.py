from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from kspec.errors import SignatureSyntaxError, SpecError, UnknownTypeError
from kspec.model.coverage import layouts_of
from kspec.model.signature import CParam, Signature
from kspec.spec.building import build_spec
from kspec.spec.faults import SpecTypeError
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec

ELEMENTWISE: dict[str, Any] = {
    "name": "f",
    "inputs": "T x",
    "outputs": "T y",
    "operation": "y = x",
}
REDUCTION: dict[str, Any] = {
    "name": "f",
    "inputs": "T x",
    "outputs": "T y",
    "map": "x",
    "reduce": "a + b",
    "post_map": "y = a",
}


def elementwise(**fields: Any) -> ElementwiseSpec:
    return build_spec(ElementwiseSpec, **{**ELEMENTWISE, **fields})


def reduction(**fields: Any) -> ReductionSpec:
    return build_spec(ReductionSpec, **{**REDUCTION, **fields})


def test_lists_and_strings_mean_the_same() -> None:
    assert elementwise(inputs=["T a", "raw f4 b"]) == elementwise(inputs="T a,raw float32 b")
    assert elementwise(inputs=[]).inputs == Signature()


def test_specs_survive_dumping_and_pickling() -> None:
    specs = [
        elementwise(types={"T": ["f4"]}, example={"shapes": {"x": [3]}, "scalars": {"x": 1e-5}}),
        elementwise(outputs="U y", types=[{"T": "f4", "U": "f8"}]),
        reduction(identity=0),
        build_spec(RawSpec, name="r", code="x", params=["const float* x"]),
    ]
    for spec in specs:
        assert pickle.loads(pickle.dumps(spec)) == spec
        assert build_spec(type(spec), **spec.model_dump(mode="json")) == spec


def test_frozen() -> None:
    with pytest.raises(ValidationError):
        elementwise().name = "g"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "bindings"),
    [
        ({}, ()),
        ({"types": {}}, ()),
        ({"types": {"T": []}}, ()),
        ({"inputs": "f4 x", "outputs": "f4 y"}, ((),)),
        ({"types": {"T": ["f4", "float32", "f8"]}}, ((("T", "float32"),), (("T", "float64"),))),
        (
            {"outputs": "U y", "types": {"U": ["i1", "i2"], "T": ["f4"]}},
            (
                (("T", "float32"), ("U", "int8")),
                (("T", "float32"), ("U", "int16")),
            ),
        ),
        (
            {"outputs": "U y", "types": [{"U": "i1", "T": "f4"}]},
            ((("T", "float32"), ("U", "int8")),),
        ),
    ],
)
def test_bindings(fields: dict[str, Any], bindings: object) -> None:
    assert elementwise(**fields).bindings() == bindings


@pytest.mark.parametrize(
    ("fields", "ordered"),
    [
        ({}, False),
        ({"operation": "y = i"}, True),
        ({"operation": "y = _ind.get()[0]"}, True),
        ({"operation": "y = x; // i"}, False),
        ({"operation": 'y = x; printf("i");'}, False),
        ({"operation": "y = x.i + p->i"}, False),
        ({"operation": "y = 1.i"}, False),
        ({"after_loop": "f(i)"}, True),
        ({"operation": "y = AT(x)", "preamble": "#define AT(v) \\\n  v + i"}, True),
        ({"preamble": "int f(int i) { return i; }"}, False),
    ],
)
def test_elementwise_order(fields: dict[str, Any], ordered: bool) -> None:
    assert elementwise(**fields).declaration().ordered is ordered


@pytest.mark.parametrize(
    ("fields", "in_place", "single"),
    [
        ({}, False, False),
        ({"operation": "y = 1; if (y > x) continue"}, False, False),
        ({"operation": "y = x && y & x"}, False, False),
        ({"outputs": "T y, raw T z"}, True, False),
        ({"operation": "y = _raw_x[0]"}, True, False),
        ({"operation": "atomicAdd(&y, x)"}, True, False),
        ({"operation": "T* p = &(y); *p = x"}, True, False),
        ({"operation": "const T* p = &x; y = *p"}, False, False),
        ({"inputs": "_non_const T x", "operation": "T* p = &x; y = *p"}, True, False),
        ({"operation": "T& r = y; atomicAdd(&r, x)"}, True, False),
        (
            {
                "operation": "add(y, x)",
                "preamble": "template <class S> __device__ void add(S& s, S x) { atomicAdd(&s, x); }",
            },
            True,
            False,
        ),
        ({"operation": "if (x > 0) return; y = x"}, True, True),
        ({"operation": "y = x; LEAVE", "preamble": "#define LEAVE return"}, True, True),
        ({"operation": "y = x; LEAVE", "options": ["-DLEAVE=return"]}, True, True),
        ({"preamble": "__device__ int f() { return 1; }", "operation": "y = f()"}, False, False),
        ({"loop_prep": "T s = 2;", "operation": "y = s * x"}, False, False),
        ({"loop_prep": "T s = 2;", "operation": "y = pow(x, s) + T(s)"}, False, False),
        ({"loop_prep": "const T s = 2;", "operation": "y = f(x, s)"}, False, False),
        ({"loop_prep": "T s = 2;", "operation": "y = f(x, s)"}, True, True),
        ({"loop_prep": "T s = 2;", "operation": "y = s; s += 0.5"}, True, True),
        (
            {"loop_prep": "T s = 2;", "operation": "y = s NEXT", "preamble": "#define NEXT ++"},
            True,
            True,
        ),
        ({"loop_prep": "T s = 2;", "operation": "y = x * K", "options": ["-DK=2"]}, False, False),
        ({"loop_prep": "T s = 2;", "operation": "y = K", "preamble": '#include "k.h"'}, True, True),
        ({"after_loop": "f();"}, True, True),
        ({"operation": "y = threadIdx.x"}, True, True),
        ({"operation": "y = __shfl_down_sync(~0u, x, 1)"}, True, True),
    ],
)
def test_operations_that_work_on_memory(
    fields: dict[str, Any], in_place: bool, single: bool
) -> None:
    declaration = elementwise(**fields).declaration()
    assert (declaration.in_place, declaration.single) == (in_place, single)


@pytest.mark.parametrize("word", ["_J", "_i", "_in_ind", "_out_ind"])
def test_reduction_order(word: str) -> None:
    assert reduction(map=f"x * {word}").declaration().ordered
    assert not reduction(map=f"x /* {word} */").declaration().ordered


@pytest.mark.parametrize(
    ("post_map", "counts"),
    [
        ("y = a", False),
        ("y = a /* _in_ind.size() */", False),
        ("y = a / (_in_ind.size() / _out_ind.size())", False),
        ("y = sqrt(a / ( _in_ind . size( )/_out_ind.size() ) + s)", False),
        ("y = a / _in_ind.size() / _out_ind.size()", True),
        ("y = a + _out_ind.size()", True),
        ("y = a / (_in_ind.size() / _out_ind.size()) + _in_ind.size()", True),
        ("auto n = _in_ind; y = a / n.size()", True),
    ],
)
def test_reductions_that_count(post_map: str, counts: bool) -> None:
    declaration = reduction(post_map=post_map).declaration()
    assert declaration.counts is counts
    assert not declaration.whole


@pytest.mark.parametrize(
    ("fields", "views", "indexers"),
    [
        ({"map": "x * _raw_x[0]"}, ("x",), ()),
        ({"post_map": "y = a + _raw_y[0]"}, ("y",), ()),
        ({"map": "x * _in_ind.get()[0]"}, (), ("_in_ind",)),
        ({"map": "x * _in_ind . ndim + _out_ind.size()"}, (), ("_in_ind",)),
        ({"map": "x * AT[0]", "preamble": "#define AT _out_ind.get()"}, (), ("_out_ind",)),
        ({"map": "first(_in_ind, x)", "preamble": '#include "first.h"'}, (), ("_in_ind",)),
        ({"map": "x /* _raw_x _in_ind.get() */"}, (), ()),
    ],
)
def test_reductions_that_see_arrays(
    fields: dict[str, str], views: tuple[str, ...], indexers: tuple[str, ...]
) -> None:
    declaration = reduction(**fields).declaration()
    assert (declaration.raw_views, declaration.indexers) == (views, indexers)
    assert declaration.ordered is bool(declaration.whole) is bool(views or indexers)


def test_reduction_scalars() -> None:
    spec = reduction(
        inputs="T x, f4 s, f4 t, raw f4 table, T a",
        outputs="T y",
        reduce="s * a + b",
        post_map="y = a * t + table[0]",
    )
    assert spec.declaration().scalars == ("s", "t")


@pytest.mark.parametrize(
    ("identity", "text"),
    [(None, None), ("", None), (0, "0"), (1e-5, "1e-05"), ("T(1)", "T(1)"), (True, "true")],
)
def test_identity(identity: object, text: str | None) -> None:
    spec = reduction(identity=identity)
    assert spec.identity == text
    assert spec.declaration().has_identity is (text is not None)


def test_accumulators() -> None:
    assert reduction(reduce_type="double").declaration().accumulator == "double"
    assert reduction(reduce_type="T").declaration().accumulator == "T"
    typedef = reduction(reduce_type="float64", preamble="struct float64 {};")
    assert typedef.declaration().accumulator == "float64"


def test_raw_declarations() -> None:
    spec = build_spec(RawSpec, name="f", code="x")
    assert (spec.declaration().name_expressions, spec.declaration().params) == (("f",), None)
    assert (spec.text, spec.bindings()) == ("x", ((),))
    typed = build_spec(RawSpec, name="f", code="x", params="int n", name_expressions=["f<int>"])
    assert typed.declaration().name_expressions == ("f<int>",)
    assert typed.declaration().params == (CParam("int", "n"),)
    assert build_spec(RawSpec, name="f", code="x", params=[]).declaration().params == ()


@pytest.mark.parametrize("name", ["", "1f", "a-b", "float", "f g", "threadIdx", "é"])
def test_invalid_kernel_names(name: str) -> None:
    with pytest.raises(SpecError, match="Invalid kernel name"):
        elementwise(name=name)


def test_zero_outputs_are_for_elementwise_kernels_only() -> None:
    assert len(elementwise(outputs="", operation="f(x)").outputs) == 0
    with pytest.raises(SpecError, match="at least one output"):
        reduction(outputs="")


def test_one_wrong_parameter_raises_the_parser_error() -> None:
    with pytest.raises(SignatureSyntaxError, match="comma too many"):
        elementwise(inputs="T x,")
    with pytest.raises(UnknownTypeError, match="did you mean 'float32'") as caught:
        elementwise(inputs="flaot32 x")
    assert str(caught.value).splitlines() == [
        "kernel 'f': inputs: unknown type 'flaot32'; did you mean 'float32'?",
        "    flaot32 x",
        "    ^^^^^^^",
    ]
    assert (caught.value.text, caught.value.offset, caught.value.length) == ("flaot32 x", 0, 7)
    with pytest.raises(SignatureSyntaxError, match="needs a type and a name"):
        build_spec(RawSpec, name="f", code="x", params=["float*"])


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": 3},
        {"outputs": None},
        {"inputs": ["T x", 3]},
        {"operation": 3},
        {"name": None},
        {"options": "-DX"},
        {"types": {"T": 3}},
    ],
)
def test_wrong_python_types_are_type_errors(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecTypeError, match="must be") as caught:
        elementwise(**fields)
    assert isinstance(caught.value, TypeError)


def test_all_problems_in_one_message() -> None:
    with pytest.raises(SpecError) as caught:
        elementwise(inputs="T i", outputs="T y, T y", operation="}")
    assert str(caught.value).splitlines() == [
        "kernel 'f' is declared wrongly:",
        "  inputs: 'i' is the index of the element; choose another parameter name",
        "  outputs: two parameters are called 'y'; every parameter needs its own name",
        "  operation: '}' closes nothing",
        "      }",
        "      ^",
    ]


def test_hand_made_signatures_are_checked_too() -> None:
    from kspec.model.signature import Param

    with pytest.raises(SignatureSyntaxError, match="C\\+\\+ keyword"):
        elementwise(inputs=Signature((Param("T", "float"),)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("main", "C\\+\\+ reserves it"), ("T", "it is a type placeholder too")],
)
def test_kernel_names_that_only_the_compiler_would_notice(name: str, reason: str) -> None:
    with pytest.raises(SpecError, match=f"Invalid kernel name '{name}': {reason}"):
        build_spec(ElementwiseSpec, name=name, inputs="T x", outputs="T y", operation="y = x")


def test_a_parameter_list_that_does_not_parse_hides_nothing_else() -> None:
    with pytest.raises(SpecError) as caught:
        elementwise(
            name="a-b",
            inputs="flaot x, T i",
            outputs="T y,",
            operation=3,
            loop_prep="int k = (1;",
            reference="x +",
            types={"U": ["f4"]},
            options="-DX",
        )
    assert str(caught.value).splitlines() == [
        "kernel 'a-b' is declared wrongly:",
        "  name: Invalid kernel name 'a-b': 'a-b' is not a C identifier",
        "  options: must be a list or tuple of strings, not one string; write ['-DX']",
        "  reference: not a Python expression: invalid syntax",
        "  inputs: unknown type 'flaot'; did you mean 'float64'?",
        "      flaot x, T i",
        "      ^^^^^",
        "  inputs: 'i' is the index of the element; choose another parameter name",
        "  outputs: empty parameter; is there a comma too many?",
        "      T y,",
        "         ^",
        "  operation: must be a string, not int",
        "  loop_prep: '(' is never closed",
        "      int k = (1;",
        "              ^",
    ]


def test_several_problems_are_of_the_class_of_the_first_that_does_not_parse() -> None:
    with pytest.raises(UnknownTypeError, match=r"declared wrongly:\n  name: .*\n  inputs: unknown"):
        elementwise(name="", inputs="flaot x", outputs="T y,")
    with pytest.raises(SignatureSyntaxError, match="inputs: empty parameter") as caught:
        elementwise(inputs="T x,", outputs="flaot y", operation=3)
    assert not isinstance(caught.value, TypeError)


def test_stand_ins_are_not_blamed() -> None:
    # What is missing or wrong makes no second problem out of what depends on it.
    with pytest.raises(SpecError) as caught:
        reduction(inputs="const T x", outputs=[3], reduce_type="T", types={"T": ["f4"]}, map=None)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[1:]] == [
        "  inputs",
        "      const T x",
        "      ^^^^^",
        "  outputs.0",
        "  map",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"operation": "y = (x;"}, "operation: '(' is never closed\n    y = (x;\n        ^"),
        ({"operation": "y = x;\ny = x];"}, "']' closes nothing\n    y = x];\n         ^"),
        ({"operation": "printf('x);"}, "operation: the quote ' is never closed"),
        ({"preamble": "struct A { int x;"}, "preamble: '{' is never closed"),
        ({"after_loop": "f(x;"}, "after_loop: '(' is never closed"),
        ({"loop_prep": "if (n) {", "after_loop": "} }"}, "after_loop: '}' closes nothing"),
    ],
)
def test_brackets_are_balanced(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as caught:
        elementwise(**fields)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"loop_prep": "if (n) {", "after_loop": "}"},
        {"operation": "BEGIN y = x; }", "preamble": "#define BEGIN {"},
        {"operation": "BEGIN y = x; }", "preamble": '#include "begin.cuh"'},
        {"operation": "BEGIN y = x; }", "options": ("-DBEGIN={",)},
        {"operation": "BEGIN y = x; }", "options": ["-include", "begin.cuh"]},
        {"operation": "\n#if X\nif (x) {\n#else\n{\n#endif\ny = x; }"},
    ],
)
def test_brackets_that_macros_may_balance(fields: dict[str, Any]) -> None:
    assert elementwise(**fields).name == "f"


@pytest.mark.parametrize("field", ["map", "reduce", "identity"])
def test_expressions_are_no_statements(field: str) -> None:
    with pytest.raises(SpecError, match=f"{field}: must be an expression; leave out ';'"):
        reduction(**{field: "a + b;"})
    assert reduction(**{field: "[&] { return a; }()"}).name == "f"
    assert reduction(post_map="y = a; y += 1;").post_map == "y = a; y += 1;"


@pytest.mark.parametrize("field", ["map", "reduce", "identity"])
@pytest.mark.parametrize(
    "text", ["a +", "a -  // b", "a > b ? a :", "max(a, b) *\n", "a,", "p->x ="]
)
def test_expressions_are_whole(field: str, text: str) -> None:
    with pytest.raises(SpecError, match=f"{field}: the expression ends with "):
        reduction(**{field: text})


@pytest.mark.parametrize("field", ["map", "reduce", "identity", "post_map", "preamble"])
@pytest.mark.parametrize("text", ["a \\", "a // \\", "a \\ \t", "\\"])
def test_no_fragment_continues_in_the_next_line(field: str, text: str) -> None:
    message = f"{field}: ends with a backslash, which continues its last line; leave it out"
    with pytest.raises(SpecError, match=message):
        reduction(**{field: text})
    with pytest.raises(SpecError, match=message.replace(field, "loop_prep")):
        elementwise(loop_prep=text)
    assert reduction(map="a + \\\n a").map == "a + \\\n a"


@pytest.mark.parametrize("text", ["a++", "a--", "1.", "pi<T>", "a // +", "a /* + */", "'+'"])
def test_whole_expressions(text: str) -> None:
    assert reduction(map=text).map == text


@pytest.mark.parametrize("options", ["-DX", 3, None, ["-DX", 3], {"-DX": 1}])
def test_options_are_several_strings(options: object) -> None:
    with pytest.raises(TypeError, match=r"options.*must be a"):
        elementwise(options=options)
    assert elementwise(options=["-DX"]).options == ("-DX",)


@pytest.mark.parametrize(
    ("operation", "ndim"),
    [
        ("z = x[{r, c}]", 2),
        ("z = x[{r, c, 0}] + x[{f(r, c), T(1), c}]", 3),
        ("z = x[{r}]", None),
        ("z = x[r] + y[{r, c}]", None),
        ("z = x[{r, c}] + x[{r, c, 0}]", None),
        ("if constexpr (x.ndim == 2) z = x[{r, c}]; else z = x[r]", None),
    ],
)
def test_axes_of_raw_arrays_follow_from_indices(operation: str, ndim: int | None) -> None:
    spec = ElementwiseSpec(
        name="f",
        inputs="raw T x, int64 r, int64 c",
        outputs="T z",
        operation=operation,
        types={"T": ["float32"]},
    )
    declaration = spec.declaration()
    assert [one.ndim for one in declaration.params] == [ndim, None, None, None]
    assert spec.inputs.params[0].ndim is None, "the spec stays as it is written"
    found = {raw for _, raw in layouts_of(declaration, (("T", "float32"),))}
    assert found == ({(1,), (2,)} if ndim is None else {(ndim,)})
