"""The tokens of a statement in, what it declares out.

>>> from kspec.cpp.tokens import tokens_of
>>> found = parse_declaration([*tokens_of("const Foo<int*> *x[4], y = f(1, 2);")])
>>> found.type, [(one.name, one.with_name("NEW")) for one in found.declarators]
('const Foo<int*>', [('x', '*NEW[4]'), ('y', 'NEW')])

This is not a parser of C++: types are not looked up.  It knows where the words of a type end and
the declarators begin, whatever is nested in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kspec.cpp.brackets import angle_end, end_at, group_end, split_at_commas
from kspec.cpp.tokens import Token, spelled

# Words whose parenthesis belongs to them and is not a list of parameters.
ATTRIBUTES = frozenset(
    ["__align__", "__builtin_align__", "alignas", "__attribute__", "__launch_bounds__",
     "__cluster_dims__", "__maxnreg__", "__block_size__", "__declspec"]
)  # fmt: skip
# Words of a declaration that are not its type.
SPECIFIERS = frozenset(
    ["extern", "static", "inline", "constexpr", "constinit", "consteval", "mutable", "register",
     "thread_local", "friend", "typedef", "virtual", "explicit", "__forceinline__",
     "__inline_hint__", "__noinline__", "__inline__", "__inline", "__extension__", "__global__",
     "__device__", "__host__", "__constant__", "__shared__", "__managed__", "__grid_constant__",
     "__device_builtin__"]
)  # fmt: skip
QUALIFIERS = frozenset(
    ["const", "volatile", "__restrict__", "__restrict", "restrict", "__const", "__volatile__"]
)
_BUILTIN = frozenset(
    ["void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned",
     "wchar_t", "char8_t", "char16_t", "char32_t", "auto", "__int128", "_Bool"]
)  # fmt: skip
# Words before a name that make a type of it.
_KEYS = frozenset(["struct", "class", "union", "enum", "typename", "template"])
# Words that name a type by the parenthesis behind them.
_TYPE_OF = frozenset(["decltype", "typeof", "__typeof__", "__typeof", "_Atomic", "__decltype"])
_POINTERS = frozenset(["*", "&", "&&"])
_VALUES = frozenset(["true", "false", "nullptr", "sizeof", "alignof", "new"])


class Declarator(NamedTuple):
    """One of the things that a statement declares.

    Attributes
    ----------
    name : str
        Its name, without namespaces or classes.
    tokens : list of Token
        The declarator without an initial value.
    position : int
        Where in `tokens` the name is.
    is_function : bool
        Whether a list of parameters follows the name.
    has_value : bool
        Whether an initial value follows.
    """

    name: str
    tokens: list[Token]
    position: int
    is_function: bool
    has_value: bool

    def with_name(self, name: str) -> str:
        """Return the text of the declarator with another name."""
        tokens = [*self.tokens]
        tokens[self.position] = tokens[self.position]._replace(text=name)
        return spelled(tokens)


class Declaration(NamedTuple):
    """A parsed statement.

    Attributes
    ----------
    specifiers : frozenset of str
        Words that are not of the type, such as ``static``.
    attributes : list of list of Token
        Attributes with their parentheses.
    type : str
        The type before all declarators, with its ``const`` and ``volatile``.
    declarators : tuple of Declarator
        What is declared.
    """

    specifiers: frozenset[str]
    attributes: list[list[Token]]
    type: str
    declarators: tuple[Declarator, ...]


def parse_declaration(statement: Sequence[Token]) -> Declaration | None:
    """Parse a statement up to its semicolon or the brace of a body; None if it declares nothing."""
    attributes, tokens = split_attributes(statement)
    specifiers: set[str] = set()
    kind: list[Token] = []
    named = index = 0  # words that name a type; where the declarators begin
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind == "string" or token.text in SPECIFIERS:  # extern "C"
            specifiers.add(token.text)
            index += 1
        elif token.text in _TYPE_OF and following == "(":
            end = group_end(tokens, index + 1)
            kind, named, index = [*kind, *tokens[index:end]], named + 1, end
        elif token.text == "<" and kind:
            end = angle_end(tokens, index) or index + 1
            kind, index = [*kind, *tokens[index:end]], end
        elif token.text == "::" or token.text in QUALIFIERS or token.text in _KEYS:
            kind.append(token)
            index += 1
        elif token.kind == "word":
            plain = token.text in _BUILTIN
            if named and not plain and kind[-1].text not in ("::", "template"):
                break
            kind.append(token)
            named += 1
            index += 1
        elif token.text == "{" and kind:  # struct { ... } x
            end = group_end(tokens, index)
            kind, named, index = [*kind, *tokens[index:end]], max(named, 1), end
        else:
            break
    if not named:
        return None
    found = [_declarator(part) for part in split_at_commas(tokens[index:])]
    declarators = tuple(one for one in found if one is not None)
    if found[0] is None:  # an expression
        return None
    return Declaration(frozenset(specifiers), attributes, spelled(kind), declarators)


def _declarator(tokens: list[Token]) -> Declarator | None:
    index = _name_index(tokens)
    if index < 0:
        return None
    after = index + 1
    if after < len(tokens) and tokens[after].text == "<":
        after = angle_end(tokens, after) or after
    suffix = tokens[after].text if after < len(tokens) else ""
    if tokens[index].text == "operator":
        return Declarator("operator", tokens, index, True, False)
    function = False
    if suffix == "(":
        first = tokens[after + 1] if after + 1 < len(tokens) else tokens[after]
        function = first.kind not in ("number", "string", "char") and first.text not in _VALUES
        function = function and first.text not in ("-", "&", "{", "!", "~")
        if not function:
            return Declarator(tokens[index].text, tokens[:after], index, False, True)
    elif suffix == ")" and tokens[index - 1].text == "(":  # (k)(int)
        function = after + 1 < len(tokens) and tokens[after + 1].text == "("
    end = _value_start(tokens, after)
    return Declarator(tokens[index].text, tokens[:end], index, function, end < len(tokens))


def _name_index(tokens: Sequence[Token]) -> int:
    """Return the index of the declared name, inside all parentheses around it, or -1."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text in _POINTERS or token.text in QUALIFIERS or token.text in ("(", "::"):
            index += 1
        elif token.kind == "word":
            end = index + 1
            if end < len(tokens) and tokens[end].text == "<":
                end = angle_end(tokens, end) or end
            if end < len(tokens) and tokens[end].text == "::":  # of a namespace, or a member
                index = end + 1
                continue
            return index
        else:
            return -1
    return -1


def _value_start(tokens: Sequence[Token], start: int) -> int:
    """Return the index of the initial value, or the number of tokens."""
    index = start
    while index < len(tokens):
        if tokens[index].text in ("=", "{", ":"):
            return index
        index = end_at(tokens, index)
    return len(tokens)


def split_attributes(tokens: Sequence[Token]) -> tuple[list[list[Token]], list[Token]]:
    """Return the attributes of a statement with their parentheses, and all other tokens."""
    attributes: list[list[Token]] = []
    others: list[Token] = []
    index = 0
    while index < len(tokens):
        pair = [token.text for token in tokens[index : index + 2]]
        end = 0
        if pair == ["[", "["]:
            end = group_end(tokens, index)
        elif pair[0] in ATTRIBUTES and pair[1:] == ["("]:
            end = group_end(tokens, index + 1)
        if end:
            attributes.append([*tokens[index:end]])
            index = end
        else:
            others.append(tokens[index])
            index += 1
    return attributes, others


def without_template_head(statement: Sequence[Token]) -> list[Token]:
    """Return a statement without its ``template <...>``, however many."""
    tokens = [*statement]
    while [token.text for token in tokens[:2]] == ["template", "<"]:
        end = angle_end(tokens, 1)
        if not end:
            return []
        tokens = tokens[end:]
    return tokens
