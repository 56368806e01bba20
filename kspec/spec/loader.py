"""Spec files: TOML in, checked specs out, or every problem of every file at once.

::

    specs/norms.toml:5:11: error: unknown type 'flaot32'; expected one of ...
        inputs = ["flaot32 x"]
                   ^^^^^^^

The models are in `kspec.spec.models`, the positions come from `kspec.spec.document.positions`; the
renderer takes `SpecFile` and points the compiler at its `lines`.
"""

from __future__ import annotations

import difflib
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from kspec import limits
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic, by_place, unknown_key
from kspec.errors import DuplicateKernelError, SpecError
from kspec.files import resolved
from kspec.spec import rules
from kspec.spec.ambiguous import ambiguous_types
from kspec.spec.building import check_spec
from kspec.spec.document import versions
from kspec.spec.document.positions import (
    Lines,
    Span,
    content_lines,
    content_offsets,
    document_text,
    scan_positions,
)
from kspec.spec.document.problems import SpecFileError as SpecFileError
from kspec.spec.document.problems import problem_at, toml_problem
from kspec.spec.faults import Fault
from kspec.spec.gradients.kernels import assignment, gradient_spec, kernel_faults
from kspec.spec.models import MODELS, ElementwiseSpec, RawSpec, Spec
from kspec.spec.struct_tables import Struct, struct_dtype

# A dotted key of more parts than anything can be nested, of which tomllib makes a table each.
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
_LONG_KEY = re.compile(
    rf"^[ \t]*\[*[ \t]*{_PART}(?:\.[ \t]*{_PART}){{{limits.NESTING}}}", re.MULTILINE
)
_DUPLICATE = "duplicate-kernel"
_AMBIGUOUS = "ambiguous-type"
_TOP_LEVEL = ("doc", versions.KEY, "structs", *MODELS)
_TOO_DEEP = f"tables and lists are nested more than {limits.NESTING} deep"


@dataclass(frozen=True)
class SpecFile:
    """One spec file.

    Attributes
    ----------
    stem : str
        Name of the generated module.
    path : str
        Relative to the project, with forward slashes.
    doc : str
        Documentation of the generated module.
    specs : tuple of Spec
        In the order of the file.
    lines : mapping of (str, str) to int
        Kernel name and field to the line on which the content of its value begins; for the
        field ``name``, to the line of the table's header. ``params.0`` is the first of a list,
        ``budget.registers`` a key of a table.
    rows : mapping of (str, str) to tuple of int
        The line of each line of a value, where escapes or continued lines make them differ from
        counting on.
    structs : tuple of Struct
        C++ structs that its raw kernels take.
    warnings : tuple of Diagnostic
        What is accepted, but may mean something else than it seems to.
    """

    stem: str
    path: str
    doc: str
    specs: tuple[Spec, ...]
    lines: Mapping[tuple[str, str], int] = field(repr=False)
    rows: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict, repr=False)
    structs: tuple[Struct, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    def param_lines(self, kernel: str, count: int) -> tuple[int, ...]:
        """Return the line of each of the `count` parameters of a raw kernel, or that of all."""
        single = self.lines[kernel, "params"]
        lines = [self.lines.get((kernel, f"params.{number}"), 0) for number in range(count + 1)]
        listed = count and all(lines[:count]) and not lines[count]
        return tuple(lines[:count]) if listed else (single,)


class DuplicateKernelFileError(SpecFileError, DuplicateKernelError):
    """The only problem of some spec files is that kernels share a name."""


def load_spec_file(path: Path, root: Path) -> SpecFile:
    """Load one spec file.

    Parameters
    ----------
    path : Path
        The ``.toml`` file.
    root : Path
        The project's folder; paths in messages and in the result are relative to it.

    Raises
    ------
    SpecFileError
        With every problem of the file.
    """
    return _load([path], root)[0]


def load_specs(folder: Path, root: Path) -> tuple[SpecFile, ...]:
    """Load every ``*.toml`` file of a folder, sorted by name.

    Raises
    ------
    SpecFileError
        With every problem of every file; `DuplicateKernelError` too, if all of them are
        kernels that share a name.
    """
    if not folder.is_dir():
        raise SpecError(f"there is no folder {_relative(folder, root)!r} with spec files")
    return _load(sorted(folder.glob("*.toml")), root)


def _load(paths: list[Path], root: Path) -> tuple[SpecFile, ...]:
    readers = [_Reader(path, root) for path in paths]
    files = [reader.read() for reader in readers]
    _check_gradients(readers, files)
    problems = [problem for reader in readers for problem in reader.problems]
    problems += _duplicates(readers)
    if problems:
        only_duplicates = all(problem.code == _DUPLICATE for problem in problems)
        raise (DuplicateKernelFileError if only_duplicates else SpecFileError)(by_place(problems))
    return tuple(files)


def _relative(path: Path, root: Path) -> str:
    for inside, folder in ((resolved(path), resolved(root)), (path, root)):
        if inside.is_relative_to(folder):
            return inside.relative_to(folder).as_posix()
    return path.name


def _duplicates(readers: list[_Reader]) -> Iterator[Diagnostic]:
    """Report kernels, and modules on file systems that ignore case, that share a name."""
    kernels: dict[str, str] = {}
    stems: dict[str, str] = {}
    for reader in readers:
        other = stems.setdefault(reader.stem.casefold(), reader.name)
        if other != reader.name:
            yield reader.problem(0, 1, f"{other!r} differs only in case; rename one of the files")
        for kind, name in reader.kernels:
            span = reader.spans[kind, name]
            first = kernels.get(name)
            if first:
                message = (
                    f"kernel {name!r} is declared already in {first}; names are unique in a "
                    "project, so rename one of them"
                )
                length = span.key_end - span.key_start
                yield reader.problem(span.key_start, length, message, _DUPLICATE)
            else:
                kernels[name] = f"{reader.name}:{reader.lines.row(span.key_start)}"


def _check_gradients(readers: Iterable[_Reader], files: Iterable[SpecFile]) -> None:
    """Report `backward` that names a kernel which does not exist or does not fit."""
    kernels = {spec.name: spec for file in files for spec in file.specs}
    declared = {name for reader in readers for _, name in reader.kernels}
    for reader, file in zip(readers, files, strict=True):
        for spec in file.specs:
            name = spec.backward
            if not isinstance(name, str):
                continue
            if name in kernels:
                faults = kernel_faults(spec, kernels[name].declaration())
                reader.report_of(spec, faults)
            elif name not in declared:  # one that is wrong itself has been reported
                near = difflib.get_close_matches(name, kernels, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                fault = Fault(("backward",), f"no spec file declares a kernel {name!r}{hint}")
                reader.report_of(spec, [fault])


class _Reader:
    """Reads one file and collects what is wrong with it."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.root = root
        self.stem = path.stem
        self.name = _relative(path, root)
        self.text = ""
        self.lines = Lines("")
        self.spans: dict[tuple[str | int, ...], Span] = {}
        self.kernels: list[tuple[str, str]] = []
        self.derived: dict[str, Spec] = {}  # kernels made of `backward`, and what they are made of
        self.problems: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def read(self) -> SpecFile:
        document = self._parse()
        version = document.pop(versions.KEY, versions.FIRST)
        fault = versions.version_fault(version)
        if fault is not None:
            self._report(fault)
            document = {}  # what it means is not for this kspec to say
        if not self.stem.isidentifier() or rules.is_python_keyword(self.stem):
            message = f"the file makes a module, but {self.stem!r} is not a Python identifier"
            self.problems.append(self.problem(0, 1, f"{message}; rename the file"))
        doc = document.pop("doc", "")
        if not isinstance(doc, str):
            self._report(Fault(("doc",), f"must be a string, not {type(doc).__name__}"))
        for fault in rules.printable(str(doc), "doc"):
            self._report(fault)
        structs = tuple(self._structs(document.pop("structs", {})))
        specs: list[Spec] = []
        for kind, name, table in self._tables(document):
            self.kernels.append((kind, name))
            specs += self._spec(
                version, kind, name, table, {one.name: one.dtype for one in structs}
            )
        self._check_use(structs, specs)
        lines, rows = self._lines()
        warnings = tuple(self.warnings)
        return SpecFile(
            self.stem, self.name, str(doc), tuple(specs), lines, rows, structs, warnings
        )

    def _structs(self, tables: object) -> Iterator[Struct]:
        if not isinstance(tables, dict):
            self._report(Fault(("structs",), "write tables such as [structs.Point]", at_key=True))
            return
        for name, table in tables.items():
            dtype, faults = struct_dtype(name, table)
            for fault in faults:
                self._report(fault)
            if not faults:
                spans = {
                    path[2]: span
                    for path, span in self.spans.items()
                    if len(path) == 3 and path[:2] == ("structs", name)
                }
                lines = {str(key): self.lines.row(span.key_start) for key, span in spans.items()}
                line = self.lines.row(self.spans["structs", name].key_start)
                yield Struct(name, dtype, line, lines)

    def _check_use(self, structs: Iterable[Struct], specs: Iterable[Spec]) -> None:
        kernels = {name for _, name in self.kernels}
        used = {name for spec in specs if isinstance(spec, RawSpec) for name in spec.structs}
        complete = not self.problems
        for one in structs:
            if one.name in kernels:
                message = f"{one.name!r} is the name of a kernel too"
            elif complete and one.name not in used:
                message = f"no raw kernel of this file has a parameter of type {one.name!r}"
            else:
                continue
            self._report(Fault(("structs", one.name), message, at_key=True))

    def _parse(self) -> dict[str, Any]:
        try:
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                return self._refused("is not a file")
            leads_out = not resolved(self.path).is_relative_to(resolved(self.root))
            if self.path.is_symlink() and leads_out:
                return self._refused("is a link out of the project; copy the file")
            if status.st_size > limits.SPEC_BYTES:
                return self._refused(f"a spec file has at most {limits.SPEC_BYTES} bytes")
            self.text = document_text(self.path.read_bytes())
            self.lines = Lines(self.text)
            found = _LONG_KEY.search(self.text)
            if found:
                return self._refused(_TOO_DEEP, found.start())
            document = tomllib.loads(self.text)
        except OSError as error:
            self.problems.append(self.problem(0, 1, f"cannot be read: {error.strerror}"))
            return {}
        except UnicodeDecodeError as error:
            self.problems.append(self.problem(0, 1, f"not UTF-8: {error.reason}"))
            return {}
        except tomllib.TOMLDecodeError as error:
            self.problems.append(toml_problem(self.text, self.name, error))
            return {}
        except RecursionError:
            return self._refused(_TOO_DEEP)
        except ValueError as error:  # an integer of thousands of digits
            return self._refused(f"not TOML: {str(error).split(';')[0]}")
        if _is_deep(document):
            return self._refused(_TOO_DEEP)
        self.spans = scan_positions(self.text)
        return document

    def _refused(self, message: str, offset: int = 0) -> dict[str, Any]:
        self.problems.append(self.problem(offset, 1, message))
        return {}

    def _tables(self, document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the kernels' tables in the order of the file, and report anything else."""
        tables = []
        for key, section in document.items():
            if key not in MODELS:
                self._report(Fault((key,), unknown_key(key, _TOP_LEVEL), at_key=True))
            elif not isinstance(section, dict):
                self._report(Fault((key,), f"write tables such as [{key}.my_kernel]", at_key=True))
            else:
                for name, table in section.items():
                    if isinstance(table, dict):
                        tables.append((key, name, table))
                    else:
                        message = f"a kernel is a table, such as [{key}.my_kernel]"
                        self._report(Fault((key, name), message, at_key=True))
        if len(tables) > limits.KERNELS:
            self._refused(f"a spec file has at most {limits.KERNELS} kernels; divide it")
            return []
        return sorted(tables, key=lambda row: self.spans[row[:2]].key_start)

    def _spec(
        self,
        version: int,
        kind: str,
        name: str,
        table: dict[str, Any],
        structs: Mapping[str, str],
    ) -> list[Spec]:
        fields = {**table, "name": name}
        spec, faults = check_spec(MODELS[kind], fields, self.path.parent, structs)
        if spec is not None:
            faults = tuple(rules.python_names(spec.kind, name, _param_fields(spec)))
        for fault in versions.explained(version, kind, table, faults):
            # What is wrong with the name is wrong with the table's key.
            own = () if fault.location == ("name",) else fault.location
            self._report(replace(fault, location=(kind, name, *own)))
        if "name" in table:
            message = "unknown key 'name'; a kernel's name is the key of its table"
            self._report(Fault((kind, name, "name"), message, at_key=True))
        if spec is not None and not isinstance(spec, RawSpec):
            for fault in ambiguous_types(table):
                start, length = self._locate((kind, name, *fault.location), fault)
                found = self.problem(start, length, fault.message, _AMBIGUOUS)
                self.warnings.append(replace(found, severity="warning", kernel=name))
        return [] if spec is None else [spec, *self._gradients(spec)]

    def _gradients(self, spec: Spec) -> Iterator[ElementwiseSpec]:
        """Yield the kernel that a table of gradients declares."""
        if isinstance(spec, RawSpec) or not isinstance(spec.backward, Mapping):
            return
        derived, faults = gradient_spec(spec)
        self.report_of(spec, faults)
        if derived is not None:
            self.derived[derived.name] = spec
            self.kernels.append(("backward", derived.name))
            self.spans["backward", derived.name] = self.spans[spec.kind, spec.name, "backward"]
            yield derived

    def report_of(self, spec: Spec, faults: Iterable[Fault]) -> None:
        """Report faults of a spec of this file."""
        for fault in faults:
            self._report(replace(fault, location=(spec.kind, spec.name, *fault.location)))

    def _report(self, fault: Fault) -> None:
        if len(self.problems) >= limits.PROBLEMS:
            return  # more would not be read, and each has a line of the file
        start, length = self._locate(fault.location, fault)
        self.problems.append(self.problem(start, length, fault.message))

    def _locate(self, location: tuple[str | int, ...], fault: Fault) -> tuple[int, int]:
        """Return offset and length of the text at fault, as precisely as known."""
        known = location
        while known and known not in self.spans:
            known = known[:-1]
        if not known:
            return 0, 1
        span = self.spans[known]
        value = self.text[max(0, span.value_start) : max(0, span.value_end)]
        if known == location and fault.offset >= 0:
            offsets = content_offsets(self.text, span)
            if offsets:
                start = offsets[min(fault.offset, len(offsets) - 1)]
                end = offsets[min(fault.offset + fault.length, len(offsets) - 1)]
                return start, end - start
        if known == location and fault.word:
            words = list(re.finditer(rf"\b{re.escape(fault.word)}\b", value))
            if words:
                word = words[-1]  # the first may be a type placeholder of that name
                return span.value_start + word.start(), len(fault.word)
        if fault.at_key or known != location or not value:
            return span.key_start, span.key_end - span.key_start
        return span.value_start, len(value.split("\n")[0])

    def problem(self, offset: int, length: int, message: str, code: str = "") -> Diagnostic:
        return problem_at(self.lines, self.name, offset, length, message, code)

    def _lines(self) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], tuple[int, ...]]]:
        lines: dict[tuple[str, str], int] = {}
        rows: dict[tuple[str, str], tuple[int, ...]] = {}
        for path, span in self.spans.items():
            if len(path) == 3 and span.value_start >= 0:
                key = str(path[1]), str(path[2])
                starts = [line.offsets[0] for line in content_lines(self.text, span)]
                found = tuple(map(self.lines.row, starts or [span.value_start]))
                lines[key] = found[0]
                if found != tuple(range(found[0], found[0] + len(found))):
                    rows[key] = found
        for path, span in self.spans.items():
            if len(path) == 4 and path[2] in ("params", "budget"):
                lines[str(path[1]), f"{path[2]}.{path[3]}"] = self.lines.row(span.value_start)
        for kind, name in self.kernels:
            lines[name, "name"] = self.lines.row(self.spans[kind, name].key_start)
        for name, spec in self.derived.items():
            lines |= {(name, key): line for (one, key), line in lines.items() if one == spec.name}
            rows |= {(name, key): some for (one, key), some in rows.items() if one == spec.name}
            rows[name, "operation"] = tuple(self._gradient_rows(spec))
            lines[name, "operation"] = rows[name, "operation"][0]
        return lines, rows

    def _gradient_rows(self, spec: Spec) -> Iterator[int]:
        """Yield the line of each line of the expressions of gradients."""
        assert isinstance(spec.backward, Mapping)
        for name in spec.backward:
            span = self.spans[spec.kind, spec.name, "backward", name]
            found = [self.lines.row(line.offsets[0]) for line in content_lines(self.text, span)]
            lines = assignment(name, spec.backward[name]).count("\n") + 1
            yield from found + found[-1:] * (lines - len(found))


def _param_fields(spec: Spec) -> dict[str, tuple[str, ...]]:
    """Return the names of a spec's parameters by the field that declares them."""
    if spec.kind == "raw":
        declaration = spec.declaration()
        params = getattr(declaration, "params", None) or ()
        return {"params": tuple(param.name for param in params), "template": spec.size_names}
    return {field: getattr(spec, field).names for field in ("inputs", "outputs")}


def _is_deep(document: Any) -> bool:
    """Return whether tables and lists are nested more than anything that is declared."""
    level = [document]
    for _ in range(limits.NESTING):
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True
