"""Templates of raw kernels, and the arrays that they return, without a call."""

from __future__ import annotations

import pytest

from kspec.errors import ShapeError, UnboundPlaceholderError
from kspec.model.declaration import RawDeclaration
from kspec.model.infer import Abstract
from kspec.model.operators import operators
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.launch_rules import LaunchRules
from kspec.model.raw.returns import infer_returns
from kspec.model.raw.template import RawTemplate, integer_of

PARAMS = parse_c_params("const T* a, const T* b, T* c, int* info, int k, bool* mask")
INSTANCES = ("mm<float, 16, true>", "mm<double, 16, false>", "mm<float,32,true>")


def declared(
    name: str = "mm", instances: tuple[str, ...] = INSTANCES, **rules: object
) -> RawDeclaration:
    usual = {
        "grid": ("ceil_div(c.size, TILE)",),
        "block": ("TILE",),
        "defaults": (("k", "a.shape[1]"), ("TILE", "16 if a.size < 100 else 32")),
        "returns": (("c", ("a.shape[0]", "b.shape[1]")), ("info", ("TILE",))),
        "template": ("T", "TILE", "UP"),
    }
    return RawDeclaration(name, instances, PARAMS, "", LaunchRules(**{**usual, **rules}))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16", 16), ("-3", -3), ("+3", 3), ("0x1F", 31), ("0b101", 5), ("017", 15), ("0", 0),
        ("32u", 32), ("7ULL", 7), ("1'000'000", 1_000_000), ("true", 1), ("false", 0),
        ("1.5", None), ("float", None), ("N", None), ("1e3", None), ("09", None), ("", None),
        ("sizeof(int)", None),
    ],
)  # fmt: skip
def test_integers_of_cpp(text: str, value: int | None) -> None:
    assert integer_of(text) == value


class TestTemplate:
    TEMPLATE = RawTemplate.of(("TILE", "T", "UP"), parse_c_params("T* x, int n"))

    def test_names(self) -> None:
        assert self.TEMPLATE.values == ("TILE", "UP") and self.TEMPLATE.letters == ("T",)
        assert [str(one) for one in self.TEMPLATE.numbers] == ["long long TILE", "long long UP"]
        plain = RawTemplate.of((), parse_c_params("U* x, T y, U z"))
        assert (plain.names, plain.values) == (("U", "T"), ())

    def test_any_spelling_is_found(self) -> None:
        listed = ("f< 0x10, unsigned, true >", "f<16,int,true>", "f<16,int,false>")
        find = self.TEMPLATE.find
        assert find(listed, {"T": "uint32"}, {"TILE": 16, "UP": 1}) == listed[0]
        assert find(listed, {"T": "int32"}, {"TILE": 16, "UP": 0}) == listed[2]
        assert find(listed, {"T": "int32"}, {"TILE": 8, "UP": 0}) is None
        assert find(listed, {"T": "float32"}, {"TILE": 16, "UP": 0}) is None

    def test_what_is_missing_is_spelt_like_the_others(self) -> None:
        spelled = self.TEMPLATE.spelled
        types, values = {"T": "float64"}, {"TILE": 8, "UP": 0}
        assert spelled("ns::f<16, int, true>", types, values) == "ns::f<8, double, false>"
        assert spelled("f<16, int, 1>", types, values) == "f<8, double, 0>"

    def test_known_values(self) -> None:
        kernel = declared()
        assert kernel.values == {"TILE": (16, 32), "UP": (1, 0)} and kernel.implied == {}
        assert declared(instances=INSTANCES[::2]).implied == {"UP": 1}
        assert declared(instances=INSTANCES[:1], defaults=()).implied == {"TILE": 16, "UP": 1}


class TestReturns:
    A, B = Abstract((5, 7), "float64"), Abstract((7, 3), "float64")

    def test_shapes_and_dtypes(self) -> None:
        kernel = declared(defaults=())
        want = (((5, 3), "float64"), ((32,), "int32"))
        assert infer_returns(kernel, {"a": self.A, "b": self.B, "TILE": 32, "UP": None}) == want

    def test_defaults(self) -> None:
        kernel = RawDeclaration(
            "mm",
            INSTANCES[:1],
            PARAMS,
            "",
            LaunchRules(
                defaults=(("k", "a.shape[1]"),),
                returns=(("c", ("k", "UP")), ("mask", ())),
                template=("T", "TILE", "UP"),
            ),
        )
        assert infer_returns(kernel, {"a": self.A}) == (((7, 1), "float64"), ((), "bool"))
        assert infer_returns(kernel, {"a": self.A, "k": 4})[0] == ((4, 1), "float64")

    def test_errors(self) -> None:
        kernel = declared(defaults=())
        message = r"mm: returns\.c = b\.shape\[1\] has no such axis with b\.shape = \(7,\)"
        flat = Abstract((7,), "float64")
        with pytest.raises(ShapeError, match=message):
            infer_returns(kernel, {"a": self.A, "b": flat, "TILE": 16})
        kernel = declared(defaults=(), returns=(("c", ("4",)),))
        with pytest.raises(UnboundPlaceholderError, match="mm: no array decides the type T of c"):
            infer_returns(kernel, {})


class TestOperators:
    @pytest.mark.parametrize(
        ("kernel", "schema"),
        [
            (
                declared(),
                "mm(Tensor a, Tensor b, Tensor(a!) mask, *, SymInt? k=None, int? TILE=None, int UP, "
                "int[]? grid=None, int[]? block=None, int? shared_mem=None) -> (Tensor, Tensor)",
            ),
            (
                declared(defaults=(), instances=INSTANCES[::2], fixed=("block",)),
                "mm(Tensor a, Tensor b, SymInt k, Tensor(a!) mask, *, int TILE, int UP=1, "
                "int[]? grid=None, int? shared_mem=None) -> (Tensor, Tensor)",
            ),
            (
                declared(
                    defaults=(),
                    returns=(("c", ("4",)),),
                    instances=INSTANCES[:1],
                    fixed=("grid", "block", "shared_mem"),
                ),
                "mm(Tensor a, Tensor b, Tensor(a!) info, SymInt k, Tensor(b!) mask, *, int TILE=16, "
                "int UP=1) -> Tensor",
            ),
        ],
    )
    def test_schemas(self, kernel: RawDeclaration, schema: str) -> None:
        (one,) = operators(kernel)
        assert one.schema == schema


def test_one_line_says_what_calls_choose_and_get() -> None:
    kernel = declared(fixed=("grid", "block"))
    assert kernel.signature == (
        "(const T* a, const T* b, T* c, int* info, int k, bool* mask) -> (c, info), "
        "template <T, TILE, UP>, fixed grid and block"
    )
    assert RawDeclaration("f", ("f",)).signature == "(undeclared)"
