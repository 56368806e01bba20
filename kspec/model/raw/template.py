"""Template parameters of raw kernels: which name expression has the types and values of a call.

>>> template = RawTemplate(("T", "TILE"), ("T",))
>>> template.values, template.types_of("f<float, 16>"), template.values_of("f<float, 0x10>")
(('TILE',), {'T': 'float'}, {'TILE': 16})
>>> template.spelled("f<float, 16>", {"T": "float64"}, {"TILE": 32})
'f<double, 32>'

Placeholders of the kernel's parameters are types, and all other template parameters are integers.
`kspec.cpp.name_expressions` has the text of an expression, `kspec.runtime.raw.declared` the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.signature import CParam

_INTEGER = re.compile(r"([+-]?)\s*(0[xX][0-9a-fA-F']+|0[bB][01']+|[0-9][0-9']*)[uUlLzZ]*")
_TRUTHS = {"true": 1, "false": 0}
# The type of a template value in calls and expressions.
_CTYPE = "long long"


@dataclass(frozen=True)
class RawTemplate:
    """The template parameters of a kernel.

    Attributes
    ----------
    names : tuple of str
        All of them, in the order of the C++ template.
    letters : tuple of str
        Those that are types: placeholders of the kernel's parameters.
    """

    names: tuple[str, ...] = ()
    letters: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str], params: Sequence[CParam]) -> RawTemplate:
        """Return the template of a kernel; without names it has the placeholders alone."""
        letters = tuple(dict.fromkeys(param.type for param in params if param.is_placeholder))
        return cls(tuple(names) or letters, letters)

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the parameters that are integers."""
        return tuple(name for name in self.names if name not in self.letters)

    @property
    def numbers(self) -> tuple[CParam, ...]:
        """The same as declared parameters, which expressions see behind those of the kernel."""
        return tuple(CParam(_CTYPE, name) for name in self.values)

    def types_of(self, expression: str) -> dict[str, str]:
        """Return the C++ types of a name expression, by placeholder."""
        from kspec.cpp.name_expressions import template_arguments

        pairs = zip(self.names, template_arguments(expression), strict=False)
        return {name: text for name, text in pairs if name in self.letters}

    def values_of(self, expression: str) -> dict[str, int]:
        """Return the integers of a name expression, by name."""
        from kspec.cpp.name_expressions import template_arguments

        pairs = zip(self.names, template_arguments(expression), strict=False)
        found = {name: integer_of(text) for name, text in pairs if name not in self.letters}
        return {name: value for name, value in found.items() if value is not None}

    def known(self, expressions: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Return the values that each integer has among name expressions, in their order."""
        rows = [self.values_of(one) for one in expressions]
        return {
            name: tuple(dict.fromkeys(row[name] for row in rows if name in row))
            for name in self.values
        }

    def find(
        self, expressions: Iterable[str], types: Mapping[str, str], values: Mapping[str, int]
    ) -> str | None:
        """Return the name expression with these dtypes and integers, in any spelling."""
        wanted = {letter: dtypes.lookup(dtype) for letter, dtype in types.items()}
        for expression in expressions:
            rows = {
                letter: dtypes.from_ctype(text)
                for letter, text in self.types_of(expression).items()
            }
            if rows == wanted and self.values_of(expression) == values:
                return expression
        return None

    def spelled(self, like: str, types: Mapping[str, str], values: Mapping[str, int]) -> str:
        """Return the name expression with other types and integers, which is spelt like one."""
        from kspec.cpp.name_expressions import template_arguments

        words = dict(zip(self.names, template_arguments(like), strict=False))
        texts = []
        for name in self.names:
            if name in self.letters:
                texts.append(dtypes.lookup(types[name]).ctype)
            elif words.get(name) in _TRUTHS and values[name] in (0, 1):
                texts.append("true" if values[name] else "false")
            else:
                texts.append(str(values[name]))
        return f"{like.partition('<')[0]}<{', '.join(texts)}>"


def integer_of(text: str) -> int | None:
    """Return the value of an integer literal of C++, or of ``true`` or ``false``; else None.

    >>> integer_of("16"), integer_of("-0x1F"), integer_of("1'000u"), integer_of("true")
    (16, -31, 1000, 1)
    >>> integer_of("float"), integer_of("010")
    (None, 8)
    """
    if text in _TRUTHS:
        return _TRUTHS[text]
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    sign, digits = found[1], found[2].replace("'", "")
    octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    try:
        return int(f"{sign}{digits}", 8 if octal else 0)
    except ValueError:
        return None
