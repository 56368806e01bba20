"""A call as text in a program of XLA's: the kernel's name, its options, and numbers.

The text is all that is left of the call in a compiled, cached or exported program, so it has the
kernel's name and nothing of this process.

>>> wanted = Request("kspec_kernels.norms.l2norm", (), (("axis", (-1,)), ("keepdims", False)))
>>> wanted.text
'{"kernel": "kspec_kernels.norms.l2norm", "numbers": [], "options": {"axis": [-1], ...
>>> parse_request(wanted.text.encode()) == wanted
True

Other forms of reductions are named, too.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.model.forms.kinds import REDUCE

Number = bool | int | float | complex


@dataclass(frozen=True)
class Request:
    """A call of a kernel.

    Attributes
    ----------
    kernel : str
        The name that it was registered under.
    numbers : tuple of (int, number)
        Inputs that are not arrays, and where they are among the inputs.
    options : tuple of (str, object)
        Keyword arguments of the call.
    form : str
        The form of a reduction that is called; its arrays of integers are behind the inputs.
    """

    kernel: str
    numbers: tuple[tuple[int, Number], ...] = ()
    options: tuple[tuple[str, Any], ...] = ()
    form: str = REDUCE

    @property
    def text(self) -> str:
        """The request as JSON."""
        numbers = [[position, _plain(number)] for position, number in self.numbers]
        data = {"kernel": self.kernel, "numbers": numbers, "options": dict(self.options)}
        if self.form != REDUCE:
            data["form"] = self.form
        return json.dumps(data)

    def called(self, kernel: Any) -> Callable[..., Any]:
        """Return the function that a request calls: the kernel, or the method of a form."""
        method: Callable[..., Any] = kernel if self.form == REDUCE else getattr(kernel, self.form)
        return method

    def inputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arrays with the numbers between them."""
        complete = list(arrays)
        for position, number in self.numbers:
            complete.insert(position, number)
        return complete


@functools.lru_cache(maxsize=4096)
def parse_request(text: bytes) -> Request:
    """Return a request from its text."""
    data = json.loads(text)
    numbers = tuple((position, _number(value)) for position, value in data["numbers"])
    options = tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in data["options"].items()
    )
    return Request(data["kernel"], numbers, options, data.get("form", REDUCE))


def _plain(number: Number) -> object:
    return [number.real, number.imag] if isinstance(number, complex) else number


def _number(value: Any) -> Number:
    return complex(*value) if isinstance(value, list) else value
