"""Random array programs: a few statements of NumPy, each of which works on example arrays.

>>> print(make_program(3).text)  # doctest: +SKIP
t0 = np.maximum(x0, x1)
t1 = t0.sum(axis=-1, keepdims=True)
return t0 - t1, t1

Functions are chosen so that an error of the last bit stays small: none is steep, and those that
jump (comparisons, rounding, positions) are only of arguments, and of integers.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.runtime.memory import numpy_dtype

Array = npt.NDArray[Any]
EXTENTS = (3, 4, 2, 3)
_FLOATS = ("float16", "float32", "float64")
_INTEGERS = ("int8", "uint8", "int32", "int64", "uint32", "bool")
_UNARY = {
    "f": ("-{}", "abs({})", "np.tanh({})", "np.sin({})", "np.sqrt(abs({}) + 1)", "np.log1p(abs({}))",
          "np.exp(-abs({}))", "{} * {}", "{} ** 2", "{}.astype('f8')", "{} * 2", "1.5 - {}",
          "np.clip({}, -1, 1)", "{}.copy()", "{} / 3"),
    "c": ("-{}", "abs({})", "{}.real", "{}.imag", "np.conj({})", "{} * 1j", "{} + 1"),
    "b": ("~{}", "{} + 1", "{} * 1.5", "{}.astype('i4')", "np.where({}, 2, -1)"),
    "iu": ("-{}", "abs({})", "{} + 1", "{} * 3", "{} // 3", "{} % 5", "{} ** 2", "{} & 6", "~{}",
           "{} / 4", "{}.astype('f4')", "{}.astype('i2')", "{} << 1", "{} > 2", "{} != 3",
           "np.sign({})", "np.square({})", "{} * 0.5", "np.clip({}, 1, 5)", "np.where({} > 2, {}, 0)"),
}  # fmt: skip
_BINARY = {
    "f": ("{} + {}", "{} - {}", "{} * {}", "np.maximum({}, {})", "np.minimum({}, {})",
          "{} / (abs({}) + 1)", "np.hypot({}, {})", "np.where({jump} > 0, {}, {})"),
    "c": ("{} + {}", "{} - {}", "{} * {}"),
    "b": ("{} & {}", "{} | {}", "{} ^ {}", "{} == {}", "{} + {}", "np.logical_or({}, {})"),
    "iu": ("{} + {}", "{} - {}", "{} * {}", "{} // {}", "{} % {}", "{} & {}", "{} ^ {}", "{} < {}",
           "{} >= {}", "np.maximum({}, {})", "np.where({jump} != 0, {}, {})"),
}  # fmt: skip
_OF_ARGUMENTS = ("{} > 0.5", "np.floor({} * 2)", "np.rint({})", "np.isnan({})", "np.signbit({})")
_FOLDS = {
    "f": ("sum", "mean", "max", "min", "var", "std", "np.ptp", "np.nanmax", "np.nansum"),
    "c": ("sum", "mean"),
    "b": ("sum", "any", "all", "max", "mean"),
    "iu": ("sum", "prod", "max", "min", "mean", "var", "any", "np.ptp", "np.count_nonzero"),
}
_VIEWS = ("{}.T", "{}[::-1]", "{}[..., ::2]", "{}[..., 1:]", "{}[0]", "{}[..., None]",
          "{}.reshape(-1)", "{}[..., 1:] - {}[..., :-1]", "np.flip({}, -1)")  # fmt: skip


@dataclass(frozen=True)
class Leaf:
    """An argument: its dtype, and which axes of the common shape it has (others are of extent 1).

    Attributes
    ----------
    dtype : str
        Of its elements.
    axes : tuple of bool
        For the last axes of the common shape.
    """

    dtype: str
    axes: tuple[bool, ...]

    def shape(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return its shape where all have these extents together."""
        count = len(self.axes)
        last = extents[len(extents) - count :]
        return tuple(n if used else 1 for n, used in zip(last, self.axes, strict=True))


@dataclass(frozen=True)
class Program:
    """A function of arrays.

    Attributes
    ----------
    text : str
        Its statements.
    leaves : tuple of Leaf
        Its arguments.
    ndim : int
        Axes of the common shape.
    folds : tuple of (str, str)
        What is added up, and along which axes: sums may cancel.
    """

    text: str
    leaves: tuple[Leaf, ...]
    ndim: int
    folds: tuple[tuple[str, str], ...]

    def function(self) -> Callable[..., Any]:
        """Return it as a function."""
        names = ", ".join(f"x{k}" for k in range(len(self.leaves)))
        body = "".join(f"    {line}\n" for line in self.text.splitlines())
        space: dict[str, Any] = {"np": np}
        exec(f"def program({names}):\n{body}", space)
        made: Callable[..., Any] = space["program"]
        return made

    def size(self, arrays: Sequence[Array]) -> float:
        """Return the largest number that comes up anywhere, or a sum without signs."""
        space: dict[str, Any] = {"np": np, **{f"x{k}": one for k, one in enumerate(arrays)}}
        sums = []
        for line in self.text.splitlines():
            if line.startswith("return"):
                break
            exec(line, space)
        for name, axis in self.folds:
            wide = np.abs(np.asarray(space[name]).astype("c16" if "c" in name else "f8"))
            sums.append(np.sum(wide * (1 + wide), axis=eval(axis)))
        found = [one for name, one in space.items() if name[0] in "tx" and name[1:].isdigit()]
        return max([1.0, *(_largest(one) for one in [*found, *sums])])


def _largest(array: Any) -> float:
    if np.asarray(array).dtype.kind in "biu" or not np.size(array):
        return 1.0
    wide = np.abs(np.asarray(array).astype("c16" if np.iscomplexobj(array) else "f8"))
    return float(np.nanmax(np.where(np.isnan(wide), 0, wide)))


def values(dtype: str, shape: Sequence[int], seed: int) -> Array:
    """Return random elements, small ones."""
    generator = np.random.default_rng(seed)
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        low = 0 if dtype.startswith("uint") else -9
        return generator.integers(low, 10, shape).astype(kind)
    found: Any = generator.normal(size=shape)
    if dtype.startswith("complex"):
        found = found + 1j * generator.normal(size=shape)
    return np.asarray(found).astype(kind)


def make_program(seed: int) -> Program:
    """Return the program of a seed."""
    return _Maker(random.Random(seed)).result()


class _Maker:
    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.ndim = source.choice((0, 1, 2, 2, 2, 3, 3, 4))
        self.leaves = tuple(self._leaf(k) for k in range(source.choice((1, 2, 2, 3))))
        self.extents = EXTENTS[: self.ndim]
        self.space: dict[str, Any] = {"np": np}
        for k, leaf in enumerate(self.leaves):
            self.space[f"x{k}"] = values(leaf.dtype, leaf.shape(self.extents), k)
        self.arguments = [name for name in self.space if name != "np"]
        self.known = list(self.arguments)  # what fits the common shape
        self.alone: list[str] = []  # what only fits itself
        self.lines: list[str] = []
        self.folds: list[tuple[str, str]] = []

    def _leaf(self, number: int) -> Leaf:
        pick = self.random.choice
        family = pick((_FLOATS, _FLOATS, _INTEGERS, _INTEGERS, ("complex64",), ("bfloat16",)))
        if number and not self.random.randrange(3):
            family = ("bool", "int8", "float32")
        axes = [True] * self.ndim
        if number:
            axes = [self.random.random() < 0.75 for _ in axes][self.random.choice((0, 0, 0, 1)) :]
        return Leaf(pick(family), tuple(axes))

    def result(self) -> Program:
        """Return the program."""
        wanted = self.random.randint(1, 6)
        for _ in range(40):
            if len(self.lines) >= wanted:
                break
            self.random.choice((self._unary, self._binary, self._binary, self._fold, self._view))()
        names = [*self.known[len(self.leaves) :], *self.alone] or self.known
        count = min(len(names), self.random.choice((1, 1, 1, 2, 3)))
        returned = self.random.sample(names, count)
        if names[-1] not in returned:
            returned[0] = names[-1]
        lines = self._needed([*self.lines, f"return {', '.join(returned)}"])
        text = "\n".join(lines)
        folds = tuple(one for one in self.folds if _is_in(one[0], text))
        return Program(text, self.leaves, self.ndim, folds)

    def _needed(self, lines: list[str]) -> list[str]:
        """Return statements without those whose values nobody uses: they are not computed."""
        kept = [lines[-1]]
        for line in reversed(lines[:-1]):
            if any(_is_in(line.split(" = ")[0], other) for other in kept):
                kept.insert(0, line)
        return kept

    def _kind(self, name: str) -> str:
        dtype = np.asarray(self.space[name]).dtype
        return "f" if dtype.name == "bfloat16" else "iu" if dtype.kind in "iu" else dtype.kind

    def _add(self, text: str, to: list[str]) -> str | None:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                value = eval(text, self.space)
            except (TypeError, ValueError, IndexError, OverflowError):
                return None
        if np.asarray(value).dtype.name not in _KNOWN:
            return None
        name = f"t{len(self.lines)}"
        self.space[name] = value
        self.lines.append(f"{name} = {text}")
        to.append(name)
        return name

    def _unary(self) -> None:
        place = self.random.choice([self.known, self.known, self.alone or self.known])
        name = self.random.choice(place)
        if name in self.arguments and self._kind(name) == "f" and not self.random.randrange(3):
            text = self.random.choice(_OF_ARGUMENTS)
        else:
            text = self.random.choice(_UNARY[self._kind(name)])
        if re.search(r"clip|\d\.\d", text) and "bfloat16" in {leaf.dtype for leaf in self.leaves}:
            return  # there NumPy's, which has no loop for it, gives float32
        self._add(text.replace("{}", name), place)

    def _binary(self) -> None:
        first, second = self.random.choice(self.known), self.random.choice(self.known)
        kinds = {self._kind(first), self._kind(second)}
        kind = next(one for one in ("c", "f", "iu", "b") if one in kinds)
        text = self.random.choice(_BINARY[kind]).replace(
            "{jump}", self.random.choice(self.arguments)
        )
        self._add(text.replace("{}", first, 1).replace("{}", second), self.known)

    def _fold(self) -> None:
        name = self.random.choice(self.known)
        ndim = np.ndim(self.space[name])
        subsets: list[Any] = [None, -1, -1] + [0, (0, -1)] * (ndim > 1) + [(-2, -1)] * (ndim > 2)
        axis = self.random.choice(subsets if ndim else [None])
        kept = self.random.random() < 0.6
        jumps = self._kind(name) != "c" and (name in self.arguments or self._kind(name) != "f")
        if jumps and not isinstance(axis, tuple) and not self.random.randrange(4):
            fold = self.random.choice(("np.argmax", "np.argmin"))
        else:
            fold = self.random.choice(_FOLDS[self._kind(name)])
        given = f"axis={axis}" + ", keepdims=True" * kept
        text = f"{fold}({name}, {given})" if "np." in fold else f"{name}.{fold}({given})"
        if self._add(text, self.known if kept or axis is None else self.alone):
            self.folds.append((name, str(axis)))

    def _view(self) -> None:
        name = self.random.choice([*self.known, *self.alone])
        self._add(self.random.choice(_VIEWS).replace("{}", name), self.alone)


def _is_in(name: str, text: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


_KNOWN = frozenset(
    {*_FLOATS, *_INTEGERS, "int16", "uint16", "uint64", "complex64", "complex128", "bfloat16"}
)
