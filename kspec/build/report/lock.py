"""``kspec.lock``: the compiler's results for every kernel, as text that is committed and reviewed.

::

    lock-version = 1

    [norms.l2norm]
    compiler = "nvrtc V13.0.88 CL-36424714"
    source = "5f0c..."
    specializations = [
      { name = "l2norm<float, kspec::Lines>", arch = "sm_90", registers = 40, spills = 0, ... },
    ]

    tuned = [
      { gpu = "NVIDIA H200", types = ["float32"], sizes = [[1000], [64]], ... },
    ]
    reviews = [
      { gpu = "H200", arguments = ["float32[256,1024]", "axis=1"], conflicts = 0.0, ... },
    ]

A line for each specialization and architecture, so that a diff of git says which kernel got
larger.  Builds for all configured architectures write it; `kspec.build.report.locking` compares.
It is TOML like the other files of a project.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from kspec.build.report.saved import SavedReview, review_of, review_text
from kspec.dataclass import dataclass
from kspec.errors import ManifestError
from kspec.files import explain, read_regular
from kspec.model.stages import Figures
from kspec.model.tuning import Tuned, tuned_data, tuned_of
from kspec.toml import toml_key, toml_value

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


class NewerLockError(ManifestError):
    """A newer kspec has written a lock."""


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
    tuned : tuple of Tuned
        What `kspec tune` has measured.
    reviews : tuple of SavedReview
        What `kspec review --save` has found, by GPU and arguments.
    """

    module: str
    name: str
    compiler: str
    source: str
    rows: tuple[LockRow, ...]
    tuned: tuple[Tuned, ...] = ()
    reviews: tuple[SavedReview, ...] = ()

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

    @property
    def tuned(self) -> dict[tuple[str, str], tuple[Tuned, ...]]:
        """Measurements of each kernel, by module and name."""
        return {kernel.key: kernel.tuned for kernel in self.kernels if kernel.tuned}

    @property
    def reviews(self) -> dict[tuple[str, str], tuple[SavedReview, ...]]:
        """Reviews of each kernel, by module and name."""
        return {kernel.key: kernel.reviews for kernel in self.kernels if kernel.reviews}


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
        if kernel.tuned:
            tuned = "".join(f"  {toml_value(tuned_data(one))},\n" for one in kernel.tuned)
            parts.append(f"tuned = [\n{tuned}]\n")
        if kernel.reviews:
            reviews = "".join(f"  {review_text(one)},\n" for one in kernel.reviews)
            parts.append(f"reviews = [\n{reviews}]\n")
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
            raise NewerLockError(
                f"{path} has version {version}, this kspec knows {VERSION}: upgrade kspec"
            )
        return Lock(
            tuple(
                LockedKernel(
                    module,
                    name,
                    one["compiler"],
                    one["source"],
                    _rows(one["specializations"]),
                    tuple(map(tuned_of, one.get("tuned", ()))),
                    tuple(map(review_of, one.get("reviews", ()))),
                )
                for module, kernels in data.items()
                for name, one in kernels.items()
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"{path} is damaged ({error!r}); run `kspec build` again") from error


def readable_lock(project: Path) -> Lock | None:
    """Return the lock of a project, or None if it has none, or a damaged one.

    Raises
    ------
    NewerLockError
        If a newer kspec has written it, whose measurements a build would lose.
    """
    try:
        return read_lock(project)
    except NewerLockError:
        raise
    except ManifestError:
        return None


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
