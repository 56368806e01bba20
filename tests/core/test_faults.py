"""Wrong core dimensions and calls: the class and the words of each refusal.

``tests/golden/spec/core.case`` has declarations in spec files, with places.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import kspec
from tests.core.kernels import FIRST, MATVEC, SOLVE
from tests.devices import ArrayDevice

Syntax, Spec = kspec.SignatureSyntaxError, kspec.SpecError
TypeFault, ShapeFault = kspec.ArgumentTypeError, kspec.ShapeError
DIMENSION = "is not a dimension; write a name, a number, or an expression of them with + - * //"


def kernel(
    inputs: str = "T x[n]", outputs: str = "T y", operation: str = "y = x(0)", **keywords: Any
) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel(inputs, outputs, operation, "k", **keywords)


# Arguments of the constructor, and the error.
DECLARATIONS: list[tuple[dict[str, Any], type, str]] = [
    ({"inputs": "T x[n / 2]"}, Syntax, f"in_params: 'n / 2' {DIMENSION}"),
    ({"inputs": "T x[n"}, Syntax, "in_params: ']' is missing"),
    ({"inputs": "T x[n] m"}, Syntax, "in_params: nothing can follow ']'"),
    ({"outputs": "T y[a, b, c, d, e]"}, Syntax, "a parameter has at most 4 core dimensions, not 5"),
    (
        {"inputs": "T x[n], raw T u[n]"},
        Syntax,
        "in_params: a raw parameter has the number of its axes in brackets, at most 64: "
        "'raw T x[2]'",
    ),
    (
        {"inputs": "T x[n + 1], T w[n]"},
        Spec,
        "in_params: core dimension 'n + 1' of input x is an expression; the extent of an input is "
        "a name or a number",
    ),
    (
        {"outputs": "T y[m]", "operation": "y(0) = x(0)"},
        Spec,
        "out_params: 'm' is not a size: no input has it as a core dimension, and `sizes` does not "
        "list it",
    ),
    (
        {"inputs": "T x", "outputs": "T y[n]", "operation": "y(0) = x"},
        Spec,
        "out_params: 'n' is not a size: no input has it as a core dimension",
    ),
    (
        {"outputs": "T y[n + m]", "operation": "y(0) = x(0)"},
        Spec,
        "out_params: 'm' is not a size: no input has it as a core dimension",
    ),
    ({"inputs": "T x[x]"}, Spec, "in_params: Invalid size 'x': it is a parameter too"),
    ({"inputs": "T x[y]"}, Spec, "in_params: Invalid size 'y': it is a parameter too"),
    ({"inputs": "T x[T]"}, Spec, "in_params: Invalid size 'T': it is a type placeholder too"),
    ({"inputs": "T x[k]"}, Spec, "in_params: Invalid size 'k': it is the name of the kernel too"),
    ({"inputs": "T x[i]"}, Spec, "in_params: Invalid size 'i': it is a name of generated code"),
    (
        {"inputs": "T x[size]"},
        Spec,
        "in_params: Invalid size 'size': it is a keyword argument of calls",
    ),
    (
        {"inputs": "T x[boundary]"},
        Spec,
        "in_params: Invalid size 'boundary': it is a keyword argument of calls",
    ),
    ({"inputs": "T x[int]"}, Spec, "in_params: Invalid size 'int': 'int' is a C++ keyword"),
    (
        {"operation": "y = x(0, 0)"},
        Spec,
        "operation: x has 1 core dimension, and here 2 indices",
    ),
    ({"operation": "y = x()"}, Spec, "operation: x has 1 core dimension, and here 0 indices"),
    (
        {"inputs": "T x[n, 2]"},
        Spec,
        "operation: x has 2 core dimensions, and here 1 index",
    ),
    ({"operation": "y = x[0]"}, Spec, "operation: elements of x are in round brackets: x(i)"),
    (
        {"inputs": "T x[n, 2]", "operation": "y = x[0][1]"},
        Spec,
        "operation: elements of x are in round brackets: x(i, j)",
    ),
    (
        {"operation": "y = x(-1)", "sizes": {"n": [2]}},
        Spec,
        "operation: index -1 of x is outside of its core dimension 0, which has 2 elements for "
        "n = 2",
    ),
    (
        {"inputs": "T x[1]", "operation": "y = x(1)"},
        Spec,
        "operation: index 1 of x is outside of its core dimension 0, which has 1 element",
    ),
    (
        {"operation": "y = x(n - 1)", "sizes": {"n": [2, 0]}},
        Spec,
        "operation: index -1 of x is outside of its core dimension 0, which has 0 elements for "
        "n = 0",
    ),
    (
        {"operation": "y = x(m)", "sizes": {"n": [3], "m": [0, 5]}},
        Spec,
        "operation: index 5 of x is outside of its core dimension 0, which has 3 elements for "
        "n = 3, m = 5",
    ),
    (
        {"outputs": "T y[2 * n]", "operation": "y(2 * n) = 1", "sizes": {"n": [2]}},
        Spec,
        "operation: index 4 of y is outside of its core dimension 0, which has 4 elements for "
        "n = 2",
    ),
    (
        {"inputs": "T x[n], T q[4]", "operation": "y = q(4)"},  # whatever n is
        Spec,
        "operation: index 4 of q is outside of its core dimension 0, which has 4 elements",
    ),
    (
        {
            "inputs": "T x[n], T q[m]",
            "outputs": "T y[n // m]",
            "operation": "y(1) = x(0)",
            "sizes": {"n": [4], "m": [0, 2, 4]},
        },
        Spec,
        "operation: index 1 of y is outside of its core dimension 0, which has 1 element for "
        "n = 4, m = 4",
    ),
    (
        {"inputs": "T x[n], T u", "windows": {"u": {"reach": [1], "boundary": "wrap"}}},
        Spec,
        "windows: kernels with core dimensions have no windows or samples",
    ),
    (
        {
            "inputs": "T x[n], raw T u",
            "operation": "y = u.sample(x(0))",
            "samples": {"u": {"boundary": "wrap"}},
        },
        Spec,
        "samples: kernels with core dimensions have no windows or samples",
    ),
    (
        {"operation": "y = _raw_x[0]"},
        Spec,
        "operation: kernels with core dimensions have no _raw_x; add a raw input for the array",
    ),
    (
        {"operation": "y = x(0) + threadIdx.x"},
        Spec,
        "operation: kernels with core dimensions cannot read the thread's index",
    ),
    (
        {"after_loop": "int done = 1;"},
        Spec,
        "after_loop: kernels with core dimensions cannot carry values between elements",
    ),
    (
        {"operation": "s += x(0); y = s", "loop_prep": "T s = 0;"},
        Spec,
        "loop_prep: kernels with core dimensions cannot carry values between elements",
    ),
]


class TestDeclarations:
    @pytest.mark.parametrize(("arguments", "kind", "message"), DECLARATIONS)
    def test_refused(self, arguments: dict[str, Any], kind: type, message: str) -> None:
        with pytest.raises(kspec.SpecError) as caught:
            kernel(**arguments)
        assert message in str(caught.value), str(caught.value)
        assert isinstance(caught.value, kind)
        assert str(caught.value).startswith("kernel 'k'")

    def test_indices_are_marked(self) -> None:
        with pytest.raises(kspec.SpecError) as caught:
            kernel("T x[3, 3]", operation="y = x(0, 1) + x(1, 2 + 1)")
        assert str(caught.value).splitlines()[1:] == [
            "    y = x(0, 1) + x(1, 2 + 1)",
            "                       ^^^^^",
        ]

    def test_all_problems_are_listed(self) -> None:
        with pytest.raises(kspec.SpecError) as caught:
            kernel("T x[3], T w[T]", "T y[m]", "y(0) = x(3) + x[1] + w(0, 1)")
        lines = str(caught.value).splitlines()
        assert (
            len([line for line in lines if re.match(r"  (in|out)_params|  operation", line)]) == 5
        )


FEW = kspec.ElementwiseKernel(
    "T x[n], T w[4]", "T y[n - 2]", "for (int j = 0; j < n - 2; ++j) y(j) = x(j) * w(0)", "few"
)
RATIO = kspec.ElementwiseKernel("T x[n], T w[m]", "T y[n // m]", "", "ratio")
CHOICE = kspec.ElementwiseKernel("T x[n]", "T y[k]", "y(0) = x(0)", "choice", sizes={"k": [1, 2]})
OPEN = kspec.ElementwiseKernel("T x[n]", "T y[k]", "y(0) = x(0)", "open", sizes={"k": []})
TABLE = kspec.ElementwiseKernel("T x[n], raw T u[2]", "T y", "y = u[i]", "table")
A, X = np.ones((5, 3, 4)), np.ones((5, 4))
MISMATCH = "has a mismatch in its core dimension"
CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any], type, str]] = [
    (
        MATVEC,
        (A, X[:, :3]),
        {},
        ShapeFault,
        f"core_matvec: argument x {MISMATCH} 0, with signature (n,m),(m)->(n) (size 3 is "
        "different from 4)",
    ),
    (
        SOLVE,
        (A, X),
        {},
        ShapeFault,
        f"core_solve: argument A {MISMATCH} 1, with signature (n,n),(n)->(n) (size 4 is different "
        "from 3)",
    ),
    (
        MATVEC,
        (A, X[:, :1]),  # core dimensions do not broadcast
        {},
        ShapeFault,
        f"core_matvec: argument x {MISMATCH} 0, with signature (n,m),(m)->(n) (size 1 is "
        "different from 4)",
    ),
    (
        FEW,
        (X, X[:, :3]),
        {},
        ShapeFault,
        f"few: argument w {MISMATCH} 0, with signature (n),(4)->(n - 2) (size 3 is different "
        "from 4)",
    ),
    (
        MATVEC,
        (A[0, 0], X),
        {},
        ShapeFault,
        "core_matvec: argument A does not have enough dimensions (has 1, T A[n, m] requires 2)",
    ),
    (
        MATVEC,
        (A, np.array(1.0)),
        {},
        ShapeFault,
        "core_matvec: argument x does not have enough dimensions (has 0, T x[m] requires 1)",
    ),
    (MATVEC, (A, 1.0), {}, TypeFault, "core_matvec: argument x must be an array, not float"),
    (MATVEC, (A,), {}, TypeFault, "core_matvec"),
    (
        MATVEC,
        (A, X[:2]),
        {},
        ShapeFault,
        "core_matvec: operands could not be broadcast together with shapes (5,) (2,)",
    ),
    (
        MATVEC,
        (A, X, np.ones((5, 4))),
        {},
        ShapeFault,
        f"core_matvec: argument y {MISMATCH} 0, with signature (n,m),(m)->(n) (size 4 is "
        "different from 3)",
    ),
    (
        MATVEC,
        (A, X, np.ones(3)),
        {},
        ShapeFault,
        "Out shape is mismatched: core_matvec: output y has shape (3,), the result (5, 3)",
    ),
    (
        MATVEC,
        (A, X, np.array(1.0)),
        {},
        ShapeFault,
        "core_matvec: argument y does not have enough dimensions (has 0, T y[n] requires 1)",
    ),
    (
        MATVEC,
        (A, X.astype("float32")),
        {},
        TypeFault,
        "Type is mismatched. core_matvec",
    ),
    (
        FEW,
        (X[:, :1], X),
        {},
        ShapeFault,
        "few: T y[n - 2] has n - 2 = -1 elements for n = 1",
    ),
    (
        RATIO,
        (X, X[:, :0]),
        {},
        ShapeFault,
        "ratio: T y[n // m] divides by zero in n // m for n = 4, m = 0",
    ),
    (CHOICE, (X,), {}, TypeFault, "choice: size k is missing; pass k=... (precompiled: 1, 2)"),
    (OPEN, (X,), {}, TypeFault, "open: size k is missing; pass k=..."),
    (CHOICE, (X,), {"k": 1.0}, TypeFault, "choice: size k must be an integer, not float"),
    (CHOICE, (X,), {"k": True}, TypeFault, "choice: size k must be an integer, not bool"),
    (CHOICE, (X,), {"k": -1}, ShapeFault, "choice: size k must be in [0, 2147483647], not -1"),
    (
        CHOICE,
        (X,),
        {"k": 1, "n": 4},
        TypeFault,
        "choice() got an unexpected keyword argument 'n'; its sizes are k",
    ),
    (
        SOLVE,
        (A[:, :, :3], X[:, :3]),
        {"n": 3},
        TypeFault,
        "core_solve() got an unexpected keyword argument 'n'",
    ),
    (
        CHOICE,
        (X, np.ones((5, 2))),
        {"k": 1},
        ShapeFault,
        f"choice: argument y {MISMATCH} 0, with signature (n)->(k) (size 2 is different from 1)",
    ),
    (
        MATVEC,
        (A, X),
        {"boundary": "wrap"},
        TypeFault,
        "core_matvec: boundary is given, but the kernel has no windows or samples",
    ),
    (
        MATVEC,
        (A, X),
        {"size": 3},
        ShapeFault,
        "core_matvec: Specified 'size' can be used only if all of the array arguments are raw",
    ),
    (
        TABLE,
        (X, X[0]),
        {},
        ShapeFault,
        "table: argument u has 1 dimension; it is declared raw T u[2]",
    ),
    (TABLE, (X, 2.0), {}, TypeFault, "table: argument u must be an array, not float"),
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

    def test_more_elements_than_an_int_counts(self) -> None:
        message = (
            "few: argument x has 2147483648 elements along its core dimensions; kernels take "
            "2147483647"
        )
        x = np.broadcast_to(np.ones(1), 2**31)
        for _ in range(3):
            with pytest.raises(Exception, match=re.escape(message)) as caught:
                FEW(x, X[0])
            assert type(caught.value) is ShapeFault

    def test_bound_calls(self) -> None:
        with pytest.raises(kspec.ShapeError, match="argument x has a mismatch"):
            MATVEC.bind(A, X[:, :3])
        with pytest.raises(kspec.ArgumentTypeError, match="choice: size k is missing"):
            CHOICE.bind(X)

    def test_a_plan_lets_no_mismatch_through(self, place: ArrayDevice) -> None:
        for _ in range(4):
            MATVEC(place.array(A), place.array(X))
            with pytest.raises(kspec.ShapeError, match="size 3 is different from 4"):
                MATVEC(place.array(A), place.array(X[:, :3]))

    def test_read_only_arrays(self) -> None:
        update = kernel("_non_const T x[n]", "", "x(0) = 1")
        frozen = np.ones((5, 4))
        frozen.flags.writeable = False
        message = "k: argument x is written to, but the array is read-only"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            update(frozen)
        with pytest.raises(kspec.ArgumentTypeError, match="argument y is written to, but"):
            FIRST(X, frozen, k=4)


class TestOverlaps:
    COPY = kspec.ElementwiseKernel(
        "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(j) = x(j)", "core_copy"
    )
    MEAN = kspec.ElementwiseKernel(
        "T x[n], T z", "T y", "y = z; for (int j = 0; j < n; ++j) y += x(j)", "core_mean"
    )

    def test_shifted_arrays(self, place: ArrayDevice) -> None:
        memory = place.array(np.arange(200.0))
        message = (
            "core_copy: argument y is written to, and its memory overlaps with that of argument x; "
            "pass the same view, or a copy for y or x"
        )
        first = memory[:60].reshape(20, 3)
        for _ in range(3):
            self.COPY(first, memory[100:160].reshape(20, 3))
            self.COPY(first, first)
            for start in (3, 1, 59):
                with pytest.raises(kspec.OverlapError, match=re.escape(message)):
                    self.COPY(first, memory[start : start + 60].reshape(20, 3))
            self.COPY(first, memory[60:120].reshape(20, 3))

    def test_other_orders_of_one_array(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(48.0)).reshape(3, 4, 4)
        for view in (x[::-1], x.transpose(0, 2, 1), x[:, ::-1]):
            with pytest.raises(kspec.OverlapError, match="pass the same view, or a copy"):
                self.COPY(x, view)

    def test_large_items_in_place(self, place: ArrayDevice) -> None:
        """The output began with zeros before the input was read."""
        x, other = place.array(np.ones((5, 100))), place.array(np.ones((5, 100)))
        message = (
            "core_copy: argument y is written to, and its memory overlaps with that of argument x, "
            "whose core dimensions are read in place; pass a copy for y or x"
        )
        for _ in range(3):
            self.COPY(x, other)
            with pytest.raises(kspec.OverlapError, match=re.escape(message)):
                self.COPY(x, x)

    def test_items_that_other_threads_read(self, place: ArrayDevice) -> None:
        """Each thread reads the item of which another one wrote an element."""
        x, z, y = (place.array(np.ones(4)) for _ in range(3))
        message = (
            "core_mean: argument y is written to, and its memory overlaps with that of argument x, "
            "whose core dimensions other threads read; pass a copy for y or x"
        )
        for _ in range(3):
            self.MEAN(x, z, y)
            self.MEAN(x, z, z)  # an element of its own
            with pytest.raises(kspec.OverlapError, match=re.escape(message)):
                self.MEAN(x, z, x)

    def test_items_of_other_axes(self, place: ArrayDevice) -> None:
        """The same elements in the same order, divided in another way."""
        outer = kspec.ElementwiseKernel(
            "T x[n], T z", "T y[m, 2]", "y(0, 0) = x(0) + z", "outer", sizes={"m": [2]}
        )
        x, z = place.array(np.ones((2, 2))), place.array(np.ones(2))
        outer(x, z, place.array(np.ones((2, 2, 2))))
        whole = place.array(np.ones((2, 2, 2)))
        with pytest.raises(kspec.OverlapError, match="core dimensions other threads read"):
            outer(whole[0], z, whole)
        with pytest.raises(kspec.OverlapError):
            outer(whole[:, 0], z, whole)

    def test_several_outputs(self) -> None:
        two = kspec.ElementwiseKernel("T x[n]", "T y[n], T z[n]", "y(0) = x(0); z(0) = 1", "two")
        y = np.ones((5, 3))
        message = "argument z is written to, and its memory overlaps with that of argument y"
        with pytest.raises(kspec.OverlapError, match=message):
            two(np.ones((5, 3)), y, y)

    def test_outputs_that_meet_themselves(self) -> None:
        whole = np.ones(10)
        windows = np.lib.stride_tricks.sliding_window_view(whole, 3, writeable=True)
        with pytest.raises(kspec.OverlapError, match="several of its elements are the same memory"):
            self.COPY(np.ones((8, 3)), windows)


class TestHostFaults:
    @pytest.mark.parametrize("n", [3, 70])
    @pytest.mark.parametrize("index", [-1, 70, 2**31 - 1, -(2**31)])
    def test_computed_indices(self, n: int, index: int) -> None:
        """Of small items, which are copied, and of large ones."""
        pick = kspec.ElementwiseKernel("T x[2, n], int32 k", "T y", "\ny = 0;\ny = x(1, k)", "pick")
        x, k = np.ones((6, 2, n)), np.zeros(6, "int32")
        assert pick(x, k).tolist() == [1] * 6
        k[4] = index
        with pytest.raises(kspec.HostFault) as caught:
            pick(x, k)
        fault = caught.value
        wanted = f"index {index} of x is outside of its core dimension 1, which has {n} elements"
        assert wanted in str(fault)
        assert (fault.kind, fault.line) == ("bounds", 3)
        assert fault.source_line.strip() == "y = x(1, k)"

    @pytest.mark.parametrize("n", [3, 70])
    def test_outputs(self, n: int) -> None:
        far = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "for (int j = 0; j <= n; ++j)\n  y(j) = 1", "far"
        )
        with pytest.raises(kspec.HostFault) as caught:
            far(np.ones((6, n)))
        wanted = f"index {n} of y is outside of its core dimension 0, which has {n} elements"
        assert wanted in str(caught.value)
        assert (caught.value.kind, caught.value.line) == ("bounds", 2)

    def test_items_without_elements(self) -> None:
        first = kspec.ElementwiseKernel("T x[n]", "T y", "y = x(0)", "core_zeroth")
        wanted = "index 0 of x is outside of its core dimension 0, which has 0 elements"
        with pytest.raises(kspec.HostFault, match=wanted):
            first(np.ones((6, 0)))

    def test_macros(self) -> None:
        """The operation is not all that is read: a macro may look up an element too."""
        hidden = kernel(operation="y = FAR", options=("-DFAR=x(200)",))
        with pytest.raises(kspec.HostFault, match="index 200 of x is outside of its core"):
            hidden(np.ones((6, 3)))

    def test_sizes_that_are_not_listed(self) -> None:
        fixed = kernel(operation="y = x(2)", sizes={"n": [3, 4]})
        assert fixed(np.ones((6, 5))).tolist() == [1] * 6
        with pytest.raises(kspec.HostFault, match="index 2 of x"):
            fixed(np.ones((6, 2)))


class TestCompilers:
    @pytest.mark.parametrize("n", [3, 70])
    def test_inputs_are_constant(self, n: int) -> None:
        with pytest.raises(kspec.CompileError, match=r"<k\.operation>:1"):
            kernel(operation="x(0) = 3; y = 1")(np.ones((6, n)))

    @pytest.mark.parametrize("n", [3, 70])
    def test_items_are_no_numbers(self, n: int) -> None:
        with pytest.raises(kspec.CompileError, match=r"<k\.operation>:1"):
            kernel(operation="y = x")(np.ones((6, n)))

    @pytest.mark.parametrize("n", [3, 70])
    def test_indices_are_integers(self, n: int) -> None:
        """They were truncated without a word."""
        for operation in ("y = x(0.5)", "y = x(x(1))"):
            with pytest.raises(kspec.CompileError, match="the indices of an element are integers"):
                kernel(operation=operation)(np.ones((6, n)))
        every = kernel(operation="y = x(x(1) > 0) + x(short(1)) + x(2u) + x(i % 2) + x(int(x(0)))")
        assert every(np.ones((6, n))).tolist() == [5] * 6
