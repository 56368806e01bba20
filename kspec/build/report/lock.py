"""``kspec.lock``: the compiler's results for every kernel, as text that is committed and reviewed.

::

    lock-version = 1

    [norms.l2norm]
    compiler = "nvrtc V13.0.88 CL-36424714"
    source = "5f0c..."
    specializations = [
      { name = "l2norm<float, kspec::Lines>", arch = "sm_90", registers = 40, spills = 0, ... },
    ]

A line for each specialization and architecture, so that a diff of git says which kernel got
larger.  Builds for all configured architectures write it and no build reads it, so compiled
images do not depend on it.  It is TOML like the other files of a project.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kspec.build.images import Built
from kspec.build.plan import BuildPlan, Unit, make_unit
from kspec.compiler.headers import carry_headers
from kspec.cpp.directives import without_line_directives
from kspec.errors import ManifestError
from kspec.files import explain, read_regular
from kspec.model.manifest import ImageEntry
from kspec.model.stages import CudaSource, Figures
from kspec.model.toml import toml_key, toml_value
from kspec.render import specializations
from kspec.spec.models import Spec

VERSION = 1
FILE_NAME = "kspec.lock"
_HEAD = "# What `kspec build` compiled. It writes this file; commit it, and read the diff.\n"
# Keys of a row, in this order, and the figures that they are.
_FIGURES = {
    "registers": "registers",
    "spills": "spill_bytes",
    "stack": "local_bytes",
    "shared": "shared_bytes",
    "bytes": "code_bytes",
}


@dataclass(frozen=True)
class LockRow:
    """One specialization for one architecture; PTX has no figures.

    Attributes
    ----------
    name : str
        Name expression.
    arch : str
        ``"sm_90"`` or ``"compute_80"``.
    figures : Figures
        What the compiler said; -1 where it did not.
    """

    name: str
    arch: str
    figures: Figures = field(default_factory=Figures)

    @property
    def numbers(self) -> dict[str, int]:
        """The figures that are known, by their name in the file."""
        found = {key: getattr(self.figures, name) for key, name in _FIGURES.items()}
        return {key: number for key, number in found.items() if number >= 0}


@dataclass(frozen=True)
class LockedKernel:
    """Everything that was compiled of one kernel.

    Attributes
    ----------
    module, name : str
        Stem of its spec file, and its name.
    compiler : str
        Exact version of its compiler.
    source : str
        Digest of its CUDA text, headers and options; where its spec stands in a file, and what
        else is in there, does not matter.
    rows : tuple of Row
        By specialization, then by architecture.
    """

    module: str
    name: str
    compiler: str
    source: str
    rows: tuple[LockRow, ...]

    @property
    def key(self) -> tuple[str, str]:
        """Module and name."""
        return self.module, self.name


@dataclass(frozen=True)
class Lock:
    """The whole file."""

    kernels: tuple[LockedKernel, ...] = ()

    @property
    def compilers(self) -> tuple[str, ...]:
        """Every compiler that made something."""
        return tuple(sorted({kernel.compiler for kernel in self.kernels}))

    @property
    def rows(self) -> Iterator[tuple[LockedKernel, LockRow]]:
        """Every row, with its kernel."""
        return ((kernel, row) for kernel in self.kernels for row in kernel.rows)


def make_lock(plan: BuildPlan, images: Mapping[str, Built]) -> Lock:
    """Return the lock of a build: `images` by stem, as of `kspec.build.images.build_images`."""
    kernels = []
    for unit in plan.units:
        if unit.stem not in images:
            continue
        entry = images[unit.stem].entry
        for kernel in _kernels(unit, plan, entry.compiler):
            rows = tuple(_compiled(row, entry) for row in kernel.rows)
            kernels.append(replace(kernel, rows=rows))
    return Lock(tuple(kernels))


def expected_lock(plan: BuildPlan, known: Lock) -> Lock:
    """Return the lock of a plan as far as that can be said without a compiler.

    Compilers and figures are those of `known`, where it has them.
    """
    before = {kernel.key: kernel for kernel in known.kernels}
    kernels = []
    for unit in plan.units:
        for kernel in _kernels(unit, plan, ""):
            old = before.get(kernel.key, kernel)
            rows = {(row.name, row.arch): row for row in old.rows}
            kept = tuple(rows.get((row.name, row.arch), row) for row in kernel.rows)
            kernels.append(replace(kernel, compiler=old.compiler, rows=kept))
    return Lock(tuple(kernels))


def dump(lock: Lock) -> str:
    """Return the text of a lock; ``load(dump(lock)) == lock``."""
    parts = [f"{_HEAD}lock-version = {VERSION}\n"]
    for kernel in lock.kernels:
        rows = "".join(f"  {_row_text(row)},\n" for row in kernel.rows)
        parts.append(
            f"\n[{toml_key(kernel.module)}.{toml_key(kernel.name)}]\n"
            f"compiler = {toml_value(kernel.compiler)}\n"
            f"source = {toml_value(kernel.source)}\n"
            f"specializations = [\n{rows}]\n"
        )
    return "".join(parts)


def load(text: str, path: str = FILE_NAME) -> Lock:
    """Return the lock in a text.

    Raises
    ------
    ManifestError
        If it is damaged, or was written by a newer kspec; `path` is named.
    """
    try:
        data = tomllib.loads(text)
        version = data.pop("lock-version")
        if version > VERSION:
            raise ManifestError(
                f"{path} has version {version}, this kspec knows {VERSION}: upgrade kspec"
            )
        return Lock(
            tuple(
                LockedKernel(
                    module, name, one["compiler"], one["source"], _rows(one["specializations"])
                )
                for module, kernels in data.items()
                for name, one in kernels.items()
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"{path} is damaged ({error!r}); run `kspec build` again") from error


def read_lock(project: Path) -> Lock | None:
    """Return the lock of a project, or None if it has none; errors as for `load`."""
    try:
        text = read_regular(project / FILE_NAME).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ManifestError(f"{FILE_NAME} cannot be read: {explain(error)}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{FILE_NAME} is damaged ({error}); run `kspec build`") from error
    return load(text)


def source_digest(source: CudaSource) -> str:
    """Return the digest of a source, wherever its lines come from."""
    source = carry_headers(source)
    content = {
        "text": without_line_directives(source.text),
        "headers": sorted([header.name, header.text] for header in source.headers),
        "options": source.options,
        "backend": source.backend,
    }
    encoded = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:32]


def _kernels(unit: Unit, plan: BuildPlan, compiler: str) -> Iterator[LockedKernel]:
    """Yield the kernels of a unit that are precompiled, with rows that have no figures."""
    for spec in unit.spec_file.specs:
        names = dict.fromkeys(one.name_expression for one in specializations(spec))
        if names:
            rows = tuple(LockRow(name, arch) for name in names for arch in _archs(plan))
            yield LockedKernel(unit.stem, spec.name, compiler, _digest(unit, spec, plan), rows)


def _compiled(row: LockRow, entry: ImageEntry) -> LockRow:
    figures = entry.figures.get(row.arch, {}).get(row.name, Figures())
    return replace(row, figures=replace(figures, constant_bytes=-1))  # many do not say


def _digest(unit: Unit, spec: Spec, plan: BuildPlan) -> str:
    alone = make_unit(plan.settings, replace(unit.spec_file, specs=(spec,)))
    return source_digest(alone.source)


def _archs(plan: BuildPlan) -> Iterable[str]:
    return (target.arch for target in plan.settings.configured)


def _rows(tables: Iterable[Mapping[str, Any]]) -> tuple[LockRow, ...]:
    return tuple(
        LockRow(
            table["name"],
            table["arch"],
            Figures(**{name: table[key] for key, name in _FIGURES.items() if key in table}),
        )
        for table in tables
    )


def _row_text(row: LockRow) -> str:
    return toml_value({"name": row.name, "arch": row.arch, **row.numbers})
