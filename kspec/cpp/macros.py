"""Macro options of a kernel as directives: ``-DN=3`` in, ``#define N 3`` out.

>>> split_macros(("-DN=3", "-D", "FAST", "-UNDEBUG", "-lineinfo"))
(('#define N 3', '#define FAST 1', '#undef NDEBUG'), ('-lineinfo',))

As a compiler option a macro reaches every header: ``-DA=3`` breaks one that has a variable `A`.
As a directive behind kspec's includes it reaches the user's text only.  `kspec.render` prints
the directives; `kspec.spec.models` looks for names in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DEFINE = ("-D", "--define-macro")
_UNDEFINE = ("-U", "--undefine-macro")
_NAME = re.compile(r"[A-Za-z_]\w*")


def split_macros(options: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the directives that macro options stand for, and the other options."""
    directives: list[str] = []
    rest: list[str] = []
    words = iter(options)
    for word in words:
        flag, value = _macro_flag(word)
        if not flag:
            rest.append(word)
            continue
        text = (value or next(words, "")).strip()
        if not _NAME.match(text):
            rest += [word] if value else [word, text]  # the compiler says what is wrong with it
        elif flag in _DEFINE:
            directives.append(_define(text))
        else:
            directives.append(f"#undef {text}")
    return tuple(directives), tuple(rest)


def macro_names(directives: Sequence[str]) -> tuple[str, ...]:
    """Return the names that directives define, each once."""
    names = (_NAME.match(line.removeprefix("#define ")) for line in directives)
    return tuple(dict.fromkeys(name[0] for name in names if name))


def _macro_flag(word: str) -> tuple[str, str]:
    """Return the flag of a macro option and what is attached to it, or two empty strings."""
    word = word.strip()
    for flag in (*_DEFINE, *_UNDEFINE):
        if word == flag:
            return flag, ""
        if word.startswith(f"{flag}=" if flag.startswith("--") else flag):
            return flag, word.removeprefix(flag).removeprefix("=" if "--" in flag else "")
    return "", ""


def _define(text: str) -> str:
    """Return the directive for ``NAME``, ``NAME=VALUE`` or ``NAME(x)=VALUE``."""
    name, equals, value = text.partition("=")
    return f"#define {name.strip()} {value.strip() if equals else '1'}".rstrip()
