"""Stand-ins for arrays: a function that computes with them leaves its graph behind.

>>> from kspec.fusion.graph import Dim
>>> tracer = Tracer()
>>> x = tracer.argument(0, "float32", (Dim(3, (0, 0)),))
>>> print((np.sqrt(x * x) + 1).value)
add(sqrt(multiply(x0, x0)), 1.0): float32 [3]

A `Traced` is a variable: its value changes when it is assigned to in place.  NumPy's functions find
it by its protocols, CuPy's by theirs; what they may be is in `kspec.fusion.functions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from kspec.errors import (
    FusionAssignmentError,
    FusionAttributeError,
    ShapeError,
)
from kspec.fusion import types
from kspec.fusion.graph import Argument, Constant, Graph, Shape, Value, broadcast, is_number
from kspec.fusion.indices import full_index, inverse_of
from kspec.fusion.methods import (
    binary,
    method_of,
    not_a_scalar,
    not_fused,
    operator_of,
    unary,
)
from kspec.fusion.numbers import Computed, Given, Recipe
from kspec.fusion.refusals import refuse, refuse_unknown

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}

# What Python's bools have operators of their own for, and its complex numbers none.
_OF_BOOLS = {*_COMPARISONS, "bitwise_and", "bitwise_or", "bitwise_xor"}
_ORDERINGS = set(_COMPARISONS) - {"equal", "not_equal"}
# Operators as Python has them, by the names of the ufuncs that they are of arrays.
_OPERATORS: dict[str, Callable[..., Any]] = {
    **_COMPARISONS,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "divmod": divmod,
    "power": operator.pow,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "negative": operator.neg,
    "positive": operator.pos,
    "absolute": abs,
    "invert": operator.invert,
    "conjugate": operator.methodcaller("conjugate"),
}
# What becomes of Python numbers: the types that they have by themselves.
_PYTHONS = {strong: weak for weak, strong in types.STRONG.items()}

Number = bool | int | float | complex | np.generic


@dataclass(frozen=True, eq=False)
class Write:
    """A write to an argument that shares memory with others.

    Attributes
    ----------
    value : Value
        Its new elements.
    target : Argument
        Its elements before.
    renewed : tuple of int
        Arguments whose elements are read anew: that one, and those it shares memory with.
    """

    value: Value
    target: Argument
    renewed: tuple[int, ...]


class Tracer:
    """Makes stand-ins, and remembers which arguments were written to.

    Parameters
    ----------
    count : int, optional
        Arguments of the function.
    overlaps : sequence of (int, int), optional
        Pairs of arguments that share memory, though not as the same elements.

    Attributes
    ----------
    graph : Graph
        What was computed.
    written : dict of int to Traced
        Arguments that were assigned to in place.
    writes : list of Write
        Writes to arguments of `overlaps`, in order. After each, the stand-ins of what it changes
        have values of their own: arguments of the graph from position `count` on.
    """

    def __init__(self, count: int = 0, overlaps: Sequence[tuple[int, int]] = ()) -> None:
        self.graph = Graph()
        self.written: dict[int, Traced] = {}
        self.writes: list[Write] = []
        self._next = count
        self._overlaps = overlaps
        self._newest: dict[int, tuple[Traced, Argument]] = {}

    def argument(self, position: int, dtype: str, shape: Shape) -> Traced:
        """Return the stand-in of an array."""
        value = self.graph.argument(position, dtype, shape)
        made = Traced(self, value, position=position)
        self._newest[position] = made, value
        return made

    def sharing(self, position: int) -> tuple[int, ...]:
        """Return the arguments that share memory with one, though not as the same elements."""
        pairs = [pair for pair in self._overlaps if position in pair]
        return tuple(first if second == position else second for first, second in pairs)

    def assigned(self, position: int) -> None:
        """Note that an argument has got new elements, which others may show, too."""
        target, before = self._newest[position]
        self.written[position] = target
        others = self.sharing(position)
        if not others:
            return
        renewed = position, *others
        self.writes.append(Write(target.value, before, renewed))
        for one in renewed:
            made, old = self._newest[one]
            made._value = new = self.graph.argument(self._next, old.dtype, old.shape)
            self._newest[one] = made, new
            self._next += 1

    def number(self, position: int, type_: str) -> Traced:
        """Return the stand-in of a scalar, whose type may be that of a Python number."""
        value = self.graph.number(position, types.STRONG.get(type_, type_))
        made = Traced(self, value, weak=type_ if type_ in types.WEAK else "")
        made.recipe = Given(position)
        return made

    def wrap(self, value: Value) -> Traced:
        """Return a variable with a value."""
        return Traced(self, value)

    def operand(self, given: Any, what: str) -> tuple[Value, str]:
        """Return a value and its type, of a stand-in or a number.

        Raises
        ------
        FusionError
            If it is neither.
        """
        if isinstance(given, Traced):
            if given.tracer is not self:
                refuse(f"{what}: an array of another fused function that is being traced")
            return given.value, given.weak or given.value.dtype
        number = types.type_of_number(given)
        if number is None and getattr(given, "shape", None) == () and isinstance(given, np.ndarray):
            given, number = given[()], types.type_of_number(given[()])
        if number is None:
            kind = type(given).__name__
            if hasattr(given, "shape") or isinstance(given, list | tuple):
                refuse(
                    f"{what}: a concrete {kind} is not fused; pass it to the function as an "
                    "argument"
                )
            refuse(f"{what}: {kind} is no array and no number")
        value = given.item() if isinstance(given, np.generic) else given
        return self.graph.constant(value, types.STRONG.get(number, number)), number

    def ufunc(self, name: str, args: tuple[Any, ...], dtype: Any = None) -> tuple[Traced, ...]:
        """Return a ufunc of stand-ins and numbers."""
        pairs = [self.operand(one, name) for one in args]
        if name in _COMPARISONS and len(pairs) == 2:
            known = self._beyond(name, pairs)
            if known is not None:
                return (self.wrap(known),)
            pairs = [(value, self._compared(kind, pairs)) for value, kind in pairs]
        kinds = tuple(kind for _, kind in pairs)
        wanted = None if dtype is None else types.dtype_name(dtype)
        taken, returned = types.loop(name, kinds, wanted)
        if len(args) != len(taken):
            raise ValueError(f"{name} takes {len(taken)} arrays, but {len(args)} were given")
        values = [self.convert(value, to) for (value, _), to in zip(pairs, taken, strict=True)]
        if name == "power":
            return (self.wrap(self._power(values, taken[0], returned[0])),)
        names = [name] if len(returned) == 1 else [f"{name}.{k}" for k in range(len(returned))]
        return tuple(
            self.wrap(self.graph.apply(one, values, to))
            for one, to in zip(names, returned, strict=True)
        )

    def operation(self, name: str, args: tuple[Any, ...]) -> tuple[Traced, ...]:
        """Return what an operator gives: a ufunc, but of Python numbers a Python number."""
        results = self._operation(name, args)
        remember(results, _OPERATORS[name], args)
        return results

    def _operation(self, name: str, args: tuple[Any, ...]) -> tuple[Traced, ...]:
        if len(args) == 2 and name not in _ORDERINGS:
            args = args[0], self._beside_complex(args[1], args[0])
        if not all(map(_is_pythons, args)):
            return self.ufunc(name, args)
        if name in _ORDERINGS and any(self.operand(one, name)[1] == "complex" for one in args):
            refuse(f"{name} is not defined for Python's complex numbers; compare their parts")
        if name not in _OF_BOOLS:  # True + True is 2, and ~True -2
            args = tuple(map(self.counted, args))
        results = self.ufunc(name, args)
        return tuple(
            Traced(self, one.value, weak=_PYTHONS.get(one.value.dtype, "")) for one in results
        )

    def _beside_complex(self, second: Any, first: Any) -> Any:
        """Return the second operand of an operator as what Python takes it for.

        A `numpy.float64` is a Python float, too: a Python complex number in front of it takes it
        for one before NumPy is asked.
        """
        if not _is_pythons(first) or self.operand(first, "operators")[1] != "complex":
            return second
        if isinstance(second, Traced):
            typed = is_number(second.value) and not second.weak
            if typed and second.value.dtype == "float64":
                return Traced(self, second.value, weak="float")
        return float(second) if isinstance(second, np.float64) else second

    def counted(self, number: Any) -> Any:
        """Return a Python number, an integer in place of a bool."""
        value, kind = self.operand(number, "operators")
        if kind != "truth":
            return number
        return Traced(self, self.convert(value, types.STRONG["int"]), weak="int")

    def _beyond(self, name: str, pairs: Sequence[tuple[Value, str]]) -> Value | None:
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
                truth = self.graph.constant(_COMPARISONS[name](*compared), "bool")
                return self.graph.apply("filled", (truth, other), "bool")
        return None

    def _compared(self, kind: str, pairs: Sequence[tuple[Value, str]]) -> str:
        """Return what an operand is compared as.

        An integer that is only known when kernels run may be beyond the type it is compared with.
        """
        if kind != "int" or all(isinstance(one, Constant) for one, weak in pairs if weak == "int"):
            return kind
        others = (types.STRONG.get(other, other) for _, other in pairs if other != "int")
        integers = all(np.dtype(other).kind in "iu" for other in others)
        return types.STRONG[kind] if integers else kind

    def convert(self, value: Value, dtype: str) -> Value:
        """Return a value in another type; a number that the function says becomes one of it."""
        if isinstance(value, Constant) and value.dtype != dtype:
            with np.errstate(all="ignore"):
                number = np.asarray(value.value).astype(np.dtype(dtype))
            return self.graph.constant(number.item(), dtype)
        return self.graph.cast(value, dtype)

    def _power(self, values: list[Value], dtype: str, returned: str) -> Value:
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


def remember(
    results: Any, function: Callable[..., Any], operands: Sequence[Any], keywords: Any = None
) -> None:
    """Note in numbers that are computed from numbers alone how they are."""
    recipes: list[Any] = []
    for one in (*operands, *(keywords or {}).values()):
        recipes.append(one.recipe if isinstance(one, Traced) else one)
        if recipes[-1] is None and one is not None:
            return
    count = len(operands)
    whole = Computed(
        function, tuple(recipes[:count]), dict(zip(keywords or (), recipes[count:], strict=True))
    )
    several = isinstance(results, tuple) and len(results) > 1
    for place, one in enumerate(results if isinstance(results, tuple) else (results,)):
        if isinstance(one, Traced) and one.recipe is None and is_number(one.value):
            one.recipe = Computed(operator.itemgetter(place), (whole,)) if several else whole


def _to_the_power(self: Traced, other: Any) -> Any:
    """Return ``x ** y``; that of NumPy's arrays squares, which is no power of bool's types."""
    is_square = type(other) is int and other == 2 and not self.is_immutable
    if is_square and self.value.dtype == "bool":
        return self.tracer.ufunc("square", (self,))[0]
    return binary("power")(self, other)


def _is_pythons(operand: Any) -> bool:
    """Return whether an operand is a Python number, as opposed to NumPy's scalars and arrays."""
    if isinstance(operand, Traced):
        return bool(operand.weak)
    return isinstance(operand, bool | int | float | complex) and not isinstance(operand, np.generic)


class Traced:
    """A stand-in for an array or a scalar.

    Attributes
    ----------
    recipe : Recipe or None
        How a call that returns it computes it, if it is a number.
    """

    __array_priority__ = 1000
    __hash__ = object.__hash__

    def __init__(
        self,
        tracer: Tracer,
        value: Value,
        weak: str = "",
        position: int | None = None,
        base: tuple[Traced, Callable[[Value], Value]] | None = None,
        back: Callable[[Value], Value] | None = None,
    ) -> None:
        self.tracer = tracer
        self.weak = weak
        self.position = position
        self.recipe: Recipe | None = None
        self._value = value
        self._base = base  # what this is a view of, and how to look at it
        self._back = back  # how what is written here looks to the base

    @property
    def value(self) -> Value:
        """What it is now."""
        return self.looked(self.root._value)

    @property
    def root(self) -> Traced:
        """What it is a view of in the end; itself if it is none."""
        return self if self._base is None else self._base[0].root

    def looked(self, value: Value) -> Value:
        """Return what it would be if its root had another value."""
        return value if self._base is None else self._base[1](self._base[0].looked(value))

    @property
    def is_immutable(self) -> bool:
        """Whether operators in place make another one: of numbers, and of results without axes."""
        root = self.root
        return not self.value.shape and not root._value.shape and root.position is None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return np.dtype(self.value.dtype)

    @dtype.setter
    def dtype(self, new: Any) -> None:
        refuse("dtype is not assigned to; make another array with astype", FusionAttributeError)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.value.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents; the function is traced anew for others then."""
        self.tracer.graph.shaped |= bool(self.value.shape)
        return self.value.sizes

    @shape.setter
    def shape(self, new: Any) -> None:
        refuse("shape is not assigned to; look at the array with reshape", FusionAttributeError)

    @property
    def size(self) -> int:
        """Number of elements; the function is traced anew for others then."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def T(self) -> Traced:
        """The array with its axes in reverse."""
        return self.transpose()

    @property
    def real(self) -> Traced:
        """Real part."""
        return self._function("real")

    @real.setter
    def real(self, new: Any) -> None:
        self.real[...] = new

    @property
    def imag(self) -> Traced:
        """Imaginary part."""
        return self._function("imag")

    @imag.setter
    def imag(self, new: Any) -> None:
        self.imag[...] = new

    def assign(self, new: Any, what: str = "assignment") -> None:
        """Write into it, as ``x[...] = new`` does.

        Raises
        ------
        FusionError
            If it is a part of an array, or NumPy would not convert so.
        ShapeError
            If what is written does not have its shape.
        """
        value, kind = self.tracer.operand(new, what)
        old, graph = self.value, self.tracer.graph
        if kind not in types.WEAK and not types.can_cast(kind, old.dtype):
            refuse(f"{what}: an array of {kind} is not written into one of {old.dtype}")
        value = self.tracer.convert(value, old.dtype)
        if tuple(dim.size for dim in broadcast([value.shape, old.shape])) != old.sizes:
            raise ShapeError(f"{what}: an array of shape {value.sizes} does not fit {old.sizes}")
        if value.sizes != old.sizes or is_number(value) > is_number(old):
            value = graph.apply("filled", (value, old), old.dtype)
        self.recipe = None
        if self._base is None:
            self._value = value
            if self.position is not None:
                self.tracer.assigned(self.position)
        elif self._back is None:
            refuse(
                f"{what}: a part of an array is not assigned to; compute all of it with np.where, "
                "or pass the part as an argument",
                FusionAssignmentError,
            )
        else:
            self._base[0].assign(self.tracer.wrap(self._back(value)), what)

    def seen(self, look: Callable[[Value], Value], back: Callable[[Value], Value] | None) -> Traced:
        """Return a view of it, which changes when it does."""
        return Traced(self.tracer, self._value, base=(self, look), back=back)

    def _function(self, name: str, *args: Any, **keywords: Any) -> Traced:
        from kspec.fusion.functions import call_named

        made: Traced = call_named(self.tracer, name, (self, *args), keywords)
        if function := getattr(np, name, None):
            remember(made, function, (self, *args), keywords)
        return made

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"stand-ins for arrays have no {name!r}", name=name, obj=self)
        refuse(f"{name} is not fused; call it outside of the function", FusionAttributeError)

    def __getitem__(self, key: Any) -> Traced:
        part = self._part(key)
        whole = any(one is Ellipsis for one in (key if isinstance(key, tuple) else (key,)))
        # An element is a number, which does not change with the array; x[0, ...] is a view.
        return part if part.value.shape or whole else part.copy()

    def _part(self, key: Any) -> Traced:
        """Return a view of some elements."""
        index = full_index(key, self.value)
        graph = self.tracer.graph
        inverse = inverse_of(index, self.value)
        back = None if inverse is None else lambda value: graph.index(value, inverse)
        return self.seen(lambda value: graph.index(value, index), back)

    def __setitem__(self, key: Any, new: Any) -> None:
        value, _ = self.tracer.operand(new, "assignment")
        part = self._part(key)
        extra = len(value.shape) - part.ndim
        if extra > 0 and value.sizes[:extra] == (1,) * extra:
            value = self.tracer.graph.index(value, (0,) * extra + (slice(None),) * part.ndim)
        part.assign(self.tracer.wrap(self.tracer.convert(value, self.value.dtype)))

    def __len__(self) -> int:
        if not self.value.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Any:
        if not self.value.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Traced:
        """Return it with other extents."""
        wanted = shape[0] if len(shape) == 1 else shape
        return self._function("reshape", wanted, order=order, copy=copy)

    def ravel(self, order: str = "C") -> Traced:
        """Return it with one axis."""
        return self._function("ravel", order=order)

    def flatten(self, order: str = "C") -> Traced:
        """Return its present value with one axis."""
        return self._function("reshape", -1, order=order, copy=True)

    def transpose(self, *axes: Any) -> Traced:
        """Return it with its axes in another order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self._function("transpose", order)

    def swapaxes(self, axis1: int, axis2: int) -> Traced:
        """Return it with two axes changed for each other."""
        return self._function("swapaxes", axis1, axis2)

    def squeeze(self, axis: Any = None) -> Traced:
        """Return it without axes of extent 1."""
        return self._function("squeeze", axis)

    def astype(self, dtype: Any, *, copy: bool = True) -> Traced:
        """Return it in another type."""
        name = types.dtype_name(dtype)
        if not copy and name == self.value.dtype:
            return self
        made = self.tracer.wrap(self.tracer.graph.cast(self.value, name))
        remember(made, lambda number: np.asarray(number).astype(name)[()], (self,))
        return made

    def copy(self, order: str = "C") -> Traced:
        """Return its present value."""
        made = self.tracer.wrap(self.value)
        remember(made, np.copy, (self,))
        return made

    def __copy__(self) -> Traced:
        return self if self.is_immutable else self.copy()

    def __deepcopy__(self, memo: Any) -> Traced:
        return self.__copy__()

    def __round__(self, digits: int | None = None) -> Traced:
        number = self.tracer.counted(self) if _is_pythons(self) else self
        if not self.is_immutable:
            return number._function("round", digits or 0)
        if number.dtype.kind in "bc":
            refuse(f"round() is not defined for {number.weak or number.dtype}; use np.round")
        rounded = number._function("round", digits or 0)
        # Without digits, of Python's numbers and of NumPy's, that is an int of Python's.
        weak = "int" if digits is None else number.weak
        value = rounded.astype(types.STRONG[weak]).value if weak else rounded.value
        made = Traced(self.tracer, value, weak=weak)
        remember(made, round, (self, digits))
        return made

    def fill(self, value: Any) -> None:
        """Write a number into it."""
        self[...] = value

    def conj(self) -> Traced:
        """Return the complex conjugate, which the method of real arrays is not asked for."""
        if self.dtype.kind != "c":
            made: Traced = self.tracer.counted(self)
            remember(made, _OPERATORS["conjugate"], (self,))
            return made
        return self.tracer.operation("conjugate", (self,))[0]

    conjugate = conj

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        from kspec.fusion.functions import call_ufunc

        tracer = next(
            one.tracer for one in (*inputs, *_outputs(keywords)) if isinstance(one, Traced)
        )
        made = call_ufunc(tracer, ufunc.__name__, method, inputs, keywords)
        remember(made, getattr(ufunc, method), inputs, keywords)
        return made

    def __array_function__(self, function: Any, kinds: Any, args: Any, keywords: Any) -> Any:
        from kspec.fusion.functions import call_function

        made: Any = call_function(self.tracer, function, args, keywords)
        remember(made, function, args, keywords)
        return made

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **keywords: Any) -> Any:
        from kspec.fusion.functions import call_kernel

        return call_kernel(self.tracer, kernel, args, keywords)

    def __cupy_override_reduction_kernel__(
        self, kernel: Any, axis: Any, dtype: Any, out: Any, keepdims: bool
    ) -> Any:
        from kspec.fusion.functions import call_kernel

        keywords = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return call_kernel(self.tracer, kernel, (self,), keywords)

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        refuse(
            "an array that is only computed later can not become a NumPy array: use it as it is, "
            "or convert it with astype; several are returned as a tuple"
        )

    def __format__(self, specification: str) -> str:
        if specification:
            refuse("an array that is only computed later has no digits: return it, and print it")
        return repr(self)

    def __repr__(self) -> str:
        return f"<traced {self.value}>"

    __add__, __radd__, __iadd__ = operator_of("add")
    __sub__, __rsub__, __isub__ = operator_of("subtract")
    __mul__, __rmul__, __imul__ = operator_of("multiply")
    __truediv__, __rtruediv__, __itruediv__ = operator_of("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = operator_of("floor_divide")
    __mod__, __rmod__, __imod__ = operator_of("remainder")
    __pow__, __rpow__, __ipow__ = _to_the_power, *operator_of("power")[1:]
    __lshift__, __rlshift__, __ilshift__ = operator_of("left_shift")
    __rshift__, __rrshift__, __irshift__ = operator_of("right_shift")
    __and__, __rand__, __iand__ = operator_of("bitwise_and")
    __or__, __ror__, __ior__ = operator_of("bitwise_or")
    __xor__, __rxor__, __ixor__ = operator_of("bitwise_xor")
    __divmod__, __rdivmod__ = binary("divmod"), binary("divmod", swapped=True)
    __matmul__ = __rmatmul__ = __imatmul__ = not_fused("the operator @")
    __lt__ = binary("less")
    __le__ = binary("less_equal")
    __gt__ = binary("greater")
    __ge__ = binary("greater_equal")
    __eq__ = binary("equal")
    __ne__ = binary("not_equal")
    __neg__ = unary("negative")
    __pos__ = unary("positive")
    __abs__ = unary("absolute")
    __invert__ = unary("invert")

    sum = method_of("sum")
    prod = method_of("prod")
    min = method_of("min")
    max = method_of("max")
    mean = method_of("mean")
    var = method_of("var")
    std = method_of("std")
    any = method_of("any")
    all = method_of("all")
    argmin = method_of("argmin")
    argmax = method_of("argmax")
    ptp = method_of("ptp")
    clip = method_of("clip")
    round = method_of("round")

    __bool__ = not_a_scalar("a truth value (if, and, or, not)", "use np.where, &, | or ~")
    __int__ = not_a_scalar("int()", "use x.astype(int)")
    __float__ = not_a_scalar("float()", "use x.astype(float), and np.sqrt for math.sqrt")
    __complex__ = not_a_scalar("complex()", "use x.astype(complex)")

    def __index__(self) -> NoReturn:
        refuse_unknown("an index or extent")

    item = not_a_scalar("item()", "return the array, and ask the result")
    tolist = not_a_scalar("tolist()", "return the array, and ask the result")


def _outputs(keywords: dict[str, Any]) -> tuple[Any, ...]:
    out = keywords.get("out")
    return out if isinstance(out, tuple) else (out,)
