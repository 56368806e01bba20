r"""Compiler messages as findings: the log of NVRTC, nvcc, g++, clang or zig in, diagnostics out.

::

    parse_log('specs/a.toml(7): error: identifier "n" is undefined\n  y = n;\n      ^')
    # (Diagnostic("error", 'identifier "n" is undefined', "specs/a.toml", 7, 5, 1, "y = n;"),)

Positions are those of the ``#line`` directives in the text that was compiled; what they mean in a
spec file, where a line may begin with a key and have escapes, `kspec.build.package.source_map`
knows.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from kspec.compiler.explain import explain
from kspec.compiler.python_words import explained
from kspec.cpp.directives import unescaped
from kspec.cpp.kernel_heads import kernel_names
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError
from kspec.model.stages import CudaSource

# "k.cu(3): error: ...", "k.cu(3): warning #177-D: ..." of the compilers of CUDA.
_CUDA = re.compile(
    r"(?P<path>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic )?"
    r"(?P<severity>error|warning|remark)(?: #(?P<code>[\w-]+))?: (?P<message>.*)"
)
# "k.cu:3:7: error: ..." of g++ and clang.
_GNU = re.compile(
    r"(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?"
    r"(?P<severity>error|warning|note): (?P<message>.*)"
)
# "ptxas error   : ...", "nvrtc: error: ...", "nvcc fatal   : ..."; a tool of no file.
_TOOL = re.compile(
    r"(?P<path>)(?P<tool>nvrtc|ptxas|nvlink|nvcc|cicc|ld|zig|cc1plus|collect2)\b[^:\n]*?:? *"
    r"(?P<severity>error|warning|fatal)\s*: (?P<message>.*)"
)
_NAMELESS = re.compile(r"(?P<path>)(?P<severity>error|warning): (?P<message>.*)")
_FORMS = (_CUDA, _GNU, _TOOL, _NAMELESS)
_SEVERITY = {"remark": "note", "fatal": "error"}
# Counts and headings, which say nothing that the messages do not.
_SUMMARY = re.compile(
    r"\d+ (?:catastrophic )?(?:errors?|warnings?)\b.*(?:generated|detected).*"
    r"|Remark: The warnings can be suppressed.*"
    r"|compilation terminated.*|Compilation (?:aborted|terminated).*"
    r"|In file included from .*|\s+from .*:\d+[:,].*"
    r"|\S.*: +(?:In (?:member )?(?:function|instantiation|lambda)|At global scope|required ).*"
)
_LINE = re.compile(r'\s*#\s*line\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_SECTION = re.compile(r"// ---- (?:(\w+)(?:\(|$))?")  # several kernels of one text have no name
# What an assertion says is the finding: of NVRTC and nvcc; of g++; of clang, with its condition.
_ASSERTION = re.compile(
    r"static assertion failed(?: with \"(.*)\"|(?: due to requirement '.*?')?: (.*))", re.DOTALL
)
_UNDECLARED = re.compile("no arguments to \u2018(\\w+)\u2019|\u2018(\\w+)\u2019 was not declared")
_UNUSED = ("177-D", "550-D")  # a variable that is never referenced, or set and never used
_TYPE = re.compile("\"[^\"]*\"|'[^']*'|\u2018[^\u2019]*\u2019")  # in the quotes of each compiler
_CARET = re.compile(r"\s*(?:\d* \|)?\s*~*\^[\^~]*\s*")
_GUTTER = re.compile(r"\s*\d* \| ?")
_WORD = re.compile(r"\w+")
_MAP = "__nv_name_map"
_HOST_NAME = re.compile(r"<name expression (.*)>")
_DIALECT = "kspec/host/include/"
# From a kernel of kspec's to the user's text.
_THROUGH_HEADERS = re.compile(r'^\s+instantiation of "[^"]*\bkspec::')
_NOTHING = CudaSource("", "")


@dataclass(frozen=True)
class _Text:
    """The lines of a translation unit by where ``#line`` says that they stand."""

    lines: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    kernels: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def line(self, path: str, number: int, shown: str = "") -> str:
        """Return a line; of several in one place, what the compiler shows, or the longest.

        What a template writes behind a fragment counts as the line after it.
        """
        found = self.lines.get((path, number), ())
        return shown if shown in found else max(found, key=len, default="")


def compile_error(
    log: str, source: CudaSource, options: tuple[str, ...], target: str
) -> CompileError:
    """Return the error for a log in which a compiler refuses a source."""
    advised = explain(_shortened(log), source)
    found = condensed(parse_log(advised, source))
    better = explained(found, source)
    shown = _without_instantiations(advised) if better == found else "\n".join(map(str, better))
    return CompileError(shown, source.text, options, target, better)


def _without_instantiations(log: str) -> str:
    """Return a log without the ways of the compiler through kspec's own headers."""
    kept = [line for line in log.split("\n") if not _THROUGH_HEADERS.search(line)]
    pairs = itertools.zip_longest(kept, kept[1:], fillvalue="")
    return "\n".join(line for line, after in pairs if not _is_empty_list(line, after)).rstrip()


def _is_empty_list(line: str, after: str) -> bool:
    return line.endswith("detected during:") and "instantiation of" not in after


def condensed(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the findings of a compiler that failed: errors first, each place of them once.

    One mistake in a template is an error of each instance, with other types in its message.  And
    what a statement in error would have used counts as unused.
    """
    once: dict[tuple[object, ...], Diagnostic] = {}
    others: list[Diagnostic] = []
    for one in found:
        if one.severity == "error":
            once.setdefault(_mistake(one), one)
        elif one.code not in _UNUSED:
            others.append(one)
    return (*once.values(), *others)


def named_once(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings with one of the two that g++ makes of an unknown function in a template."""
    once: dict[tuple[object, ...], Diagnostic] = {}
    for one in found:
        match = _UNDECLARED.search(one.message)
        if match and match[2] and one.source_line[: one.column - 1].endswith(match[2]):
            one = replace(one, column=one.column - len(match[2])).at_word()  # it was behind it
        key = (one.path, one.line, one.column, match[1] or match[2]) if match else (len(once),)
        once[key] = one  # the second may suggest another name
    return tuple(once.values())


def _mistake(one: Diagnostic) -> tuple[object, ...]:
    """Return the part of an error that is equal in all instances of a template."""
    said = _TYPE.sub("", one.message) if one.column else one.message
    return one.path, one.line, one.column, said


def _shortened(log: str) -> str:
    """Return the messages of a log that are `condensed` ones, in the compiler's words."""
    kept: list[str] = []
    seen: set[tuple[object, ...]] = set()
    for block in _blocks(log):
        form = next((match for form in _FORMS if (match := form.fullmatch(block[0]))), None)
        one = _diagnostic(form.groupdict(), block[1:], _Text()) if form else None
        if one is not None and one.severity == "error":
            repeated = _mistake(one) in seen
            seen.add(_mistake(one))
        else:
            repeated = one is not None and one.code in _UNUSED
        if not repeated:
            kept.append("\n".join(block))
    return "\n\n".join(kept) or log


def parse_log(log: str, source: CudaSource = _NOTHING) -> tuple[Diagnostic, ...]:
    """Return the messages of a compiler as findings; never none for a log with text.

    Parameters
    ----------
    log : str
        The compiler's own words.
    source : CudaSource
        The compiled source: g++ does not repeat the lines it complains about, nvcc has replaced
        macros in them.
    """
    text = _source_lines(source)
    found: list[Diagnostic] = []
    names: list[str] = []
    for block in _blocks(log):
        form = next((match for form in _FORMS if (match := form.fullmatch(block[0]))), None)
        if form is None:
            _unknown(found, block)
            continue
        one = _diagnostic(form.groupdict(), block[1:], text)
        if found and one.path.startswith((_MAP, _DIALECT)):
            continue  # consequences of earlier messages
        if one.severity == "note" and found:
            note = f"note: {one.place}: {one.message}"
            found[-1] = replace(found[-1], details=(*found[-1].details, note))
            continue
        name = _HOST_NAME.fullmatch(one.path)
        if name is None:
            found.append(one)
        elif name[1] not in names:  # the rest is about the same
            names.append(name[1])
            have = ", ".join(kernel_names(source.text)) or "none"
            found.append(
                Diagnostic(
                    "error",
                    f"no kernel fits the name expression {name[1]!r} (the code has: {have}): "
                    f"{one.message}",
                )
            )
    return tuple(found)


def source_line(source: CudaSource, path: str, line: int) -> str:
    """Return the line of a source that ``#line`` directives put at a place, or of a header."""
    found = _source_lines(source).line(path, line)
    if found:
        return found
    text = next((one.text for one in source.headers if one.name == path), "")
    return next(iter(text.splitlines()[line - 1 : line]), "")


def _blocks(log: str) -> Iterator[list[str]]:
    """Yield each message's lines; a line that begins no message is part of the one before."""
    block: list[str] = []
    for line in log.splitlines():
        if not line.strip() or _SUMMARY.fullmatch(line):
            if block and not line.strip():
                yield block
                block = []
            continue
        if block and any(form.fullmatch(line) for form in _FORMS):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _unknown(found: list[Diagnostic], block: list[str]) -> None:
    """Keep lines in no known form: advice on the error before, or an error of their own."""
    text = " ".join(line.strip() for line in block)
    if found:
        hint = f"{found[-1].hint} {text}".strip()
        found[-1] = replace(found[-1], hint=hint)
    else:
        found.append(Diagnostic("error", text))


def _message(form: Mapping[str, str | None]) -> str:
    message = form["message"] or ""
    if form.get("tool"):
        return f"{form['tool']}: {message}"
    assertion = _ASSERTION.fullmatch(message)
    said = (assertion[1] or assertion[2]) if assertion else None
    return said.replace('\\"', '"') if said else message


def _diagnostic(form: Mapping[str, str | None], rest: list[str], text: _Text) -> Diagnostic:
    path, line = form["path"] or "", int(form.get("line") or 0)
    severity = form["severity"] or "error"
    shown, column, others = _shown(rest, int(form.get("column") or 0))
    original = text.line(path, line, shown)
    if form.get("column"):
        shown = original or shown
    column = _characters(shown, column)
    if original:
        column = _moved(shown, column, original)
        shown = original
    return Diagnostic(
        severity=_SEVERITY.get(severity, severity),
        message=_message(form),
        path=path,
        line=line,
        column=column,
        source_line=shown,
        kernel=text.kernels.get((path, line), ""),
        code=form.get("code") or "",
        details=tuple(line.strip() for line in others if not _GUTTER.match(line)),
    ).at_word()


def _shown(rest: list[str], column: int) -> tuple[str, int, list[str]]:
    """Return the line that a compiler repeats, the column of its caret, and all other lines."""
    for number in range(1, len(rest)):
        line, marks = rest[number - 1], rest[number]
        if not _CARET.fullmatch(marks):
            continue
        others = [*rest[: number - 1], *rest[number + 1 :]]
        gutter = _GUTTER.match(line)
        if gutter and column:  # clang's "   14 | code"; the message has the column
            return line[gutter.end() :], column, others
        return line[2:], max(1, marks.index("^") - 1), others
    return "", column, rest


def _moved(shown: str, column: int, original: str) -> int:
    """Return the column in a line of the one in that line as the compiler repeats it."""
    if shown == original or not column:
        return column
    word = _WORD.match(shown, column - 1)
    if word is None:
        return 0
    same = [match.start() for match in re.finditer(rf"\b{word[0]}\b", shown[: word.end()])]
    places = [match.start() + 1 for match in re.finditer(rf"\b{word[0]}\b", original)]
    return places[min(len(same), len(places)) - 1] if same and places else 0


def _characters(line: str, column: int) -> int:
    """Return a column counted in bytes as one counted in characters."""
    return len(line.encode()[: max(0, column - 1)].decode(errors="ignore")) + 1 if column else 0


@functools.lru_cache(maxsize=8)
def _source_lines(source: CudaSource) -> _Text:
    lines: dict[tuple[str, int], tuple[str, ...]] = {}
    kernels: dict[tuple[str, int], str] = {}
    for name, body in ((source.name, source.text), *((h.name, h.text) for h in source.headers)):
        path, number, kernel = name, 1, ""
        for line in body.splitlines():
            directive = _LINE.match(line)
            if directive:
                path, number = unescaped(directive[2]), int(directive[1])
                continue
            section = _SECTION.match(line)
            kernel = section[1] or "" if section else kernel
            place = path, number
            lines[place] = (*lines.get(place, ()), line)
            if kernel:
                kernels.setdefault(place, kernel)
            number += 1
    return _Text(lines, kernels)
