"""The words that macros can put into a fragment, as far as the text tells.

>>> found = Expansion.of("#define OLD y")
>>> found.hidden(["x", "OLD"]), found.hidden(["x"])
(frozenset({'y'}), frozenset())

In go the texts in front of a fragment and the compiler's options, out come the words that a reader
of the fragment does not see.  Nothing is expanded: a macro stands for every word of every
definition of it, and for those of the macros among them.  `kspec.cpp.assignment` and
`kspec.cpp.flow` ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from kspec.cpp.directives import HeaderName, header_names, macro_definitions
from kspec.cpp.fragments import unbalanced
from kspec.cpp.names import KEYWORDS
from kspec.cpp.options import split_macros
from kspec.dataclass import dataclass

_WORD = re.compile(r"\b[A-Za-z_]\w*")
# Headers whose macros do not stand for variables of kernels.
_OURS = ("kspec/", "cupy/")
_SEARCHED = re.compile(r"-I|--include-path|-include-path")
_READ_FIRST = re.compile(r"--?(?:pre-)?include\b(?!-path)|--?options-file\b|-optf\b")


@dataclass(frozen=True)
class Expansion:
    """The macros that may stand in a fragment.

    Attributes
    ----------
    bodies : mapping of str to tuple of str
        Name to every definition: parameters and body.
    unseen : bool
        Whether headers of the user's may define more.
    variables : frozenset of str
        Words that are not macros: C++ keywords, and the parameters of the kernel.
    declared : frozenset of str
        Words of the preamble: functions among them hide those of the same name.
    """

    bodies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unseen: bool = False
    variables: frozenset[str] = KEYWORDS
    declared: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        *texts: str,
        options: Sequence[str] = (),
        variables: Iterable[str] = (),
        declared: Iterable[str] = (),
    ) -> Expansion:
        """Return the macros of some texts and of compiler options."""
        bodies: dict[str, tuple[str, ...]] = {}
        macro_options, others = split_macros(options)
        for text in (*texts, *macro_options):
            for name, body in macro_definitions(text):
                bodies[name] = (*bodies.get(name, ()), body)
        searched = any(map(_SEARCHED.match, others))
        unseen = any(map(_READ_FIRST.match, others)) or any(
            _is_unseen(one, searched) for text in texts for one in header_names(text)
        )
        return cls(bodies, unseen, KEYWORDS.union(variables), frozenset(declared))

    def hidden(self, words: Iterable[str]) -> frozenset[str] | None:
        """Return the words that macros among `words` stand for; None where that cannot be told."""
        found: set[str] = set()
        pending = list(words)
        while pending:
            word = pending.pop()
            bodies = self.bodies.get(word)
            if bodies is None:
                if self.unseen and word not in self.variables:
                    return None
                continue
            for body in bodies:
                if "##" in body or unbalanced(body) is not None:
                    return None
                more = set(_WORD.findall(body)) - found
                found |= more
                pending += more
        return frozenset(found)

    def text(self, words: Iterable[str]) -> str:
        """Return the definitions that the macros among `words` expand to."""
        every = {*words, *(self.hidden(words) or ())}
        return "\n".join(body for word in sorted(every) for body in self.bodies.get(word, ()))


def _is_unseen(header: HeaderName, searched: bool) -> bool:
    """Return whether a header may be the user's; `searched`: directories of theirs are."""
    if header.is_literal and header.name.startswith(_OURS):
        return False
    return searched or not header.text.startswith("<")
