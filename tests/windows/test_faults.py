"""Wrong windows, sizes and samples: the class and the words of each refusal.

``tests/golden/spec/windows.case`` and ``samples.case`` have the same for spec files, with places.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.host.modules import bounds_mode
from kspec.model.checks import NO_CHECKS, parse_checks
from kspec.runtime.arguments.checks import modes_of_call
from kspec.runtime.driver.device import HOST as HOST_DEVICE
from kspec.spec.faults import SpecTypeError
from tests.devices import ArrayDevice

NEAR = {"reach": [1], "boundary": "nearest"}


def near(**fields: Any) -> dict[str, Any]:
    return {"windows": {"u": NEAR | fields}}


def kernel(
    inputs: str = "T u", outputs: str = "T v", operation: str = "v = u(1)", **keywords: Any
) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel(inputs, outputs, operation, "k", **(near() | keywords))


SIDES = "must be a list with an integer, or [before, after], for each axis"
CHOICE = "must be a boundary, or a list of boundaries that calls choose from"
INTEGER = "must be an integer, or the name of a size"
ALL = "'nearest', 'reflect', 'mirror', 'wrap', 'constant'"
LIMITS = "must be in [0, 2147483647]"
# Arguments of the constructor, and the error.
WINDOWS: list[tuple[dict[str, Any], type, str]] = [
    ({"windows": [1]}, SpecTypeError, "windows: must be a table, not list"),
    ({"windows": {"u": 1}}, SpecTypeError, "windows.u: must be a table, not int"),
    ({"windows": {"u": {"reach": [1]}}}, kspec.SpecError, "missing key 'boundary'"),
    ({"windows": {"u": {"boundary": "wrap"}}}, kspec.SpecError, "missing key 'reach'"),
    (near(mode="wrap"), kspec.SpecError, "windows.u.mode: unknown key 'mode'"),
    ({"windows": {"x": NEAR}}, kspec.SpecError, "windows.x: 'x' is not an input; inputs are u"),
    ({"windows": {"v": NEAR}}, kspec.SpecError, "windows.v: 'v' is not an input; inputs are u"),
    (
        {"inputs": "raw T u"},
        kspec.SpecError,
        "windows.u: 'u' is raw, so the operation indexes it; declare it without raw",
    ),
    (
        {"inputs": "_non_const T u"},
        kspec.SpecError,
        "windows.u: 'u' is _non_const: neighbours would be read after they were written",
    ),
    (near(reach=1), SpecTypeError, f"windows.u.reach: {SIDES}, not int"),
    (near(reach="R"), SpecTypeError, f"windows.u.reach: {SIDES}, not str"),
    (near(reach=None), SpecTypeError, f"windows.u.reach: {SIDES}, not NoneType"),
    (near(reach=[]), kspec.SpecError, "windows.u.reach: a window has 1 to 4 axes, not 0"),
    (near(reach=[1] * 5), kspec.SpecError, "windows.u.reach: a window has 1 to 4 axes, not 5"),
    (near(reach=[-1]), kspec.SpecError, f"windows.u.reach.0: {LIMITS}, not -1"),
    (near(reach=[[1, -2]]), kspec.SpecError, f"windows.u.reach.0.1: {LIMITS}, not -2"),
    (near(reach=[2**31]), kspec.SpecError, f"windows.u.reach.0: {LIMITS}, not 2147483648"),
    (near(reach=[1.5]), SpecTypeError, f"windows.u.reach.0: {INTEGER}, not float"),
    (near(reach=[True]), SpecTypeError, f"windows.u.reach.0: {INTEGER}, not bool"),
    (near(reach=[{}]), SpecTypeError, f"windows.u.reach.0: {INTEGER}, not dict"),
    (
        near(reach=[[1]]),
        kspec.SpecError,
        "windows.u.reach.0: needs two numbers, [before, after], not 1",
    ),
    (near(reach=["R"]), kspec.SpecError, "'R' is not a size; declare it in `sizes`"),
    (
        near(reach=["S"]) | {"sizes": {"R": [1]}},
        kspec.SpecError,
        "windows.u.reach: 'S' is not a size; sizes are R",
    ),
    (near(boundary=1), SpecTypeError, f"windows.u.boundary: {CHOICE}, not int"),
    (near(boundary=None), SpecTypeError, f"windows.u.boundary: {CHOICE}, not NoneType"),
    (
        near(boundary=[]),
        kspec.SpecError,
        "windows.u.boundary: lists no boundary; the first one is the default",
    ),
    (near(boundary=[1]), SpecTypeError, "windows.u.boundary.0: must be a boundary, not int"),
    (
        near(boundary="edge"),
        kspec.SpecError,
        f"windows.u.boundary: unknown boundary 'edge'; expected one of {ALL}, 'valid'",
    ),
    (
        near(boundary=["wrap", "edge"]),
        kspec.SpecError,
        f"windows.u.boundary.1: unknown boundary 'edge'; expected one of {ALL}, 'valid'",
    ),
    (near(value="a"), SpecTypeError, "windows.u.value: must be a number, not str"),
    (near(value=None), SpecTypeError, "windows.u.value: must be a number, not NoneType"),
    (
        near(boundary=["wrap", "nearest"], value=1),
        kspec.SpecError,
        "windows.u.value: is for boundary 'constant', which is not listed",
    ),
    (
        {
            "inputs": "T u, T w",
            "windows": {"u": NEAR | {"boundary": ["wrap", "valid"]}, "w": NEAR},
        },
        kspec.SpecError,
        "windows: boundary 'valid' changes the shape: either all windows have it or none",
    ),
    (
        {"inputs": "T u, T boundary"},
        kspec.SpecError,
        "in_params: 'boundary' is a keyword argument of every kernel with windows or samples; "
        "choose another name",
    ),
]

SIZES: list[tuple[Any, type, str]] = [
    ([1], SpecTypeError, "sizes: must be a table of sizes, such as { R = [1, 2] }, not list"),
    ({"R": "1"}, SpecTypeError, "sizes.R: must be a list of integers, not str"),
    ({"R": None}, SpecTypeError, "sizes.R: must be a list of integers, not NoneType"),
    ({"R": [1.5]}, SpecTypeError, "sizes.R.0: must be an integer, not float"),
    ({"R": [1, True]}, SpecTypeError, "sizes.R.1: must be an integer, not bool"),
    ({"R": True}, SpecTypeError, "sizes.R: must be an integer, not bool"),
    ({"R": [-1]}, kspec.SpecError, f"sizes.R.0: {LIMITS}, not -1"),
    ({"R": [2**31]}, kspec.SpecError, f"sizes.R.0: {LIMITS}, not 2147483648"),
    ({"R": range(2)}, SpecTypeError, "sizes.R: must be a list of integers, not range"),
    ({"R": [0] * 5000}, kspec.SpecError, "sizes.R: at most 4096 values can be listed"),
    ({"1R": [1]}, kspec.SpecError, "Invalid size '1R': '1R' is not a C identifier"),
    ({"for": [1]}, kspec.SpecError, "Invalid size 'for': 'for' is a C++ keyword"),
    ({"lambda": [1]}, kspec.SpecError, "Invalid size 'lambda': it is a Python keyword"),
    ({"u": [1]}, kspec.SpecError, "Invalid size 'u': it is a parameter too"),
    ({"v": [1]}, kspec.SpecError, "Invalid size 'v': it is a parameter too"),
    ({"T": [1]}, kspec.SpecError, "Invalid size 'T': it is a type placeholder too"),
    ({"k": [1]}, kspec.SpecError, "Invalid size 'k': it is the name of the kernel too"),
    ({"i": [1]}, kspec.SpecError, "Invalid size 'i': it is a name of generated code"),
    ({"_ind": [1]}, kspec.SpecError, "Invalid size '_ind': it is a name of generated code"),
    ({"_arg_u": [1]}, kspec.SpecError, "Invalid size '_arg_u': it is a name of generated code"),
    ({"size": [1]}, kspec.SpecError, "Invalid size 'size': it is a keyword argument of calls"),
    ({"order": [1]}, kspec.SpecError, "Invalid size 'order': it is a keyword argument of calls"),
    (
        {"boundary": [1]},
        kspec.SpecError,
        "Invalid size 'boundary': it is a keyword argument of calls",
    ),
]

OPERATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("v = u(-2)", {}, "offset -2 of u is outside its reach along axis 0, which is [-1, 1]"),
    (
        "v = u(R + 1)",
        near(reach=["R"]) | {"sizes": {"R": [2, 3]}},
        "offset 3 of u is outside its reach along axis 0, which is [-2, 2] for R = 2",
    ),
    ("v = u(1, 0)", {}, "u is read at 2 offsets; its window has 1 axis"),
    (
        "v = u[0]",
        {},
        "operation: u has a window and no index; read neighbours at offsets: u(-1)",
    ),
    ("v = u()", {}, "u is read at 0 offsets; its window has 1 axis"),
    ('v = u("a")', {}, 'offset "a" of u is a string; offsets are integers'),
    ("v = u(1)", near(reach=[1, 1]), "u is read at 1 offset; its window has 2 axes"),
    (
        "v = u(1) + _raw_u[0]",
        {},
        "operation: kernels with windows have no _raw_u; add a raw input for the array",
    ),
    (
        "v = u(1) + threadIdx.x",
        {},
        "operation: kernels with windows cannot read the thread's index",
    ),
    (
        "v = u(1)",
        {"after_loop": "int done = 1;"},
        "after_loop: kernels with windows cannot carry values between elements",
    ),
    (
        "s += u(1); v = s",
        {"loop_prep": "T s = 0;"},
        "loop_prep: kernels with windows cannot carry values between elements",
    ),
]


def sampled(**fields: Any) -> dict[str, Any]:
    return {"windows": {}, "samples": {"x": {"boundary": "wrap"} | fields}}


RAW = {"inputs": "T u, raw T x", "operation": "v = x.sample(u)"}
SAMPLES: list[tuple[dict[str, Any], type, str]] = [
    (RAW | {"windows": {}, "samples": 3}, SpecTypeError, "samples: must be a table, not int"),
    (RAW | sampled(order=2), kspec.SpecError, "unknown order 2; expected 0, 1 or 3"),
    (RAW | sampled(order="1"), SpecTypeError, "must be an order: 0, 1 or 3, not str"),
    (RAW | sampled(order=True), SpecTypeError, "must be an order: 0, 1 or 3, not bool"),
    (
        RAW | sampled(boundary="valid"),
        kspec.SpecError,
        f"samples.x.boundary: unknown boundary 'valid'; expected one of {ALL}",
    ),
    (RAW | sampled(boundary=[]), kspec.SpecError, "samples.x.boundary: lists no boundary"),
    (RAW | sampled(value=[]), SpecTypeError, "samples.x.value: must be a number, not list"),
    (RAW | sampled(axes=2), kspec.SpecError, "samples.x.axes: unknown key 'axes'"),
    (
        RAW | {"windows": {}, "samples": {"x": {"order": 1}}},
        kspec.SpecError,
        "samples.x: missing key 'boundary'",
    ),
    (
        RAW | {"windows": {}, "samples": {"y": {"boundary": "wrap"}, "x": {"boundary": "wrap"}}},
        kspec.SpecError,
        "samples.y: 'y' is not an input; inputs are u, x",
    ),
    (
        {"inputs": "T u, T x", "operation": "v = x.sample(u)"} | sampled(),
        kspec.SpecError,
        "samples.x: 'x' is neither raw nor windowed; declare it raw, or give it a window",
    ),
    (
        {"inputs": "T u, _non_const raw T x", "operation": "v = x.sample(u)"} | sampled(),
        kspec.SpecError,
        "samples.x: 'x' is _non_const: it would be sampled after it was written",
    ),
    (
        RAW | {"operation": "v = x[0]"} | sampled(),
        kspec.SpecError,
        "samples.x: the operation has no x.sample(...)",
    ),
    (
        RAW | {"windows": {}},
        kspec.SpecError,
        "operation: x is sampled; declare it in `samples`",
    ),
    (
        RAW | {"operation": "v = x.sample(u) + x.sample(u, u)"} | sampled(),
        kspec.SpecError,
        "x is sampled as an array of 2 dimensions here, and of 1 before",
    ),
    (
        RAW | {"operation": "v = x.sample(u, u, u, u, u)"} | sampled(),
        kspec.SpecError,
        "x is sampled at 5 coordinates; samples have 1 to 4",
    ),
    (
        RAW | {"inputs": "T boundary, raw T x", "operation": "v = x.sample(1)"} | sampled(),
        kspec.SpecError,
        "'boundary' is a keyword argument of every kernel with windows or samples",
    ),
    (
        RAW | {"operation": 'v = x.sample("a")'} | sampled(),
        kspec.SpecError,
        'operation: x is sampled at "a", a string; coordinates are numbers',
    ),
    (
        {"operation": 'v = u.sample("a")', "samples": {"u": {}}},
        kspec.SpecError,
        'operation: u is sampled at "a", a string; coordinates are numbers',
    ),
    (
        {"operation": "v = u.sample(1, 1)", "samples": {"u": {}}},
        kspec.SpecError,
        "u is sampled at 2 offsets; its window has 1 axis",
    ),
    (
        {"operation": "v = u.slice(0).sample(1)", "samples": {"u": {}}},
        kspec.SpecError,
        "u is windowed: only raw inputs have slices",
    ),
    (
        {"operation": "v = u.sample(1.25f)", "samples": {"u": {}}},
        kspec.SpecError,
        "the sample of u at 1.25f reads offsets 1 to 2, outside its reach along axis 0, which is "
        "[-1, 1]",
    ),
    (
        {"operation": "v = u.sample(-1.5)", "samples": {"u": {"order": 0}}, **near(reach=[0])},
        kspec.SpecError,
        "the sample of u at -1.5 reads offset -1, outside its reach along axis 0, which is [0, 0]",
    ),
    (
        {"operation": "v = u.sample(R)", "samples": {"u": {"order": 3}}}
        | near(reach=["R"])
        | {"sizes": {"R": [1]}},
        kspec.SpecError,
        "the sample of u at R reads offsets 0 to 2, outside its reach along axis 0, which is "
        "[-1, 1] for R = 1",
    ),
    (
        {"operation": "v = u.sample(0.5)", "samples": {"u": {"boundary": "wrap"}}},
        kspec.SpecError,
        "samples.u.boundary: u is windowed, and samples have the boundary of its window; remove it",
    ),
    (
        {"operation": "v = u.sample(0.5)", "samples": {"u": {}}, "backward": {"u": "adjoint"}},
        kspec.SpecError,
        "backward: the operation samples u, and 'adjoint' knows reads at offsets only; name a "
        "kernel",
    ),
]


class TestDeclarations:
    @pytest.mark.parametrize(("arguments", "kind", "message"), WINDOWS + SAMPLES)
    def test_tables(self, arguments: dict[str, Any], kind: type, message: str) -> None:
        with pytest.raises(kspec.SpecError, match=re.escape(message)) as caught:
            kernel(**arguments)
        assert type(caught.value) is kind
        assert str(caught.value).startswith("kernel 'k'")

    @pytest.mark.parametrize(("sizes", "kind", "message"), SIZES)
    def test_sizes(self, sizes: Any, kind: type, message: str) -> None:
        with pytest.raises(kspec.SpecError, match=re.escape(message)) as caught:
            kernel(sizes=sizes)
        assert type(caught.value) is kind

    @pytest.mark.parametrize(("operation", "fields", "message"), OPERATIONS)
    def test_operations(self, operation: str, fields: dict[str, Any], message: str) -> None:
        with pytest.raises(kspec.SpecError, match=re.escape(message)):
            kernel(operation=operation, **fields)

    def test_offsets_are_marked(self) -> None:
        with pytest.raises(kspec.SpecError) as caught:
            kernel(operation="v = u(1) + u(2 + 1)")
        assert str(caught.value).splitlines()[1:] == [
            "    v = u(1) + u(2 + 1)",
            "                 ^^^^^",
        ]

    def test_numbers_of_numpy(self) -> None:
        one = np.int64(1)
        blur = kernel(
            operation="v = u(1, 0) + u(0, -R)",
            windows={"u": {"reach": [[0, one], "R"], "boundary": "constant", "value": one}},
            sizes={"R": one},
        )
        assert blur(np.zeros((2, 2))).tolist() == [[1, 0], [2, 1]]
        half = kernel(**near(boundary="constant", value=np.float32(0.5)), sizes={"R": [one]})
        assert half(np.zeros(2)).tolist() == [0, 0.5]
        with pytest.raises(SpecTypeError, match="must be a list of integers, not float64"):
            kernel(sizes={"R": np.float64(1)})

    def test_all_problems_are_listed(self) -> None:
        with pytest.raises(kspec.SpecError) as caught:
            kernel(**near(reach=[-1, 1.5], boundary=["edge", 3]), sizes={"R": [True, -1]})
        assert len(str(caught.value).splitlines()) == 1 + 6


LAPLACIAN = kspec.ElementwiseKernel(
    "T u",
    "T v",
    "v = u(1) + u(-1) - 2 * u",
    "lap",
    windows={"u": {"reach": [1], "boundary": ["nearest", "wrap", "valid"]}},
)
BLUR = kspec.ElementwiseKernel(
    "T u, raw T w",
    "T v",
    "T sum = 0; for (int k = -R; k <= R; ++k) sum += w[k + R] * u(k); v = sum",
    "blur",
    windows={"u": {"reach": ["R"], "boundary": "nearest"}},
    sizes={"R": [1, 2]},
)
TWO = kspec.ElementwiseKernel(
    "T u, T c",
    "T v",
    "v = u(1, 0) + c(1)",
    "two",
    windows={
        "u": {"reach": [1, 1], "boundary": ["nearest", "valid"]},
        "c": {"reach": [1], "boundary": ["nearest", "valid"]},
    },
)
PLAIN = kspec.ElementwiseKernel("T x", "T y", "y = x", "plain")
WARP = kspec.ElementwiseKernel(
    "raw T x, S a, S b",
    "T z",
    "z = x.sample(a, b)",
    "warp",
    samples={"x": {"boundary": ["wrap", "constant"], "value": -1}},
)
U, W = np.arange(6.0), np.ones(3)
X = np.ones((3, 4))
TypeFault, ShapeFault = kspec.ArgumentTypeError, kspec.ShapeError
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], type, str]] = [
    (
        LAPLACIAN,
        (U,),
        {"boundary": "mirror"},
        TypeFault,
        "lap: boundary 'mirror' is not declared for u, which has 'nearest', 'wrap', 'valid'",
    ),
    (LAPLACIAN, (U,), {"boundary": 3}, TypeFault, "lap: boundary must be a string, not int"),
    (
        PLAIN,
        (U,),
        {"boundary": "wrap"},
        TypeFault,
        "plain: boundary is given, but the kernel has no windows or samples",
    ),
    (
        BLUR,
        (U, W),
        {},
        TypeFault,
        "blur: size R is missing; pass R=... (precompiled: 1, 2)",
    ),
    (BLUR, (U, W), {"R": None}, TypeFault, "blur: size R is missing; pass R=..."),
    (BLUR, (U, W), {"R": 1.0}, TypeFault, "blur: size R must be an integer, not float"),
    (BLUR, (U, W), {"R": True}, TypeFault, "blur: size R must be an integer, not bool"),
    (BLUR, (U, W), {"R": "1"}, TypeFault, "blur: size R must be an integer, not str"),
    (BLUR, (U, W), {"R": -1}, ShapeFault, "blur: size R must be in [0, 2147483647], not -1"),
    (
        BLUR,
        (U, W),
        {"R": 2**40},
        ShapeFault,
        "blur: size R must be in [0, 2147483647], not 1099511627776",
    ),
    (
        BLUR,
        (U, W),
        {"R": 1, "Q": 2},
        TypeFault,
        "blur() got an unexpected keyword argument 'Q'; its sizes are R",
    ),
    (
        BLUR,
        (U, W),
        {"r": 1},
        TypeFault,
        "blur() got an unexpected keyword argument 'r'; its sizes are R",
    ),
    (LAPLACIAN, (U,), {"R": 1}, TypeFault, "lap() got an unexpected keyword argument 'R'"),
    (LAPLACIAN, (3.0,), {}, TypeFault, "lap: argument u must be an array, not float"),
    (
        LAPLACIAN,
        (np.array(3.0),),
        {},
        ShapeFault,
        "lap: argument u has 0 dimensions, and its window 1",
    ),
    (TWO, (U, U), {}, ShapeFault, "two: argument u has 1 dimension, and its window 2"),
    (
        TWO,
        (X, np.ones(1)),
        {},
        ShapeFault,
        "two: argument c has extents (1,) along its windowed axes, and the loop (4,); windowed "
        "axes do not broadcast",
    ),
    (
        LAPLACIAN,
        (U[:1], np.ones(6)),
        {},
        ShapeFault,
        "lap: argument u has extents (1,) along its windowed axes, and the loop (6,); windowed "
        "axes do not broadcast",
    ),
    (
        LAPLACIAN,
        (U[:1],),
        {"boundary": "valid"},
        ShapeFault,
        "lap: argument u has shape (1,), which leaves nothing for boundary 'valid': its window "
        "takes 2 elements from an axis of 1",
    ),
    (
        LAPLACIAN,
        (U, np.ones(6)),
        {"boundary": "valid"},
        ShapeFault,
        "lap: operands could not be broadcast together with shapes (4,) (6,)",
    ),
    (
        WARP,
        (X, U, U),
        {"boundary": "mirror"},
        TypeFault,
        "warp: boundary 'mirror' is not declared for x, which has 'wrap', 'constant'",
    ),
    (WARP, (X, U, U), {"boundary": 1}, TypeFault, "warp: boundary must be a string, not int"),
    (WARP, (2.0, U, U), {}, TypeFault, "warp: argument x must be an array, not float"),
    (
        WARP,
        (U, U, U),
        {},
        ShapeFault,
        "warp: argument x has 1 dimension; the operation samples an array of 2",
    ),
    (
        WARP,
        (np.zeros((2, 2), [("a", "f4")]), U, U),
        {},
        TypeFault,
        "and samples of order 1 need numbers",
    ),
    (
        WARP,
        (np.ones((2, 2), "uint8"), U, U),
        {"boundary": "constant"},
        OverflowError,
        "warp: argument x: value of its boundary: Python integer -1 out of bounds for uint8",
    ),
]


class TestCalls:
    @pytest.mark.parametrize(("function", "args", "keywords", "kind", "message"), CALLS)
    def test_refused(
        self,
        function: Any,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        kind: type,
        message: str,
        place: ArrayDevice,
    ) -> None:
        given = [place.array(one) if isinstance(one, np.ndarray) else one for one in args]
        for _ in range(3):  # a refused call leaves no plan behind
            with pytest.raises(Exception, match=re.escape(message)) as caught:
                function(*given, **keywords)
            assert type(caught.value) is kind

    def test_bound_calls(self) -> None:
        with pytest.raises(kspec.ArgumentTypeError, match="lap: boundary 'mirror' is not declared"):
            LAPLACIAN.bind(U, boundary="mirror")
        with pytest.raises(kspec.ArgumentTypeError, match="blur: size R is missing"):
            BLUR.bind(U, W)

    @pytest.mark.parametrize("number", range(3))
    def test_overlap(self, number: int, place: ArrayDevice) -> None:
        message = (
            r"argument \w is written to, and its memory overlaps with that of argument \w, whose "
            r"elements other threads read; pass a copy for \w or \w"
        )
        memory = place.array(np.arange(40.0))
        a = place.array(np.zeros(6))
        views = [(0, 0), (0, 2), (3, 1)][number]
        one, other = (memory[start : start + 6] for start in views)
        for _ in range(3):  # the plan of the calls before must not let it through
            LAPLACIAN(memory[:6], memory[20:26])
            with pytest.raises(kspec.OverlapError, match=message):
                LAPLACIAN(one, other)
            WARP(memory[:6].reshape(2, 3), a, a, memory[20:26])
            with pytest.raises(kspec.OverlapError, match=message):
                WARP(one.reshape(2, 3), a, a, other)


class TestHostFaults:
    @pytest.mark.parametrize("offset", [-2, 3, 2**30])
    def test_computed_offsets(self, offset: int) -> None:
        gather = kspec.ElementwiseKernel(
            "T u, int32 d",
            "T v",
            "\nv = 0;\nv = u(d)",
            "gather",
            windows={"u": {"reach": [[1, 2]], "boundary": "nearest"}},
        )
        d = np.zeros(6, "int32")
        assert gather(U, d).tolist() == U.tolist()
        d[4] = offset
        with pytest.raises(kspec.HostFault) as caught:
            gather(U, d)
        fault = caught.value
        assert (fault.kind, fault.line, fault.source_line.strip()) == ("window", 3, "v = u(d)")
        wanted = f"offset {offset} of u is outside its reach along axis 0, which is [-1, 2]"
        assert wanted in str(fault)

    @pytest.mark.parametrize(
        ("order", "offset", "tap"), [(0, 1.5, 2), (1, 1.25, 2), (1, -1.5, -2), (3, 0.25, 2)]
    )
    def test_computed_samples(self, order: int, offset: float, tap: int) -> None:
        shift = kspec.ElementwiseKernel(
            "T u, T d",
            "T v",
            "v = u.sample(d)",
            f"shift_{order}",
            windows={"u": {"reach": [1], "boundary": "wrap"}},
            samples={"u": {"order": order}},
        )
        with pytest.raises(kspec.HostFault) as caught:
            shift(U, np.full(6, offset))
        assert caught.value.kind == "window"
        wanted = f"offset {tap} of u is outside its reach along axis 0, which is [-1, 1]"
        assert wanted in str(caught.value)
        for infinite in (np.inf, -np.inf):
            with pytest.raises(kspec.HostFault, match=r"offset -?\d+ of u is outside its reach"):
                shift(U, np.full(6, infinite))
        assert np.isnan(shift(U, np.full(6, np.nan))).all()

    def test_offsets_that_are_no_integers(self) -> None:
        """They used to be truncated without a word."""
        between = kernel(inputs="T u, T d", operation="v = u(d)")
        assert between(np.arange(6), np.ones(6, int)).tolist() == [1, 2, 3, 4, 5, 5]
        with pytest.raises(kspec.CompileError, match="read at integers; to read between elements"):
            between(U, np.full(6, 0.7))
        flag = kernel(operation="v = u(u > 2)")
        assert flag(U).tolist() == [0, 1, 2, 4, 5, 5]

    def test_offsets_in_macros(self) -> None:
        """Macros are not checked when the spec is read; such reads outside the array went unnoticed."""
        hidden = kernel(operation="v = FAR", options=("-DFAR=u(200000)",))
        with pytest.raises(kspec.HostFault, match="offset 200000 of u is outside its reach"):
            hidden(U)

    def test_sizes_below_an_offset(self) -> None:
        """Calls may give a smaller size than those that are precompiled."""
        fixed = kernel(operation="v = u(1)", **near(reach=["R"]), sizes={"R": [1]})
        assert fixed(U).tolist() == [1, 2, 3, 4, 5, 5]
        with pytest.raises(kspec.HostFault, match=r"offset 1 of u .* which is \[0, 0\]"):
            fixed(U, R=0)

    def test_reads_within_the_reach_are_within_bounds(self) -> None:
        """Reads used to be checked twice, which doubled the time of such kernels."""
        gather = kernel(inputs="T u, int32 d", operation="v = u(d)")
        assert gather.declaration.windows[0].computed
        assert modes_of_call(NO_CHECKS, HOST_DEVICE, gather.declaration) == ()
        asked = parse_checks("memory", None, None)
        assert modes_of_call(asked, HOST_DEVICE, gather.declaration) == ("memory",)
        assert modes_of_call(NO_CHECKS, HOST_DEVICE, BLUR.declaration) == (bounds_mode(),)

    def test_short_weights(self) -> None:
        with pytest.raises(kspec.HostFault) as caught:
            BLUR(U, W, R=2)
        assert caught.value.kind == "illegal-address"
        assert "read of 8 bytes at 0 bytes past the end of w (24 bytes)" in str(caught.value)


def test_a_size_may_be_called_n() -> None:
    """Generated code used to have a variable of that name."""
    scaled = kernel(operation="v = n * u(1)", sizes={"n": [2, 3]})
    assert scaled(U, n=3).tolist() == [3, 6, 9, 12, 15, 15]
