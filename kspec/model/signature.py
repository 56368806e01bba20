"""Declared parameter lists: frozen data, printed as CuPy's mini-language.

>>> str(Signature((Param("T", "x"), Param("float32", "y", raw=True), Param("T", "A", core=("n",)))))
'T x, raw float32 y, T A[n]'

`kspec.spec.parser` is the inverse: ``parse_signature(str(signature)) == signature``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kspec.dataclass import dataclass


@dataclass(frozen=True)
class Param:
    """One declared parameter.

    Attributes
    ----------
    type : str
        A type placeholder (one character) or a canonical dtype name.
    name : str
        C identifier the CUDA fragments use.
    raw : bool
        Indexed by hand; takes no part in broadcasting.
    non_const : bool
        An input the kernel may write to (CuPy's ``_non_const``).
    core : tuple of str
        Core dimensions, the last axes of an argument (`kspec.model.dimensions`).
    ndim : int or None
        Number of axes of a raw argument, if it is declared.
    """

    type: str
    name: str
    raw: bool = False
    non_const: bool = False
    core: tuple[str, ...] = ()
    ndim: int | None = None

    @property
    def is_placeholder(self) -> bool:
        """Whether the type is bound at the call."""
        return len(self.type) == 1

    def __str__(self) -> str:
        keywords = ("raw " if self.raw else "") + ("_non_const " if self.non_const else "")
        axes = self.core if self.ndim is None else (str(self.ndim),)
        brackets = f"[{', '.join(axes)}]" if axes else ""
        return f"{keywords}{self.type} {self.name}{brackets}"


@dataclass(frozen=True)
class Signature:
    """An ordered parameter list."""

    params: tuple[Param, ...] = ()

    def __str__(self) -> str:
        return ", ".join(map(str, self.params))

    def __iter__(self) -> Iterator[Param]:
        return iter(self.params)

    def __len__(self) -> int:
        return len(self.params)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameter names in order."""
        return tuple(param.name for param in self.params)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Distinct type placeholders in order of appearance."""
        return tuple(dict.fromkeys(param.type for param in self.params if param.is_placeholder))


@dataclass(frozen=True)
class CParam:
    """One declared parameter of a raw kernel, such as ``const float* x``.

    Attributes
    ----------
    type : str
        C++ type without ``const``, ``*`` and ``__restrict__``; may be a type placeholder. That of a
        reference, which is a pointer to all but its reader, ends with ``&``.
    name : str
        Parameter name.
    pointer, const : bool
        Whether it is a pointer, and whether what it points to is read only.
    nullable : bool
        Whether calls may leave out the array, so that the pointer is null.
    """

    type: str
    name: str
    pointer: bool = False
    const: bool = False
    nullable: bool = False

    @property
    def is_placeholder(self) -> bool:
        """Whether the type is bound at the call."""
        return len(self.type) == 1

    @property
    def is_written(self) -> bool:
        """Whether a kernel may write to what it points to."""
        return self.pointer and not self.const

    def __str__(self) -> str:
        star = "*" if self.pointer and not self.type.endswith("&") else ""
        qualified = f"{'const ' if self.const else ''}{self.type}{star}"
        return f"{qualified} {self.name}{' = nullptr' if self.nullable else ''}"
