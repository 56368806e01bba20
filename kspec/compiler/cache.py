"""Compiled images on disk: key to `Image` and back, and nothing else.

::

    cache = ImageCache(config.cache_dir())
    cache.put(key, image)
    cache.get(key)           # the image, or None

One checksummed file per entry, replaced atomically, so that any number of threads and processes
may share a directory; whatever can not be read is a miss.  `kspec.compiler.key` makes the keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import tempfile
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from kspec.errors import CompileError, LoadError
from kspec.stages import Figures, Image

MAGIC = b"KSPECIMG"
SCHEMA = 1
# magic, schema, sha256 of all that follows the prefix, length of the JSON header
_PREFIX = struct.Struct("<8sI32sI")


@dataclass(frozen=True)
class CacheStatistics:
    """How often a cache answered.

    Attributes
    ----------
    memory_hits, disk_hits, misses : int
        Answers of `ImageCache.get`.
    """

    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0

    @property
    def hits(self) -> int:
        """Hits of both kinds."""
        return self.memory_hits + self.disk_hits


class ImageCache:
    """Images by key: a directory, with the images used by this process in front.

    Parameters
    ----------
    directory : Path
        Made on the first `put`, readable by its owner only.  If it can not be written, one
        warning says so and images are kept in memory.

    Notes
    -----
    Threads may share an object, processes a directory.  A pickled cache is an empty one on the
    same directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = Path(directory)
        self._images: dict[str, Image] = {}
        self._failures: dict[str, CompileError] = {}
        self._guards: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self._counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0}
        self._warned = False

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.directory,)

    @property
    def statistics(self) -> CacheStatistics:
        """A snapshot of the counters."""
        with self._lock:
            return CacheStatistics(**self._counts)

    def path(self, key: str) -> Path:
        """Return the file of a key, which need not exist."""
        return self.directory / f"{key}.image"

    def get(self, key: str) -> Image | None:
        """Return the image of a key, or None; never raise."""
        image = self._images.get(key)
        if image is not None:
            self._count("memory_hits")
            return image
        try:
            image = unpack_image(self.path(key).read_bytes())
        except (OSError, LoadError):  # absent, or damaged: the next put replaces it
            self._count("misses")
            return None
        self._count("disk_hits")
        return self._images.setdefault(key, image)

    def put(self, key: str, image: Image) -> None:
        """Keep an image; on disk too where that is possible."""
        self._images[key] = image
        data = pack_image(image)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.directory)
        except OSError as error:
            self._warn(error)
            return
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            temporary.replace(self.path(key))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self._warn(error)

    def failure(self, key: str) -> CompileError | None:
        """Return a fresh copy of the error that compiling `key` ended with, if it did."""
        error = self._failures.get(key)
        return error.copy() if error else None

    def put_failure(self, key: str, error: CompileError) -> None:
        """Remember, in memory, that `key` does not compile."""
        self._failures[key] = error.copy()  # the error itself holds the frames it went through

    def guard(self, key: str) -> threading.Lock:
        """Return the lock that lets one thread of this process compile `key`."""
        with self._lock:
            return self._guards.setdefault(key, threading.Lock())

    def _count(self, counter: str) -> None:
        with self._lock:
            self._counts[counter] += 1

    def _warn(self, error: OSError) -> None:
        with self._lock:
            warned, self._warned = self._warned, True
        if not warned:
            warnings.warn(
                f"kspec can not write its cache {self.directory} ({error.strerror or error}): "
                "compiled kernels are kept in memory only; KSPEC_CACHE_DIR names another place",
                RuntimeWarning,
                stacklevel=3,
            )


def pack_image(image: Image) -> bytes:
    """Return the bytes of an image: a checksummed header in JSON, then the code.

    >>> image = Image("cubin", "sm_90", b"code", {"k<float>": "_Z1kIfEv"})
    >>> unpack_image(pack_image(image)) == image
    True
    """
    header = {
        "format": image.format,
        "arch": image.arch,
        "symbols": dict(image.symbols),
        "figures": {name: asdict(figures) for name, figures in image.figures.items()},
        "log": image.log,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    payload = text + image.code
    return _PREFIX.pack(MAGIC, SCHEMA, _digest(len(text), payload), len(text)) + payload


def unpack_image(data: bytes) -> Image:
    """Return the image that `pack_image` made `data` of.

    Raises
    ------
    LoadError
        If the bytes are not a packed image, are damaged, or come from another kspec version.
    """
    if len(data) < _PREFIX.size:
        raise LoadError("not a packed image: too short")
    magic, schema, digest, length = _PREFIX.unpack_from(data)
    payload = data[_PREFIX.size :]
    if magic != MAGIC:
        raise LoadError("not a packed image: wrong magic number")
    if schema != SCHEMA:
        raise LoadError(f"packed image of schema {schema}; this kspec reads {SCHEMA}")
    if digest != _digest(length, payload):
        raise LoadError("damaged image: checksum differs")
    try:
        header = json.loads(payload[:length])
        figures = {name: Figures(**values) for name, values in header["figures"].items()}
        return Image(
            format=header["format"],
            arch=header["arch"],
            code=payload[length:],
            symbols=header["symbols"],
            figures=figures,
            log=header["log"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LoadError(f"damaged image: {type(error).__name__}: {error}") from error


def _digest(length: int, payload: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<I", length) + payload).digest()
