"""The tracer of a function: it makes proxies, and the values of their graph.

>>> from kspec.fusion.graph import Dim
>>> from kspec.fusion import functions
>>> tracer = Tracer(functions)
>>> x = tracer.argument(0, "float32", (Dim(3, (0, 0)),))
>>> print((np.sqrt(x * x) + 1).value)
add(sqrt(multiply(x0, x0)), 1.0): float32 [3]
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.fusion import types
from kspec.fusion.graph import ArrayInput, Constant, Graph, Node, Shape, is_number
from kspec.fusion.numbers import COMPARISONS, OPERATORS, NumberArgument
from kspec.fusion.refusals import refuse, refuse_array
from kspec.fusion.tracing.proxies import Proxy, is_python_number, record_recipe

# What Python's bools have operators of their own for, and its complex numbers none.
_OF_BOOLS = {*COMPARISONS, "bitwise_and", "bitwise_or", "bitwise_xor"}
_ORDERINGS = set(COMPARISONS) - {"equal", "not_equal"}
# What becomes of Python numbers: the types that they have by themselves.
_PYTHONS = {strong: weak for weak, strong in types.STRONG.items()}


@dataclass(frozen=True, eq=False)
class Write:
    """A write to an argument that shares memory with others.

    Attributes
    ----------
    value : Node
        Its new elements.
    target : ArrayInput
        Its elements before.
    renewed : tuple of int
        Arguments whose elements are read anew: that one, and those it shares memory with.
    """

    value: Node
    target: ArrayInput
    renewed: tuple[int, ...]


class Tracer:
    """Makes proxies, and remembers which arguments were written to.

    Parameters
    ----------
    functions : module
        `kspec.fusion.functions`, which is above this one.
    count : int, optional
        Arguments of the function.
    overlaps : sequence of (int, int), optional
        Pairs of arguments that share memory, though not as the same elements.

    Attributes
    ----------
    graph : Graph
        The computed values.
    written : dict of int to Proxy
        Arguments that were assigned to in place.
    writes : list of Write
        Writes to arguments of `overlaps`, in order. After each, the proxies of changed arguments
        have values of their own: arguments of the graph from position `count` on.
    """

    def __init__(
        self, functions: ModuleType, count: int = 0, overlaps: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.functions = functions
        self.graph = Graph()
        self.written: dict[int, Proxy] = {}
        self.writes: list[Write] = []
        self._next = count
        self._overlaps = overlaps
        self._newest: dict[int, tuple[Proxy, ArrayInput]] = {}

    def argument(self, position: int, dtype: str, shape: Shape) -> Proxy:
        """Return the proxy of an array."""
        value = self.graph.argument(position, dtype, shape)
        made = Proxy(self, value, position=position)
        self._newest[position] = made, value
        return made

    def overlapping(self, position: int) -> tuple[int, ...]:
        """Return the arguments that share memory with one, though not as the same elements."""
        pairs = [pair for pair in self._overlaps if position in pair]
        return tuple(first if second == position else second for first, second in pairs)

    def record_write(self, position: int) -> None:
        """Note that an argument has got new elements, which others may show, too."""
        target, before = self._newest[position]
        self.written[position] = target
        others = self.overlapping(position)
        if not others:
            return
        renewed = position, *others
        self.writes.append(Write(target.value, before, renewed))
        for one in renewed:
            made, old = self._newest[one]
            made._value = new = self.graph.argument(self._next, old.dtype, old.shape)
            self._newest[one] = made, new
            self._next += 1

    def number(self, position: int, type_: str) -> Proxy:
        """Return the proxy of a scalar, whose type may be that of a Python number."""
        value = self.graph.number(position, types.STRONG.get(type_, type_))
        made = Proxy(self, value, weak=type_ if type_ in types.WEAK else "")
        made.recipe = NumberArgument(position)
        return made

    def wrap(self, value: Node) -> Proxy:
        """Return a variable with a value."""
        return Proxy(self, value)

    def operand(self, given: Any, what: str) -> tuple[Node, str]:
        """Return a value and its type, of a proxy or a number.

        Raises
        ------
        FusionError
            If it is neither.
        """
        if isinstance(given, Proxy):
            if given.tracer is not self:
                refuse(f"{what}: the array belongs to another fused function that is being traced")
            return given.value, given.weak or given.value.dtype
        number = types.type_of_number(given)
        if number is None and getattr(given, "shape", None) == () and isinstance(given, np.ndarray):
            given, number = given[()], types.type_of_number(given[()])
        if number is None:
            kind = type(given).__name__
            if hasattr(given, "shape"):
                refuse_array(what, given)
            if isinstance(given, list | tuple):
                refuse(f"{what}: a {kind} is not fused; pass the function an array of it")
            refuse(f"{what}: {kind} is neither an array nor a number")
        value = given.item() if isinstance(given, np.generic) else given
        return self.graph.constant(value, types.STRONG.get(number, number)), number

    def ufunc(self, name: str, args: tuple[Any, ...], dtype: Any = None) -> tuple[Proxy, ...]:
        """Return a ufunc of proxies and numbers."""
        pairs = [self.operand(one, name) for one in args]
        if name in COMPARISONS and len(pairs) == 2:
            known = self._beyond_type(name, pairs)
            if known is not None:
                return (self.wrap(known),)
            pairs = [(value, self._compared(kind, pairs)) for value, kind in pairs]
        kinds = tuple(kind for _, kind in pairs)
        wanted = None if dtype is None else types.dtype_name(dtype)
        taken, returned = types.loop(name, kinds, wanted)
        if len(args) != len(taken):
            raise ValueError(f"{name} takes {counted(len(taken), 'array')}, not {len(args)}")
        values = [self.convert(value, to) for (value, _), to in zip(pairs, taken, strict=True)]
        if name == "power":
            return (self.wrap(self._power(values, taken[0], returned[0])),)
        names = [name] if len(returned) == 1 else [f"{name}.{k}" for k in range(len(returned))]
        return tuple(
            self.wrap(self.graph.apply(one, values, to))
            for one, to in zip(names, returned, strict=True)
        )

    def operation(self, name: str, args: tuple[Any, ...]) -> tuple[Proxy, ...]:
        """Return the result of an operator: a ufunc, but a Python number for Python numbers."""
        results = self._operation(name, args)
        record_recipe(results, OPERATORS[name], args)
        return results

    def _operation(self, name: str, args: tuple[Any, ...]) -> tuple[Proxy, ...]:
        if len(args) == 2 and name not in _ORDERINGS:
            args = args[0], self._beside_complex(args[1], args[0])
        if not all(map(is_python_number, args)):
            return self.ufunc(name, args)
        if name in _ORDERINGS and any(self.operand(one, name)[1] == "complex" for one in args):
            refuse(f"{name} is not defined for Python's complex numbers; compare their parts")
        if name not in _OF_BOOLS:  # True + True is 2, and ~True -2
            args = tuple(map(self.without_bool, args))
        results = self.ufunc(name, args)
        return tuple(
            Proxy(self, one.value, weak=_PYTHONS.get(one.value.dtype, "")) for one in results
        )

    def _beside_complex(self, second: Any, first: Any) -> Any:
        """Return the second operand of an operator as Python sees it.

        A `numpy.float64` is a Python float, too: a Python complex number in front of it takes it
        for one before NumPy is asked.
        """
        if not is_python_number(first) or self.operand(first, "operators")[1] != "complex":
            return second
        if isinstance(second, Proxy):
            typed = is_number(second.value) and not second.weak
            if typed and second.value.dtype == "float64":
                return Proxy(self, second.value, weak="float")
        return float(second) if isinstance(second, np.float64) else second

    def without_bool(self, number: Any) -> Any:
        """Return a Python number, an integer in place of a bool."""
        value, kind = self.operand(number, "operators")
        if kind != "truth":
            return number
        return Proxy(self, self.convert(value, types.STRONG["int"]), weak="int")

    def _beyond_type(self, name: str, pairs: Sequence[tuple[Node, str]]) -> Node | None:
        """Return a comparison with an integer beyond a type, which is the same for all of it."""
        for place, (value, kind) in enumerate(pairs):
            other, other_kind = pairs[1 - place]
            if kind != "int" or not isinstance(value, Constant) or other_kind in types.WEAK:
                continue
            if np.dtype(other_kind).kind not in "iu":
                continue
            limits = np.iinfo(other_kind)
            number = int(value.value.real)
            if not limits.min <= number <= limits.max:
                compared = (number, 0) if place == 0 else (0, number)
                truth = self.graph.constant(COMPARISONS[name](*compared), "bool")
                return self.graph.apply("filled", (truth, other), "bool")
        return None

    def _compared(self, kind: str, pairs: Sequence[tuple[Node, str]]) -> str:
        """Return the type in which operands are compared.

        An integer that is only known when kernels run may be beyond the type it is compared with.
        """
        if kind != "int" or all(isinstance(one, Constant) for one, weak in pairs if weak == "int"):
            return kind
        others = (types.STRONG.get(other, other) for _, other in pairs if other != "int")
        integers = all(np.dtype(other).kind in "iu" for other in others)
        return types.STRONG[kind] if integers else kind

    def convert(self, value: Node, dtype: str) -> Node:
        """Return a value in another type; a number that the function says becomes one of it."""
        if isinstance(value, Constant) and value.dtype != dtype:
            if types.is_narrow(dtype):  # rounded where it is used: perhaps in float32
                return self.graph.constant(float(value.value.real), dtype)
            return self.graph.constant(types.rounded(value.value, dtype), dtype)
        return self.graph.cast(value, dtype)

    def _power(self, values: list[Node], dtype: str, returned: str) -> Node:
        """Return a power; by multiplication where the function says a small exponent."""
        base, exponent = values
        if not isinstance(exponent, Constant):
            return self.graph.apply("power", values, returned)
        number, integral = exponent.value, np.dtype(dtype).kind in "biu"
        if integral and isinstance(number, int) and number < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
        if number == 1:
            return base
        if number == 0.5 and not integral:
            return self.graph.apply("sqrt", (base,), returned)
        if number == -1 and not integral:
            return self.graph.apply("reciprocal", (base,), returned)
        if number in (2, 3, 4):
            square = self.graph.apply("multiply", (base, base), returned)
            if number == 2:
                return square
            other = base if number == 3 else square
            return self.graph.apply("multiply", (square, other), returned)
        return self.graph.apply("power", values, returned)
