"""The C++ around an operation on core dimensions, where ``A(r, c)`` is an element.

The classes and macros are those of ``kspec/core.cuh``; `kspec.render.parameters` declares
parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kspec.model.signature import Param


def core_macros(params: Iterable[Param]) -> tuple[str, ...]:
    """Return the lines before an operation: an element is looked up by a macro.

    It tells the host device where the operation is, and what it calls the parameter.
    """
    return tuple(
        f'#define {one.name}(...) KSPEC_CORE("{one.name}", {one.name}, __VA_ARGS__)'
        for one in params
        if one.core
    )


def core_macro_ends(params: Iterable[Param]) -> tuple[str, ...]:
    """Return the lines after it."""
    return tuple(f"#undef {one.name}" for one in params if one.core)


_GROUP = {
    "_thread": "const int _thread = kspec::Group<_Layout>::thread();",
    "_threads": "constexpr int _threads = kspec::Group<_Layout>::threads;",
    "_sync": "const auto _sync = [] { kspec::Group<_Layout>::sync(); };",
}


def group_names(threads: int, words: Collection[str]) -> tuple[str, ...]:
    """Return the lines for those words of an operation that are about its group of threads."""
    return tuple(line for name, line in _GROUP.items() if threads > 1 and name in words)
