"""The identifiers in a piece of CUDA C++, without comments, literals and member names.

>>> identifiers("y[i] = x.size() * 2.0f;  // not n")
('y', 'i', 'x')

In goes a user's fragment, out come its words: enough to see what a fragment refers to.
It is a token scan, not a parser; whoever asks must be right when a word is found in vain.
`kspec.spec.models` derives a declaration's `ordered` and `scalars` from it.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      //[^\n]* | /\*.*?(?:\*/|\Z)                       # comments
    | R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"           # raw strings
    | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'         # strings and characters
    | \.?[0-9](?:[eEpP][+-]|'\w|[.\w])*                 # numbers with their suffixes
    | (?P<member>(?:\.|->)\s*)?(?P<word>[A-Za-z_]\w*)
    | (?P<sign>[][(){}"';])
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {")": "(", "]": "[", "}": "{"}
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|el)", re.MULTILINE)
_CONTINUED = re.compile(r"\\\r?\n")
_COMMENTS = ("//", "/*")


def identifiers(*fragments: str) -> tuple[str, ...]:
    """Return the distinct identifiers of `fragments` in order, member names left out."""
    found: dict[str, None] = {}
    for fragment in fragments:
        for match in _TOKEN.finditer(fragment):
            if match["word"] and not match["member"]:
                found[match["word"]] = None
    return tuple(found)


def offset_of(word: str, fragment: str) -> int:
    """Return where `word` first occurs as an identifier of `fragment`, or -1."""
    for match in _TOKEN.finditer(fragment):
        if match["word"] == word and not match["member"]:
            return match.start("word")
    return -1


def mentions(words: set[str], *fragments: str) -> bool:
    """Return whether any of `words` occurs as an identifier of `fragments`."""
    return not words.isdisjoint(identifiers(*fragments))


def macros(preamble: str) -> str:
    """Return only the ``#define`` lines: what of a preamble can expand inside a kernel.

    A definition that goes on in another line is joined.
    """
    return "\n".join(directives(preamble, "define"))


def directives(text: str, name: str) -> tuple[str, ...]:
    r"""Return the preprocessor's lines of one name, each in one line and without comments.

    >>> directives("int i;  // all\n# define A 3\n", "define")
    ('# define A 3',)
    """
    code = _without_comments(_CONTINUED.sub("", text))
    return tuple(re.findall(rf"^[ \t]*(?:#|%:)[ \t]*{name}\b[^\n]*", code, re.MULTILINE))


def _without_comments(text: str) -> str:
    return _TOKEN.sub(lambda match: " " if match[0].startswith(_COMMENTS) else match[0], text)


def tokens(fragment: str) -> str:
    """Return a fragment without its comments, literals and numbers.

    >>> tokens("y = x.a + 2;  // twice")
    'y = x.a +  ;   '
    """
    return _TOKEN.sub(lambda match: match[0] if match["word"] or match["sign"] else " ", fragment)


def template_parameters(text: str) -> tuple[str, ...]:
    """Return the words that ``typename`` or ``class`` introduces in `text`."""
    return tuple(dict.fromkeys(re.findall(r"\b(?:typename|class)\s+([A-Za-z_]\w*)", text)))


def unbalanced(text: str) -> tuple[int, str] | None:
    """Return where brackets, quotes or comments of `text` do not match and how; None if they do.

    Preprocessor lines are left out; text with conditions is not judged, for its lines need not
    all be there.

    >>> unbalanced("y = (x[0);")
    (8, "')' closes '['")
    """
    if _CONDITION.search(text):
        return None
    text = _DIRECTIVE.sub(lambda match: " " * len(match.group()), text)
    opened: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        sign, offset = match["sign"], match.start()
        if match.group().startswith("/*") and "*/" not in match.group()[2:]:
            return offset, "the comment is never closed"
        if sign in ('"', "'"):
            return offset, f"the quote {sign} is never closed"
        if sign in ("(", "[", "{"):
            opened.append((sign, offset))
        elif sign in _CLOSES:
            if not opened:
                return offset, f"{sign!r} closes nothing"
            before = opened.pop()[0]
            if before != _CLOSES[sign]:
                return offset, f"{sign!r} closes {before!r}"
    return (opened[-1][1], f"{opened[-1][0]!r} is never closed") if opened else None


def end_of_expression(text: str) -> int:
    """Return the offset of the first ``;`` outside of brackets, or -1."""
    depth = 0
    for match in _TOKEN.finditer(text):
        if match["sign"] in ("(", "[", "{"):
            depth += 1
        elif match["sign"] in _CLOSES:
            depth -= 1
        elif match["sign"] == ";" and not depth:
            return match.start()
    return -1


def dangling_operator(text: str) -> int:
    """Return the offset of an operator at the end that wants another operand, or -1.

    >>> dangling_operator("x * // y"), dangling_operator("x++")
    (2, -1)
    """
    code = _TOKEN.sub(
        lambda match: " " * len(match[0]) if match[0].startswith(_COMMENTS) else match[0], text
    )
    found = re.search(r"(?:(?<!\+)\+|(?<!-)-|[*/%&|^=<!~?:,])\s*$", code)
    return found.start() if found else -1


def takes_address(name: str, fragment: str) -> bool:
    """Return whether a fragment may take the address of `name`; ``x & name`` looks alike.

    >>> takes_address("y", "atomicAdd(&y, x)"), takes_address("y", "y = x && y")
    (True, False)
    """
    code = _TOKEN.sub(lambda match: match[0] if match["word"] else " ", fragment)
    return re.search(rf"(?<!&)&\s*\(*\s*{re.escape(name)}\b", code) is not None
