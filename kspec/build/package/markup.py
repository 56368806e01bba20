r"""Docstrings in, HTML out: the constructs of NumPy-style prose that specs use.

>>> print(render_doc("Sum of ``x``.\n\n* one\n* two"))
<p>Sum of <code>x</code>.</p>
<ul><li>one</li><li>two</li></ul>

Paragraphs, underlined headings, lists, terms with descriptions, literal blocks behind ``::``,
sessions of the interpreter and quotations; inside them code, names and emphasis.  All else is text,
and is escaped.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from kspec.build.package.highlight import Html, escaped, highlight

_INLINE = re.compile(
    r"``(?P<code>.+?)``"
    r"|(?::\w+:)?`(?P<name>[^`\s](?:[^`]*[^`\s])?)`"
    r"|(?<![\w*])\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*(?![\w*])"
    r"|(?<![\w*])\*(?P<em>[^\s*](?:[^*]*[^\s*])?)\*(?![\w*])",
    re.DOTALL,
)
_TAGS = {"code": "code", "name": "code", "strong": "strong", "em": "em"}
_ITEM = re.compile(r"(?P<mark>[*•+-]|\d+\.|#\.)( +)(?=\S)")
_UNDERLINE = re.compile(r"([-=~^])\1{2,}$")


def summary_of(doc: str) -> Html:
    """Return the first paragraph of a docstring as HTML for the inside of a line."""
    first = re.split(r"\n\s*\n", textwrap.dedent(doc).strip(), maxsplit=1)[0]
    return Html(_inline(_one_line(first.split("\n"))))


def render_doc(doc: str) -> Html:
    """Return a docstring as HTML."""
    lines = [line.rstrip() for line in textwrap.dedent(doc.expandtabs()).strip().split("\n")]
    return Html("\n".join(_blocks(lines)))


def _blocks(lines: Sequence[str]) -> list[str]:
    """Return the HTML of lines of which the first that is not empty has no indent."""
    made: list[str] = []
    at = 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        html, at = _block(lines, at)
        made += [html] if html else []
    return made


def _block(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return the HTML of the block at a line, and the line after it."""
    line = lines[at]
    following = lines[at + 1] if at + 1 < len(lines) else ""
    if line.startswith(" "):
        end = _indented_end(lines, at)
        return f"<blockquote>{_inner(lines[at:end])}</blockquote>", end
    if line.startswith(">>> "):
        end = _paragraph_end(lines, at)
        session = "\n".join(lines[at:end])
        return f"<pre>{highlight(session, 'pycon')}</pre>", end
    if _UNDERLINE.match(following) and len(following) >= len(line):
        return f"<h4>{_inline(line)}</h4>", at + 2
    if item := _ITEM.match(line):
        return _list(lines, at, "ol" if item["mark"][-1] == "." else "ul")
    if following.startswith(" ") and not line.endswith("::"):
        return _terms(lines, at)
    return _paragraph(lines, at)


def _paragraph(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return a paragraph, with the literal block that it announces with ``::``."""
    end = _paragraph_end(lines, at, stops=True)
    text = _one_line(lines[at:end])
    html = f"<p>{_inline(text)}</p>" if text else ""
    if not lines[end - 1].endswith("::"):
        return html, end
    last = _indented_end(lines, end)
    literal = textwrap.dedent("\n".join(lines[end:last])).strip("\n")
    return html + (f"<pre>{escaped(literal)}</pre>" if literal else ""), last


def _list(lines: Sequence[str], at: int, tag: str) -> tuple[str, int]:
    """Return the list whose first item is at a line; what an item holds is indented."""
    items: list[str] = []
    while at < len(lines) and (item := _ITEM.match(lines[at])):
        if ("ol" if item["mark"][-1] == "." else "ul") != tag:
            break
        end = _indented_end(lines, at + 1)
        width = len(item[0])
        items.append(
            _inner([lines[at][width:], *(_less(line, width) for line in lines[at + 1 : end])])
        )
        at = end
    return f"<{tag}>{''.join(f'<li>{item}</li>' for item in items)}</{tag}>", at


def _less(line: str, indent: int) -> str:
    """Return a line with at most this much less in front of it."""
    return line[min(indent, len(line) - len(line.lstrip())) :]


def _terms(lines: Sequence[str], at: int) -> tuple[str, int]:
    """Return terms and what is indented below each, as parameters are described."""
    rows: list[str] = []
    while at + 1 < len(lines) and lines[at][:1].strip() and lines[at + 1].startswith(" "):
        end = _indented_end(lines, at + 1)
        rows.append(f"<dt>{_inline(lines[at])}</dt><dd>{_inner(lines[at + 1 : end])}</dd>")
        at = end
    return f"<dl>{''.join(rows)}</dl>", at


def _inner(lines: Sequence[str]) -> str:
    """Return the HTML of lines with a common indent; a single paragraph is without its tag."""
    made = _blocks(textwrap.dedent("\n".join(lines)).strip("\n").split("\n"))
    only = made[0] if len(made) == 1 else ""
    alone = only.startswith("<p>") and only.endswith("</p>") and only.count("<p>") == 1
    return only[3:-4] if alone else "".join(made)


def _paragraph_end(lines: Sequence[str], at: int, stops: bool = False) -> int:
    """Return the line after a paragraph; one with `stops` also ends before an indented line."""
    end = at + 1
    while end < len(lines) and lines[end]:
        if stops and lines[end].startswith(" "):
            break
        end += 1
    return end


def _indented_end(lines: Sequence[str], at: int) -> int:
    """Return the line after those that are indented or empty, without empty ones at the end."""
    end = at
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    while end > at and not lines[end - 1]:
        end -= 1
    return end


def _one_line(lines: Sequence[str]) -> str:
    """Return the text of a paragraph; ``::`` at its end is a colon, and by itself nothing."""
    text = " ".join(" ".join(lines).split())
    if not text.endswith("::"):
        return text
    return text[:-2].rstrip() if text == "::" or text.endswith(" ::") else text[:-1]


def _inline(text: str) -> str:
    """Return the HTML of text inside a block."""
    made, at = "", 0
    for match in _INLINE.finditer(text):
        tag = _TAGS[match.lastgroup or ""]
        inner = match[match.lastgroup or ""]
        made += escaped(text[at : match.start()]) + f"<{tag}>{escaped(inner)}</{tag}>"
        at = match.end()
    return made + escaped(text[at:])
