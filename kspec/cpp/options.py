"""Options of C++ compilers: words in, the options that have values out, and macros as directives.

>>> split_macros(("-DN=3", "-D", "FAST", "-UNDEBUG", "-lineinfo"))
(('#define N 3', '#define FAST 1', '#undef NDEBUG'), ('-lineinfo',))

As a compiler option a macro reaches every header: ``-DA=3`` breaks one that has a variable `A`.
As a directive behind kspec's includes it reaches the user's text only.  `kspec.render` prints
the directives; `kspec.spec.models` looks for names in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kspec.cpp.names import leading_identifier

DEFINE = ("-D", "--define-macro", "-define-macro")
UNDEFINE = ("-U", "--undefine-macro", "-undefine-macro")


class ValuedOption(NamedTuple):
    """An option with a value, however it is written: ``-DN``, ``-D N`` or ``--define-macro=N``."""

    places: tuple[int, ...]
    flag: str
    value: str


def valued_options(options: Sequence[str], flags: Sequence[str]) -> Iterator[ValuedOption]:
    """Yield the options among `flags` with their values, and the places of their words.

    >>> [(one.places, one.value) for one in valued_options(("-Ia", "-g", "-I", "b"), ("-I",))]
    [((0,), 'a'), ((2, 3), 'b')]
    """
    place = 0
    while place < len(options):
        word = options[place].strip()
        name, equals, value = word.partition("=")
        if word in flags:
            following = options[place + 1] if place + 1 < len(options) else ""
            yield ValuedOption((place, place + 1), word, following)
            place += 1
        elif equals and name in flags:
            yield ValuedOption((place,), name, value)
        elif word[:2] in flags:
            yield ValuedOption((place,), word[:2], word[2:].strip())
        place += 1


def macro_directive(option: ValuedOption) -> str:
    """Return the directive of an option that defines a macro, or takes the definition away."""
    name, equals, text = option.value.strip().partition("=")
    if option.flag in UNDEFINE:
        return f"#undef {option.value.strip()}"
    return f"#define {name.strip()} {text.strip() if equals else '1'}".rstrip()


def split_macros(options: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the directives that macro options stand for, and the other options.

    Those without a valid name stay: the compiler says what is wrong with them.
    """
    found = [
        one
        for one in valued_options(options, (*DEFINE, *UNDEFINE))
        if leading_identifier(one.value.strip())
    ]
    moved = {place for one in found for place in one.places}
    rest = (word for place, word in enumerate(options) if place not in moved)
    return tuple(map(macro_directive, found)), tuple(rest)


def macro_names(directives: Sequence[str]) -> tuple[str, ...]:
    """Return the names that directives define, each once."""
    defined = (line.removeprefix("#define ") for line in directives)
    return tuple(dict.fromkeys(filter(None, map(leading_identifier, defined))))
