"""The head and body of a kernel in, the C++ class of its loops out.

The class stands behind the kernel and is named after it; ``kspec_host/entry.h`` takes it beside the
kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kspec.compiler.host.loops.code import run_function
from kspec.compiler.host.loops.parse import read_kernel
from kspec.compiler.host.loops.ranges import fit_function
from kspec.cpp.tokens import Token

_MOST_TOKENS = 3000  # of a kernel: compilers take more time for loops, and they read two of each


class LoopsText(NamedTuple):
    """A class, and the names in it that must be those of CUDA's functions."""

    text: str
    functions: frozenset[str]


def loops_name(kernel: str) -> str:
    """Return the name of the class of a kernel.

    >>> loops_name("ns::fx3<float>")
    'ns::kspec_loops_fx3<float>'
    """
    name, bracket, arguments = kernel.partition("<")
    space, colons, last = name.strip().rpartition("::")
    return f"{space}{colons}kspec_loops_{last}{bracket}{arguments}"


def loops_text(
    head: Sequence[Token], body: Sequence[Token], line_of: Callable[[int], str]
) -> LoopsText | None:
    """Return the class of a kernel's loops, or None if it has none.

    Parameters
    ----------
    head : sequence of Token
        The declaration of the function, from a ``template`` on.
    body : sequence of Token
        What is between its braces.
    line_of : callable
        Returns the line marker of an offset in the text, with its line ends.
    """
    if len(body) > _MOST_TOKENS:
        return None
    try:
        kernel = read_kernel(head, body)
        if kernel is None:
            return None
        run, fit = run_function(kernel, line_of), fit_function(kernel)
    except RecursionError:  # an expression with hundreds of operators
        return None
    if not run:
        return None
    plain = " && ".join(f"::kspec_host::is_number<{one}>" for one in kernel.types) or "true"
    text = "\n".join(
        [
            kernel.template,
            f"struct {loops_name(kernel.name)} {{",
            f"static constexpr bool kspec_is_plain = {plain};",
            fit,
            run,
            "};",
        ]
    )
    return LoopsText(text, kernel.functions)
