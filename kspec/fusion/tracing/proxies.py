"""Proxies of arrays and numbers: a traced function computes with them.

A `Proxy` is a variable: its value changes when it is assigned to in place.  NumPy's functions find
it by its protocols, CuPy's by theirs; what they may be is in `kspec.fusion.functions`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kspec.errors import (
    FusionAssignmentError,
    FusionAttributeError,
    ShapeError,
)
from kspec.fusion import types
from kspec.fusion.graph import Node, broadcast, is_number
from kspec.fusion.numbers import OPERATORS, NumberExpression, Recipe
from kspec.fusion.refusals import ConcreteArray, refuse, refuse_call, refuse_unknown
from kspec.fusion.tracing.indices import full_index, inverse_of
from kspec.fusion.tracing.methods import (
    binary,
    method_of,
    not_a_scalar,
    not_fused,
    operator_of,
    unary,
)

if TYPE_CHECKING:
    from kspec.fusion.tracing.tracer import Tracer


def record_recipe(
    results: Any, function: Callable[..., Any], operands: Sequence[Any], keywords: Any = None
) -> None:
    """Note in numbers that are computed from numbers alone how they are."""
    recipes: list[Any] = []
    for one in (*operands, *(keywords or {}).values()):
        recipes.append(one.recipe if isinstance(one, Proxy) else one)
        if recipes[-1] is None and one is not None:
            return
    count = len(operands)
    whole = NumberExpression(
        function, tuple(recipes[:count]), dict(zip(keywords or (), recipes[count:], strict=True))
    )
    listed = results if isinstance(results, tuple) else (results,)
    for place, one in enumerate(listed):
        if isinstance(one, Proxy) and one.recipe is None and is_number(one.value):
            item = NumberExpression(operator.itemgetter(place), (whole,))
            one.recipe = item if len(listed) > 1 else whole


def _to_the_power(self: Proxy, other: Any) -> Any:
    """Return ``x ** y``; NumPy squares arrays, which is not a power of bool's types."""
    is_square = type(other) is int and other == 2 and not self.is_immutable
    if is_square and self.value.dtype == "bool":
        return self.tracer.ufunc("square", (self,))[0]
    return binary("power")(self, other)


def is_python_number(operand: Any) -> bool:
    """Return whether an operand is a Python number, as opposed to NumPy's scalars and arrays."""
    if isinstance(operand, Proxy):
        return bool(operand.weak)
    return isinstance(operand, bool | int | float | complex) and not isinstance(operand, np.generic)


class Proxy:
    """A proxy for an array or a scalar.

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
        value: Node,
        weak: str = "",
        position: int | None = None,
        base: tuple[Proxy, Callable[[Node], Node]] | None = None,
        backward: Callable[[Node], Node] | None = None,
    ) -> None:
        self.tracer = tracer
        self.weak = weak
        self.position = position
        self.recipe: Recipe | None = None
        self._value = value
        self._base = base  # the array that this is a view of, and the view operation
        self._backward = backward  # from a value written here to that of the base

    @property
    def value(self) -> Node:
        """Its present value."""
        return self.view_of(self.root._value)

    @property
    def root(self) -> Proxy:
        """The array at the root of its views; itself if it is not a view."""
        return self if self._base is None else self._base[0].root

    def view_of(self, value: Node) -> Node:
        """Return its value for another value of its root."""
        return value if self._base is None else self._base[1](self._base[0].view_of(value))

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
    def T(self) -> Proxy:
        """The array with its axes in reverse."""
        return self.transpose()

    @property
    def real(self) -> Proxy:
        """Real part."""
        return self._function("real")

    @real.setter
    def real(self, new: Any) -> None:
        self.real[...] = new

    @property
    def imag(self) -> Proxy:
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
            refuse(f"{what}: an array of {kind} cannot be written into an array of {old.dtype}")
        value = self.tracer.convert(value, old.dtype)
        if tuple(dim.size for dim in broadcast([value.shape, old.shape])) != old.sizes:
            raise ShapeError(f"{what}: an array of shape {value.sizes} does not fit {old.sizes}")
        if value.sizes != old.sizes or is_number(value) > is_number(old):
            value = graph.apply("filled", (value, old), old.dtype)
        self.recipe = None
        if self._base is None:
            self._value = value
            if self.position is not None:
                self.tracer.record_write(self.position)
        elif self._backward is None:
            refuse(
                f"{what}: assignment to a part of an array is not fused; compute all of it "
                "with np.where, or pass the part as an argument",
                FusionAssignmentError,
            )
        else:
            self._base[0].assign(self.tracer.wrap(self._backward(value)), what)

    def make_view(
        self, forward: Callable[[Node], Node], backward: Callable[[Node], Node] | None
    ) -> Proxy:
        """Return a view of it, which changes when it does."""
        return Proxy(self.tracer, self._value, base=(self, forward), backward=backward)

    def _function(self, name: str, *args: Any, **keywords: Any) -> Proxy:
        made: Proxy = self.tracer.functions.call_named(self.tracer, name, (self, *args), keywords)
        if function := getattr(np, name, None):
            record_recipe(made, function, (self, *args), keywords)
        return made

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"traced arrays have no {name!r}", name=name, obj=self)
        refuse_call(name, error=FusionAttributeError)

    def __getitem__(self, key: Any) -> Proxy:
        part = self._part(key)
        whole = any(one is Ellipsis for one in (key if isinstance(key, tuple) else (key,)))
        # An element is a number, which does not change with the array; x[0, ...] is a view.
        return part if part.value.shape or whole else part.copy()

    def _part(self, key: Any) -> Proxy:
        """Return a view of some elements."""
        index = full_index(key, self.value)
        graph = self.tracer.graph
        inverse = inverse_of(index, self.value)
        back = None if inverse is None else lambda value: graph.index(value, inverse)
        return self.make_view(lambda value: graph.index(value, index), back)

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

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Proxy:
        """Return it with other extents."""
        wanted = shape[0] if len(shape) == 1 else shape
        return self._function("reshape", wanted, order=order, copy=copy)

    def flatten(self, order: str = "C") -> Proxy:
        """Return its present value with one axis."""
        return self._function("reshape", -1, order=order, copy=True)

    def transpose(self, *axes: Any) -> Proxy:
        """Return it with its axes in another order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self._function("transpose", order)

    def astype(self, dtype: Any, *, copy: bool = True) -> Proxy:
        """Return it in another type."""
        name = types.dtype_name(dtype)
        if not copy and name == self.value.dtype:
            return self
        change = self.tracer.graph.rounded if types.is_narrow(name) else self.tracer.graph.cast
        made = self.tracer.wrap(change(self.value, name))
        record_recipe(made, lambda number: np.asarray(number).astype(name)[()], (self,))
        return made

    def copy(self, order: str = "C") -> Proxy:
        """Return its present value."""
        made = self.tracer.wrap(self.value)
        record_recipe(made, np.copy, (self,))
        return made

    def __copy__(self) -> Proxy:
        return self if self.is_immutable else self.copy()

    def __deepcopy__(self, memo: Any) -> Proxy:
        return self.__copy__()

    def __round__(self, digits: int | None = None) -> Proxy:
        number = self.tracer.without_bool(self) if is_python_number(self) else self
        if not self.is_immutable:
            return number._function("round", digits or 0)
        if number.dtype.kind in "bc":
            refuse(f"round() is not defined for {number.weak or number.dtype}; use np.round")
        rounded = number._function("round", digits or 0)
        # Without digits, of Python's numbers and of NumPy's, that is an int of Python's.
        weak = "int" if digits is None else number.weak
        value = rounded.astype(types.STRONG[weak]).value if weak else rounded.value
        made = Proxy(self.tracer, value, weak=weak)
        record_recipe(made, round, (self, digits))
        return made

    def fill(self, value: Any) -> None:
        """Write a number into it."""
        self[...] = value

    def conj(self) -> Proxy:
        """Return the complex conjugate, which the method of real arrays is not asked for."""
        if self.dtype.kind != "c":
            made: Proxy = self.tracer.without_bool(self)
            record_recipe(made, OPERATORS["conjugate"], (self,))
            return made
        return self.tracer.operation("conjugate", (self,))[0]

    conjugate = conj

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        tracer = next(
            one.tracer for one in (*inputs, *_outputs(keywords)) if isinstance(one, Proxy)
        )
        made = tracer.functions.call_ufunc(tracer, ufunc.__name__, method, inputs, keywords)
        record_recipe(made, getattr(ufunc, method), inputs, keywords)
        return made

    def __array_function__(self, function: Any, kinds: Any, args: Any, keywords: Any) -> Any:
        made: Any = self.tracer.functions.call_function(self.tracer, function, args, keywords)
        record_recipe(made, function, args, keywords)
        return made

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **keywords: Any) -> Any:
        return self.tracer.functions.call_kernel(self.tracer, kernel, args, keywords)

    def __cupy_override_reduction_kernel__(
        self, kernel: Any, axis: Any, dtype: Any, out: Any, keepdims: bool
    ) -> Any:
        keywords = {"axis": axis, "dtype": dtype, "out": out, "keepdims": keepdims}
        return self.tracer.functions.call_kernel(self.tracer, kernel, (self,), keywords)

    def __array__(self, *args: Any, **keywords: Any) -> NoReturn:
        raise ConcreteArray(
            "a traced array cannot become a NumPy array; use it as it is, or convert it with "
            "astype; join several with np.stack"
        )

    def __format__(self, specification: str) -> str:
        if specification:
            refuse("a traced array has no value to format yet; return it, and print the result")
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

    ravel = method_of("ravel")
    swapaxes = method_of("swapaxes")
    squeeze = method_of("squeeze")
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
    take = method_of("take")
    cumsum = method_of("cumsum")
    cumprod = method_of("cumprod")

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
