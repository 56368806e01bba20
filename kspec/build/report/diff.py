"""Changes between two states of a generated package: two `Snapshot` in, a `Difference` out.

`kspec.build.report.revisions` makes snapshots, `kspec.build.report.diff_view` prints differences.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from kspec.build.report.changes import ReviewChange, review_changes
from kspec.build.report.lock import LockRow
from kspec.build.report.revisions import Snapshot
from kspec.cpp.directives import without_line_directives
from kspec.dataclass import dataclass
from kspec.model.declaration import Declaration, ElementwiseDeclaration, RawDeclaration
from kspec.model.manifest import ImageEntry, ModuleEntry

# Kernel with its module, name expression, architecture.
_Place = tuple[str, str, str]


@dataclass(frozen=True)
class SignatureChange:
    """A kernel that is declared otherwise; `before` or `after` is empty where there was none."""

    kernel: str
    before: str
    after: str


@dataclass(frozen=True)
class CoverageChange:
    """Specializations of one kernel that are compiled in addition, or no longer."""

    kernel: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class FigureChange:
    """One specialization for one architecture, whose figures differ; by their names in the lock."""

    kernel: str
    name: str
    arch: str
    before: Mapping[str, int]
    after: Mapping[str, int]

    def delta(self, key: str) -> int:
        """Return the growth of a figure; 0 if one side does not know it."""
        if key not in self.before or key not in self.after:
            return 0
        return self.after[key] - self.before[key]


@dataclass(frozen=True)
class TextChange:
    """A CUDA file, with a unified diff; what only stands elsewhere in its spec is left out."""

    file: str
    diff: str


@dataclass(frozen=True)
class Difference:
    """Everything that changed."""

    before: Snapshot
    after: Snapshot
    compilers: tuple[tuple[str, ...], tuple[str, ...]]
    archs_added: tuple[str, ...]
    archs_removed: tuple[str, ...]
    signatures: tuple[SignatureChange, ...]
    coverage: tuple[CoverageChange, ...]
    figures: tuple[FigureChange, ...]
    texts: tuple[TextChange, ...]
    reviews: tuple[ReviewChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        found = (self.archs_added, self.archs_removed, self.signatures, self.coverage)
        same_compiler = self.compilers[0] == self.compilers[1]
        return same_compiler and not any((*found, self.figures, self.texts, self.reviews))


def compare(before: Snapshot, after: Snapshot) -> Difference:
    """Return the differences."""
    archs = _archs(before), _archs(after)
    return Difference(
        before,
        after,
        compilers=(_compilers(before), _compilers(after)),
        archs_added=tuple(one for one in archs[1] if one not in archs[0]),
        archs_removed=tuple(one for one in archs[0] if one not in archs[1]),
        signatures=tuple(_signatures(before, after)),
        coverage=tuple(_coverage(before, after)),
        figures=tuple(_figures(before, after)),
        texts=tuple(_texts(before, after)),
        reviews=tuple(review_changes(before.lock, after.lock)),
    )


def difference_data(found: Difference) -> dict[str, Any]:
    """Return a difference as JSON has it."""
    sides = found.before, found.after
    return {
        "revisions": [{"name": one.name, "commit": one.commit} for one in sides],
        "compilers": [list(one) for one in found.compilers],
        "archs": {"added": list(found.archs_added), "removed": list(found.archs_removed)},
        "signatures": [vars(one) for one in found.signatures],
        "coverage": [
            {"kernel": one.kernel, "added": list(one.added), "removed": list(one.removed)}
            for one in found.coverage
        ],
        "figures": [
            {
                "kernel": one.kernel,
                "specialization": one.name,
                "arch": one.arch,
                "before": dict(one.before),
                "after": dict(one.after),
            }
            for one in found.figures
        ],
        "reviews": [
            {
                "kernel": one.kernel,
                "gpu": one.gpu,
                "arguments": list(one.arguments),
                "before": dict(one.before),
                "after": dict(one.after),
            }
            for one in found.reviews
        ],
        "cuda": [vars(one) for one in found.texts],
    }


def signature_of(kernel: Declaration) -> str:
    """Return the declaration of a kernel in one line."""
    if isinstance(kernel, RawDeclaration):
        return f"raw {kernel.signature}"
    text = f"{kernel.kind} ({kernel.inputs}) -> ({kernel.outputs})"
    if isinstance(kernel, ElementwiseDeclaration) and kernel.windows:
        text += f", windows {', '.join(map(str, kernel.windows))}"
    if isinstance(kernel, ElementwiseDeclaration) and kernel.given_sizes:
        text += f", sizes {', '.join(name for name, _ in kernel.given_sizes)}"
    return text


def _archs(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arch for image in _images(snapshot) for arch in image.archs))


def _compilers(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(sorted({image.compiler for image in _images(snapshot)}))


def _images(snapshot: Snapshot) -> Iterator[ImageEntry]:
    return (image for module in snapshot.manifest.modules for image in module.images)


def _kernels(snapshot: Snapshot) -> dict[str, tuple[ModuleEntry, Declaration]]:
    return {
        f"{module.stem}.{kernel.name}": (module, kernel)
        for module in snapshot.manifest.modules
        for kernel in module.kernels
    }


def _signatures(before: Snapshot, after: Snapshot) -> Iterator[SignatureChange]:
    sides = [
        {name: signature_of(kernel) for name, (_, kernel) in _kernels(one).items()}
        for one in (before, after)
    ]
    for name in sorted({*sides[0], *sides[1]}):
        old, new = (side.get(name, "") for side in sides)
        if old != new:
            yield SignatureChange(name, old, new)


def _coverage(before: Snapshot, after: Snapshot) -> Iterator[CoverageChange]:
    sides = _precompiled(before), _precompiled(after)
    for kernel in sorted({*sides[0], *sides[1]}):
        old, new = (side.get(kernel, ()) for side in sides)
        if set(old) != set(new):
            added = tuple(name for name in new if name not in old)
            yield CoverageChange(kernel, added, tuple(name for name in old if name not in new))


def _precompiled(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """Return the name expressions that a build compiles, by kernel."""
    found = {}
    for title, (module, kernel) in _kernels(snapshot).items():
        own = kernel.name_expressions if isinstance(kernel, RawDeclaration) else ()
        names = (
            name
            for name in module.precompiled
            if (name in own if own else name.partition("<")[0] == kernel.name)
        )
        found[title] = tuple(names)
    return found


def _figures(before: Snapshot, after: Snapshot) -> Iterator[FigureChange]:
    old, new = _rows(before), _rows(after)
    for place, numbers in new.items():
        known = old.get(place)
        if known and numbers and any(numbers[key] != known[key] for key in known.keys() & numbers):
            yield FigureChange(*place, known, numbers)


def _rows(snapshot: Snapshot) -> dict[_Place, dict[str, int]]:
    """Return the figures of a package: of its lock, or of its manifest if that is older."""
    if snapshot.lock is not None:
        return {
            (f"{kernel.module}.{kernel.name}", row.name, row.arch): row.numbers
            for kernel, row in snapshot.lock.rows
        }
    kernels = {
        (title.partition(".")[0], name): title
        for title, names in _precompiled(snapshot).items()
        for name in names
    }
    return {
        (kernels[module.stem, name], name, arch): LockRow(name, arch, figures).numbers
        for module in snapshot.manifest.modules
        for image in module.images
        for arch, found in image.figures.items()
        for name, figures in found.items()
        if (module.stem, name) in kernels
    }


def _texts(before: Snapshot, after: Snapshot) -> Iterator[TextChange]:
    for file in sorted({*before.texts, *after.texts}):
        old, new = (_lines(one.texts.get(file, "")) for one in (before, after))
        if old == new:
            continue
        name, other = (
            f"{file} ({one.name})" if file in one.texts else "/dev/null" for one in (before, after)
        )
        yield TextChange(file, "".join(difflib.unified_diff(old, new, name, other)))


def _lines(text: str) -> list[str]:
    lines = without_line_directives(text).splitlines(keepends=True)
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]
