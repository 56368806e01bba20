"""Compiled images by key: in memory, in read-only layers, in a folder; and notes on them.

::

    cache = ImageCache.configured()      # where the environment says
    cache.put(key, image)
    cache.get(key)                       # the image, or None

Any number of threads, processes and machines may share a folder; whatever cannot be read is a
miss.  `kspec.compiler.key` makes the keys, `kspec.compiler.cache.entry` the bytes of an entry, and
`kspec.compiler.cache.folder` the files.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from kspec import config
from kspec.compiler.cache import folder
from kspec.compiler.cache.entry import pack_image, unpack_image
from kspec.compiler.cache.trust import DistrustedError, distrusted_folder
from kspec.errors import CompileError, LoadError
from kspec.files import is_file
from kspec.locks import Turn, make_lock
from kspec.model.stages import Image

if TYPE_CHECKING:
    from kspec.compiler.cache.counters import CacheStatistics

# A write sweeps with so much of a chance for each byte that, on average, one does whenever this
# part of the limit was written, by whichever processes, without a count.
_PARTS = 32
# Seconds to wait for another process that compiles the same: longer than compilers take.
_PATIENCE = 120.0
_IN_MEMORY = 1024  # images, and failures, that are also kept in memory
_COUNTERS = ("memory_hits", "disk_hits", "layer_hits", "misses", "damaged")  # `CacheStatistics`
_warned: dict[Path, object] = {}  # folders that this process has warned of

T = TypeVar("T")


class ImageCache:
    """Images by key: those of this process, then those of some folders.

    Parameters
    ----------
    directory : Path
        Made on the first `put`, readable by its owner only.  If it cannot be written, or others
        can write it, one warning says so and images are kept in memory.
    layers : sequence of Path
        Folders like it that are searched before it, and only read.
    limit : int, optional
        Bytes that the directory's entries may have, roughly: those not used for longest go.

    Notes
    -----
    Threads may share an object, processes a directory.  A pickled cache is an empty one on the
    same directory.
    """

    def __init__(
        self, directory: Path, layers: Sequence[Path] = (), limit: int | None = None
    ) -> None:
        self.directory = Path(directory)
        self.layers = tuple(map(Path, layers))
        self.limit = limit
        self._images: _Latest[Image] = _Latest()
        self._failures: _Latest[CompileError] = _Latest()
        self._guards: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._lock = make_lock()
        self._counts = dict.fromkeys(_COUNTERS, 0)
        weakref.finalize(self, _keep_counts, self.directory, self._counts, os.getpid())

    @classmethod
    def configured(cls) -> ImageCache:
        """Return a cache where the environment says (`kspec.config`)."""
        return cls(config.cache_dir(), config.cache_layers(), config.cache_size())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.directory, self.layers, self.limit)

    @property
    def statistics(self) -> CacheStatistics:
        """A snapshot of the counters."""
        from kspec.compiler.cache.counters import CacheStatistics

        with self._lock:
            return CacheStatistics(**self._counts)

    def path(self, key: str) -> Path:
        """Return the file of a key, which need not exist."""
        return folder.entry_path(self.directory, key)

    def is_stored(self, key: str) -> bool:
        """Return whether a file of the cache has the image of a key."""
        places = (*self.layers, self.directory)
        return any(is_file(folder.entry_path(place, key)) for place in places)

    def get(self, key: str) -> Image | None:
        """Return the image of a key, or None; never raise."""
        image = self.probe(key)
        if image is None:
            self._count("misses")
        return image

    def probe(self, key: str) -> Image | None:
        """Do as `get` does, but let another cache that will be asked count the miss."""
        image = self._images.get(key)
        if image is not None:
            self._count("memory_hits")
            return image
        for layer in self.layers:
            image = self._read(layer, key)
            if image is not None:
                self._count("layer_hits")
                return self._images.keep(key, image)
        image = self._read(self.directory, key)
        if image is None:
            return None
        self._count("disk_hits")
        folder.touch(self.path(key), time.time())
        return self._images.keep(key, image)

    def put(self, key: str, image: Image) -> None:
        """Keep an image; on disk too where that is possible."""
        self._images.keep(key, image)
        entry = pack_image(key, image)
        if self._is_too_large(entry) or self._is_refused(self.directory):
            return
        try:
            self._write(key, entry, folder.SUFFIX)
        except OSError as error:
            self._warn(
                self.directory,
                f"kspec cannot write its cache {self.directory} ({error.strerror or error}): "
                "compiled kernels are kept in memory only; KSPEC_CACHE_DIR names another place",
            )

    def recall(self, key: str) -> bytes | None:
        """Return the bytes that were remembered under a key, or None.

        It never raises, warns or counts: the image that the bytes lead to does.
        """
        for place in (*self.layers, self.directory):
            path = folder.entry_path(place, key, folder.NOTE_SUFFIX)
            with contextlib.suppress(OSError, LoadError):
                if distrusted_folder(place):
                    continue
                found = unpack_image(folder.read_file(path), key)
                if place == self.directory:
                    folder.touch(path, time.time())
                return found.code
        return None

    def remember(self, key: str, data: bytes) -> None:
        """Keep bytes that lead to images: on disk, where that is possible."""
        entry = pack_image(key, Image("note", "", data, {}))
        if not self._is_too_large(entry) and not distrusted_folder(self.directory):
            with contextlib.suppress(OSError):
                self._write(key, entry, folder.NOTE_SUFFIX)

    def _is_too_large(self, entry: bytes) -> bool:
        return self.limit is not None and len(entry) > self.limit

    def _write(self, key: str, entry: bytes, suffix: str) -> None:
        folder.write_file(folder.entry_path(self.directory, key, suffix), entry)
        if self.limit is not None and _chance() * self.limit < len(entry) * _PARTS:
            folder.sweep(self.directory, self.limit, key)

    def failure(self, key: str) -> CompileError | None:
        """Return a fresh copy of the error that compiling `key` ended with, if it did."""
        error = self._failures.get(key)
        return error.copy() if error else None

    def put_failure(self, key: str, error: CompileError) -> None:
        """Remember, in memory, that `key` does not compile."""
        self._failures.keep(key, error.copy())  # the error itself holds the frames it went through

    def alone(self, key: str) -> AbstractContextManager[None]:
        """Return a context in which no other process compiles `key`, as far as that is possible.

        Others that want it wait, and then find it.
        """
        if self.limit == 0 or self._is_refused(self.directory):
            return nullcontext()  # nothing would be found
        return folder.alone(self.directory, key, _PATIENCE)

    def guard(self, key: str) -> Turn:
        """Return the lock that lets one thread of this process compile `key`."""
        with self._lock:
            return self._guards.setdefault(key, Turn())

    def _read(self, place: Path, key: str) -> Image | None:
        if self._is_refused(place):
            return None
        path = folder.entry_path(place, key)
        try:
            data = folder.read_file(path)
        except DistrustedError as error:
            self._refuse(path, error.strerror or str(error))
            return None
        except OSError:  # absent, or nothing that can be read
            return None
        try:
            return unpack_image(data, key)
        except LoadError:  # the next put replaces it
            self._count("damaged")
            return None

    def _is_refused(self, place: Path) -> bool:
        """Return whether others can write a folder; its files are code that this process runs."""
        reason = distrusted_folder(place)
        if reason:
            self._refuse(place, reason)
        return bool(reason)

    def _refuse(self, path: Path, reason: str) -> None:
        folders = (self.directory, *self.layers)
        place = path if path in folders else path.parent
        variable = "KSPEC_CACHE_DIR" if place == self.directory else "KSPEC_CACHE_LAYERS"
        self._warn(
            place,
            f"kspec does not use {path} of its cache, whose files are code that this process runs: "
            f"{reason}, or name another folder by {variable}",
        )

    def _count(self, counter: str) -> None:
        with self._lock:
            self._counts[counter] += 1

    def _warn(self, place: Path, message: str) -> None:
        mark = object()
        if _warned.setdefault(place, mark) is mark:  # the first to come, of all threads and caches
            warnings.warn(message, RuntimeWarning, stacklevel=4)


class _Latest(Generic[T]):
    """The values of the keys that were used last: those of a process may have no end."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = make_lock()

    def get(self, key: str) -> T | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def keep(self, key: str, value: T) -> T:
        """Keep a value, unless the key has one; return the one that is kept."""
        with self._lock:
            kept = self._values.setdefault(key, value)
            self._values.move_to_end(key)
            while len(self._values) > _IN_MEMORY:
                self._values.popitem(last=False)
            return kept


def _chance() -> float:
    return int.from_bytes(os.urandom(4), "big") / 2**32


def _keep_counts(directory: Path, counts: Mapping[str, int], process: int) -> None:
    """Add the counters of a cache that is gone to those of its directory."""
    from kspec.compiler.cache.counters import CacheStatistics, add_counts

    if process == os.getpid():  # a fork has the counts of its parent
        add_counts(directory, CacheStatistics(**counts))
