"""One entry of the cache as bytes: an image and its key in, a checksummed record out, and back.

::

    data = pack_image(key, image)
    unpack_image(data, key)      # the image; LoadError for whatever is not exactly that

The checksum covers everything behind it, and the key is in the record: an entry that was copied
under another name is none.  No pickle: a record can hold text and bytes, nothing that runs.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict

from kspec.errors import LoadError
from kspec.model.stages import Figures, Image

MAGIC = b"KSPECIMG"
SCHEMA = 2
# magic, schema, sha256 of all that follows it, length of the JSON header
_PREFIX = struct.Struct("<8sI32sI")


def pack_image(key: str, image: Image) -> bytes:
    """Return the bytes of an entry: a checksummed header in JSON, then the code.

    >>> image = Image("cubin", "sm_90", b"code", {"k<float>": "_Z1kIfEv"})
    >>> unpack_image(pack_image("5f0c", image), "5f0c") == image
    True
    """
    header = {
        "key": key,
        "format": image.format,
        "arch": image.arch,
        "symbols": dict(image.symbols),
        "figures": {name: asdict(figures) for name, figures in image.figures.items()},
        "log": image.log,
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    payload = text + image.code
    return _PREFIX.pack(MAGIC, SCHEMA, _digest(len(text), payload), len(text)) + payload


def unpack_image(data: bytes, key: str) -> Image:
    """Return the image that `pack_image` made `data` of.

    Raises
    ------
    LoadError
        If the bytes are not an entry, are damaged, belong to another key, or come from another
        kspec version.
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
        found = header["key"]
        figures = {name: Figures(**values) for name, values in header["figures"].items()}
        image = Image(
            format=header["format"],
            arch=header["arch"],
            code=payload[length:],
            symbols=header["symbols"],
            figures=figures,
            log=header["log"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LoadError(f"damaged image: {type(error).__name__}: {error}") from error
    if found != key:
        raise LoadError(f"the image of another key: {found}")
    return image


def _digest(length: int, payload: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<I", length) + payload).digest()
