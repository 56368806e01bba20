"""Specs in, the headers of kspec that their text needs out: nothing else is compiled.

A header costs each compilation the time to read it, and half of its names are the user's to
take, so types and library functions come only with kernels that name them.  A text that cannot
be searched (it includes a header of the user's, or pastes tokens) gets all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kspec.cpp.directives import header_names
from kspec.cpp.fragments import identifiers
from kspec.files import ROOT
from kspec.model import dtypes
from kspec.model.definitions import headers_for
from kspec.spec.models import ElementwiseSpec, ReductionSpec

_WORD = re.compile(r"\w+")
# CuPy's headers and the C++ library's name no header of ours that they do not include themselves.
_KNOWN = re.compile(
    r"[<\"]cupy/[\w.]+|[<\"]cuda/\w+/|<[a-z_]+>|[<\"](?:math_constants|cuda_fp16)\.h"
)
_STANDARD = re.compile(r"(?<!cuda::)\bstd\s*::")
_INCLUDES = ROOT / "include"

_TYPES = {_WORD.findall(row.ctype)[0]: row.header for row in dtypes.TABLE if row.header}
_LIBRARY = {
    "CArray": "cupy/carray.cuh",
    "CIndexer": "cupy/carray.cuh",
    "CUPY_FOR": "kspec/loop.cuh",
    "cupy": "cupy/carray.cuh",
    "Void": "kspec/struct.cuh",
    "_floor_divide": "kspec/floor_divide.cuh",
    "ufunc": "kspec/ufuncs.cuh",
}
_LIBRARY |= {
    f"atomic{name}": "kspec/atomics.cuh"
    for name in ("Add", "Sub", "Exch", "CAS", "Min", "Max", "And", "Or", "Xor")
}
_SCHEDULES = {ElementwiseSpec: "kspec/elements.cuh", ReductionSpec: "kspec/reduce.cuh"}

_Spec = ElementwiseSpec | ReductionSpec
_Binding = Sequence[tuple[str, str]]


def includes_for(specs: Sequence[_Spec], binding: _Binding | None = None) -> tuple[str, ...]:
    """Return the headers of one translation unit, types first.

    Parameters
    ----------
    specs : sequence of specs
        The generated kernels in it.
    binding : sequence of (str, str), optional
        The only binding it is compiled for; without one, those that `types` lists.
    """
    types = set(headers_for(types_of(specs, binding)))
    library: set[str] = set()
    for spec in specs:
        text = "\n".join([*spec.fragments.values(), spec.preamble, *spec.macros])
        words = set(identifiers(text))
        searchable = _is_searchable(text)
        if _of_cupys_own(text):
            # They need what CuPy has in front of every kernel.
            searchable = False
            types.add("cupy/complex.cuh")
        types.update(_named(_TYPES, words, searchable))
        library.update(_named(_LIBRARY, words, searchable))
        if "thrust" in words and searchable:
            types.add("cupy/complex.cuh")  # CuPy's complex numbers are Thrust's
        if _STANDARD.search(text) and not any(header_names(text)):
            library.add("cupy/cuda_workaround.h")  # CuPy has it in front of every kernel
        if isinstance(spec, ElementwiseSpec) and spec.samples:
            library.add("kspec/sample.cuh")
    schedules = dict.fromkeys(_schedule(spec) for spec in specs)
    return (*sorted(types), *sorted(library), *sorted(schedules))


def _schedule(spec: _Spec) -> str:
    if isinstance(spec, ElementwiseSpec) and spec.adjoint is not None:
        return "kspec/adjoint.cuh"
    if spec.has_core:
        if isinstance(spec, ElementwiseSpec):
            return "kspec/items.cuh" if spec.threads == "thread" else "kspec/groups.cuh"
        return "kspec/pairwise.cuh"
    windows = isinstance(spec, ElementwiseSpec) and spec.windows
    return "kspec/windows.cuh" if windows else _SCHEDULES[type(spec)]


def _is_searchable(text: str) -> bool:
    """Return whether a text has every word that it compiles to."""
    return "##" not in text and all(_KNOWN.match(one.text) for one in header_names(text))


def _of_cupys_own(text: str) -> bool:
    """Return whether a text includes a header that only an installed CuPy has."""
    names = [one.name for one in header_names(text) if one.is_literal]
    return any(name.startswith("cupy/") and not (_INCLUDES / name).is_file() for name in names)


def _named(table: Mapping[str, str], words: set[str], searchable: bool) -> Iterator[str]:
    return (header for word, header in table.items() if word in words or not searchable)


def types_of(specs: Iterable[_Spec], binding: _Binding | None = None) -> tuple[str, ...]:
    """Return every dtype that a parameter may have; arguments as for `includes_for`."""
    found: dict[str, None] = {}
    for spec in specs:
        bindings = spec.bindings() if binding is None else (binding,)
        found |= dict.fromkeys(dtype for one in bindings for _, dtype in one)
        found |= dict.fromkeys(param.type for param in spec.params if not param.is_placeholder)
    return tuple(found)
