"""Specializations that a program asked for, compared with those that the specs precompile.

::

    folder = records_folder(project)
    status = run_traced(["pytest", "-q"], folder)        # every process writes there what it asks
    traces = compare(specs, read_records(folder, "toy_kernels"))
    changes = propose(settings, traces)                  # the spec files, as they should be

`kspec.runtime.kernels.tracing` writes the records; `kspec.spec.document.edit` changes the text of
a spec file.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from kspec import config
from kspec.build.atomic_replace import write_whole
from kspec.build.settings import Settings
from kspec.dataclass import dataclass
from kspec.errors import SpecError, ToolNotFoundError
from kspec.files import resolved
from kspec.model.coverage import (
    Binding,
    Types,
    binding_text,
    layout_text,
    layouts_of,
    parse_layout,
    types_text,
    widened,
)
from kspec.model.declaration import GeneratedDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE, form_of
from kspec.model.neighbours.windows import BoundSizes
from kspec.spec.document.edit import append_values, comments_of, remove_values, set_value
from kspec.spec.document.positions import Path as TomlPath
from kspec.spec.document.positions import scan_positions
from kspec.spec.fields import dtype_of
from kspec.spec.loader import SpecFile, load_specs
from kspec.spec.models import ElementwiseSpec, RawSpec, Spec
from kspec.toml import toml_value

_MANY = 3  # places that are named


@dataclass(frozen=True)
class Record:
    """One line of a trace: a kernel that a process has looked up for the first time."""

    module: str
    kernel: str
    binding: Binding
    layout: str
    expression: str
    device: str
    call: str
    sizes: BoundSizes = ()

    @property
    def form(self) -> str:
        """Form of the reduction that was called."""
        return form_of(parse_layout(self.layout)[0])


@dataclass(frozen=True)
class Want:
    """Something that was asked for: how often it was looked up, and from where."""

    text: str
    count: int
    calls: tuple[str, ...]

    def __str__(self) -> str:
        times = "once" if self.count == 1 else f"{self.count} times"
        more = ", ..." if len(self.calls) > _MANY else ""
        return f"{self.text}: {times}, from {', '.join(self.calls[:_MANY])}{more}"


@dataclass(frozen=True)
class KernelTrace:
    """One kernel: used specializations that are not precompiled, and unused ones that are.

    Attributes
    ----------
    spec_file : SpecFile
        Where it is declared.
    spec : Spec
        The kernel.
    called : bool
        Whether it was asked for at all.
    bindings, expressions, layouts, sizes, forms : tuple
        Those that were asked for; of forms and layouts those that the build does not compile.
    missing : tuple of Want
        Those of them that the build does not compile.
    unused : tuple of str
        Those that the spec lists and no call used.
    """

    spec_file: SpecFile
    spec: Spec
    called: bool
    bindings: tuple[Binding, ...] = ()
    expressions: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    missing: tuple[Want, ...] = ()
    unused: tuple[str, ...] = ()
    sizes: tuple[BoundSizes, ...] = ()
    forms: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Module and kernel."""
        return f"{self.spec_file.stem}.{self.spec.name}"


@dataclass(frozen=True)
class Change:
    r"""A spec file as it is and as it should be; lines end in ``\n``."""

    path: Path
    name: str
    before: str = field(repr=False)
    after: str = field(repr=False)

    def diff(self) -> str:
        """Return the change for people."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            self.name,
            self.name,
            n=1,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def records_folder(project: Path) -> Path:
    """Return the folder of the records of a project's last trace."""
    digest = hashlib.sha256(os.fsencode(resolved(project))).hexdigest()[:16]
    return config.cache_dir() / "traces" / digest


def run_traced(command: Sequence[str], folder: Path) -> int:
    """Run a command and return its exit status; it and its children write records to a folder.

    Raises
    ------
    ToolNotFoundError
        If there is no such program.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        process = subprocess.Popen(command, env=config.tracing_environment(folder))
    except OSError as error:
        raise ToolNotFoundError(f"{command[0]}: {error.strerror}") from error
    while True:
        # An interrupt reaches the command too, which may take its time.
        with contextlib.suppress(KeyboardInterrupt):
            status = process.wait()
            return status if status >= 0 else 128 - status


def read_records(folder: Path, package: str) -> tuple[Record, ...]:
    """Return the requests of a trace's processes to a package; broken lines are left out."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                data = json.loads(line)
                if data.pop("package") == package:
                    binding = tuple((str(a), str(b)) for a, b in data.pop("binding"))
                    sizes = tuple((str(a), int(b)) for a, b in data.pop("sizes", ()))
                    found.append(Record(binding=binding, sizes=sizes, **data))
    return tuple(found)


def compare(files: Iterable[SpecFile], records: Sequence[Record]) -> tuple[KernelTrace, ...]:
    """Return the trace of each kernel of some spec files, in their order."""
    return tuple(
        _raw_trace(file, spec, records)
        if isinstance(spec, RawSpec)
        else _generated_trace(file, spec, records)
        for file in files
        for spec in file.specs
        # What computes gradients follows the types of the kernel in front.
        if not (isinstance(spec, ElementwiseSpec) and spec.forward)
    )


def devices_of(records: Iterable[Record]) -> tuple[str, ...]:
    """Return the architectures that kernels ran on, ``host`` among them."""
    return tuple(sorted({record.device for record in records}))


def propose(
    settings: Settings, traces: Sequence[KernelTrace], prune: bool = False
) -> tuple[Change, ...]:
    """Return the spec files that would have to change for all that was asked to be precompiled.

    Parameters
    ----------
    settings : Settings
        Of the project.
    traces : sequence of KernelTrace
        As `compare` returns them.
    prune : bool
        Remove unused specializations of called kernels.
    """
    changes = []
    files = {trace.spec_file.path: trace.spec_file for trace in traces}
    for name in files:
        path = settings.project / name
        before = path.read_bytes().decode("utf-8").replace("\r\n", "\n")
        after = before
        for trace in traces:
            if trace.spec_file.path == name and trace.called:
                after = _edited(after, trace, prune)
        if after != before:
            changes.append(Change(path, name, before, after))
    return tuple(changes)


def apply(settings: Settings, changes: Iterable[Change]) -> None:
    """Write changes; if the specs are not accepted then, none of them.

    Raises
    ------
    SpecError
        If a file has changed since, or the new ones are wrong.
    """
    written: dict[Path, bytes] = {}
    try:
        for change in changes:
            path = resolved(change.path)
            old = path.read_bytes()
            if old.decode("utf-8").replace("\r\n", "\n") != change.before:
                raise SpecError(f"{change.name} has changed since it was read; try again")
            text = change.after.replace("\n", "\r\n") if b"\r\n" in old else change.after
            written[path] = old
            write_whole(path, text.encode())
        load_specs(settings.spec_folder, settings.project)
    except (SpecError, OSError):
        for path, old in written.items():
            write_whole(path, old)
        raise


def _generated_trace(file: SpecFile, spec: Spec, records: Sequence[Record]) -> KernelTrace:
    assert not isinstance(spec, RawSpec)
    own = [one for one in records if one.module == file.stem and one.kernel == spec.name]
    if not own:
        return KernelTrace(file, spec, False)
    letters = spec.placeholders
    declared = set(spec.bindings())
    # A package that is older than its specs may have had other placeholders.
    own = [one for one in own if tuple(letter for letter, _ in one.binding) == letters]
    bindings = tuple(dict.fromkeys(one.binding for one in own))
    missing = [_want(binding_text(b), own, "binding", b) for b in bindings if b not in declared]
    declaration, forms = _with_forms(spec.declaration(), own)
    missing += [_want(f"form {form!r}", own, "form", form) for form in forms]
    layouts: dict[str, None] = {}
    for one in own:
        usual = layouts_of(declaration, one.binding, spec.layouts)
        # The host device has fewer schedules; what it asks says little about a GPU.
        if one.device != "host" and one.layout not in {layout_text(*each) for each in usual}:
            layouts[one.layout] = None
    missing += [_want(f"layout {layout!r}", own, "layout", layout) for layout in layouts]
    known = spec.all_sizes if isinstance(spec, ElementwiseSpec) else {}
    sizes = tuple(dict.fromkeys(one.sizes for one in own if dict(one.sizes).keys() == known.keys()))
    for row in sizes:
        if any(value not in known[name] for name, value in row):
            text = ", ".join(f"{name} = {value}" for name, value in row)
            missing.append(_want(text, own, "sizes", row))
    unused = [*_unused(spec.types, set(bindings)), *_unused_sizes(known, sizes)]
    return KernelTrace(
        file, spec, True, bindings, (), tuple(layouts), tuple(missing), tuple(unused), sizes, forms
    )


def _with_forms(
    declaration: GeneratedDeclaration, records: Iterable[Record]
) -> tuple[GeneratedDeclaration, tuple[str, ...]]:
    """Return a declaration with all forms that were asked for, and those that it did not have."""
    if not isinstance(declaration, ReductionDeclaration):
        return declaration, ()
    known = (REDUCE, *declaration.forms)
    asked = dict.fromkeys(one.form for one in records)
    new = tuple(form for form in asked if form not in known)
    return replace(declaration, forms=(*declaration.forms, *new)), new


def _raw_trace(file: SpecFile, spec: RawSpec, records: Sequence[Record]) -> KernelTrace:
    expressions = spec.declaration().name_expressions
    stems = {one.partition("<")[0] for one in expressions}
    own = [
        one
        for one in records
        if one.module == file.stem
        and not one.kernel
        and (one.expression in expressions or (one.binding and _stem(one) in stems))
    ]
    asked = tuple(dict.fromkeys(one.expression for one in own))
    missing = [_want(one, own, "expression", one) for one in asked if one not in expressions]
    unused = [one for one in expressions if one not in asked and own]
    return KernelTrace(file, spec, bool(own), (), asked, (), tuple(missing), tuple(unused))


def _stem(record: Record) -> str:
    return record.expression.partition("<")[0]


def _want(text: str, records: Iterable[Record], attribute: str, value: object) -> Want:
    calls = Counter(one.call for one in records if getattr(one, attribute) == value)
    return Want(text, calls.total(), tuple(call for call, _ in calls.most_common()))


def _unused(types: Types, used: set[Binding]) -> Iterator[str]:
    """Yield the entries of `types` that no binding uses."""
    if isinstance(types, Mapping):
        for letter, names in types.items():
            seen = {dict(binding)[letter] for binding in used}
            yield from (f"{letter} = {name}" for name in names if name not in seen)
    else:
        rows = {frozenset(binding) for binding in used}
        yield from (
            binding_text(tuple(row.items())) for row in types if frozenset(row.items()) not in rows
        )


def _unused_sizes(known: Mapping[str, Sequence[int]], used: Iterable[BoundSizes]) -> Iterator[str]:
    """Yield the values of integer placeholders that no call gave."""
    seen = {pair for row in used for pair in row}
    for name, values in known.items():
        yield from (f"{name} = {value}" for value in values if (name, value) not in seen)


def _edited(text: str, trace: KernelTrace, prune: bool) -> str:
    spec = trace.spec
    table: TomlPath = (spec.kind, spec.name)
    if isinstance(spec, RawSpec):
        return _edited_names(text, table, spec, trace, prune)
    new = widened(spec.types, spec.placeholders, trace.bindings) if spec.placeholders else {}
    idle = prune and any(_unused(spec.types, set(trace.bindings)))
    if spec.placeholders and (new != spec.types or idle):
        text = _with_types(text, table, spec.types, new, set(trace.bindings) if prune else None)
    if trace.forms and _has_value(text, (*table, "forms")):
        text = append_values(text, (*table, "forms"), [toml_value(one) for one in trace.forms])
    elif trace.forms:
        text = set_value(text, table, "forms", toml_value([REDUCE, *trace.forms]))
    layouts = [toml_value(one) for one in trace.layouts]
    if layouts and spec.layouts:
        text = append_values(text, (*table, "layouts"), layouts)
    elif layouts:
        text = set_value(text, table, "layouts", f"[{', '.join(layouts)}]")
    if isinstance(spec, ElementwiseSpec):
        text = _with_all_sizes(text, table, spec, trace.sizes, prune)
    return text


def _with_all_sizes(
    text: str, table: TomlPath, spec: ElementwiseSpec, rows: Sequence[BoundSizes], prune: bool
) -> str:
    """Change the precompiled values of integer placeholders, core dimensions among them."""
    asked = {name: list(dict.fromkeys(dict(row)[name] for row in rows)) for name in spec.all_sizes}
    if spec.all_sizes and not spec.sizes and rows:  # nothing lists core dimensions so far
        return set_value(text, table, "sizes", toml_value(asked))
    for name, known in spec.all_sizes.items():
        path = (*table, "sizes", name)
        if name in spec.sizes:
            text = _with_sizes(text, path, known, asked[name], prune)
        elif asked[name]:
            text = set_value(text, path[:-1], name, toml_value(asked[name]))
    return text


def _with_sizes(
    text: str, path: TomlPath, known: Sequence[int], asked: Sequence[int], prune: bool
) -> str:
    """Change the precompiled values of an integer placeholder."""
    wanted = [*known, *(one for one in asked if one not in known)]
    if prune and asked:
        wanted = [one for one in wanted if one in asked]
    if wanted == list(known):
        return text
    if isinstance(_value_at(text, path), int):  # one value without brackets
        return set_value(text, path[:-1], str(path[-1]), toml_value(wanted))
    text = append_values(text, path, [str(one) for one in wanted if one not in known])
    gone = [k for k, one in enumerate(_value_at(text, path)) if one not in wanted]
    return remove_values(text, path, gone)


def _value_at(text: str, path: TomlPath) -> Any:
    value: Any = tomllib.loads(text)
    for key in path:
        value = value[key]
    return value


def _edited_names(
    text: str, table: TomlPath, spec: RawSpec, trace: KernelTrace, prune: bool
) -> str:
    listed = spec.name_expressions
    more = [one for one in trace.expressions if one not in listed]
    if listed and more:
        path = (*table, "name_expressions")
        text = append_values(text, path, [toml_value(one) for one in more])
    if prune and listed:
        gone = [k for k, one in enumerate(listed) if one in trace.unused]
        text = remove_values(text, (*table, "name_expressions"), gone)
    return text


def _with_types(
    text: str, table: TomlPath, old: Types, new: Types, kept: set[Binding] | None
) -> str:
    """Change ``types`` where it differs, so that its layout and comments stay."""
    path = (*table, "types")
    if (
        isinstance(old, Mapping)
        and old
        and (isinstance(new, Mapping) or not _has_value(text, path))
    ):
        for letter in old:
            wanted = new[letter] if isinstance(new, Mapping) else _column(new, letter)
            used = None if kept is None else {dict(binding)[letter] for binding in kept}
            text = _with_list(text, (*path, letter), wanted, used)
        return text
    if not isinstance(old, Mapping) and old and not isinstance(new, Mapping):
        text = append_values(text, path, [toml_value(row) for row in new[len(old) :]])
        rows = set() if kept is None else {frozenset(binding) for binding in kept}
        gone = [k for k, row in enumerate(old) if frozenset(row.items()) not in rows]
        return remove_values(text, path, gone if rows else [])
    if kept:
        new = (
            tuple(row for row in new if tuple(row.items()) in kept)
            if isinstance(new, tuple)
            else new
        )
    value = types_text(new)
    if _has_value(text, path):
        value = value.replace("[", "\n    ".join(["[", *comments_of(text, path)]), 1)
    return set_value(text, table, "types", value)


def _has_value(text: str, path: TomlPath) -> bool:
    span = scan_positions(text).get(path)
    return span is not None and span.value_start >= 0


def _column(rows: Types, letter: str) -> tuple[str, ...]:
    assert not isinstance(rows, Mapping)
    return tuple(dict.fromkeys(row[letter] for row in rows))


def _with_list(text: str, path: TomlPath, wanted: Sequence[str], used: set[str] | None) -> str:
    value = _value_at(text, path)
    if not isinstance(value, list):  # one dtype without brackets
        names = [name for name in wanted if used is None or name in used]
        return set_value(text, path[:-1], str(path[-1]), toml_value(names))
    listed = [dtype_of(one) for one in value]
    text = append_values(text, path, [toml_value(one) for one in wanted if one not in listed])
    gone = [] if used is None else [k for k, one in enumerate(listed) if one not in used]
    return remove_values(text, path, gone)
