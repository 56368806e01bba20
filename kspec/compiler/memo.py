"""Notes of earlier results: from a kernel's arguments to its declaration and to its images.

::

    recipe = recipe_of("elementwise", fields)             # empty: go the long way
    declaration = recalled_declaration(cache, recipe)     # None: the same
    image = recalled_image(cache, image_note(recipe, wanted, "host", fingerprint))

The long way checks a spec, renders a template, reads headers, and asks a compiler for its version;
it takes Pydantic, Jinja and 100 modules.  It leaves notes in the cache, beside the images.  The key
of a note is a digest of the inputs that are known before headers are read: the arguments, the code
and headers of kspec, the environment, the compiler.  The note has the digest of each header of the
user's that was read, and the name of each that was not found.  If one of them has changed, the long
way is taken again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspec import __loaded__, __version__
from kspec.compiler.cache import ImageCache
from kspec.errors import ManifestError
from kspec.files import ROOT, is_file
from kspec.model.manifest import declaration_data, declaration_of
from kspec.model.stages import Image

if TYPE_CHECKING:
    from kspec.compiler.carrying import Collected
    from kspec.model.declaration import Declaration

# Raise when notes have other contents.
_SCHEMA = 2
# Rooms of kspec that make declarations and sources; the rest only calls what they have made.
DECIDING = ("compiler", "cpp", "include", "model", "render", "spec")
_MODULES = ("limits.py", "pipeline.py")
_LIBRARIES = ("jinja2", "pydantic")
_PLAIN = (str, int, float, complex, bool, type(None))


def plain_copy(value: object) -> Any:
    """Return a copy of a value of Python's own types, whose `repr` tells it from all others.

    Raises
    ------
    TypeError
        If it is, or has in it, an object of any other type.
    """
    if type(value) in _PLAIN:
        return value
    if type(value) in (tuple, list):
        assert isinstance(value, tuple | list)
        return type(value)(map(plain_copy, value))
    if type(value) is dict:
        assert isinstance(value, dict)
        return {plain_copy(key): plain_copy(one) for key, one in value.items()}
    raise TypeError(f"not a plain value: {value!r}")


def recipe_of(kind: str, values: Mapping[str, Any], options: Iterable[str] = ()) -> str:
    """Return the digest of a kernel's values and of the code of kspec.

    Empty if the code is not known.

    Parameters
    ----------
    kind : str
        What the values are of.
    values : mapping of str to object
        Objects that their `repr` tells from all others.
    options : iterable of str
        Those of compilers, which may name folders.
    """
    code = code_digest()
    if not code:
        return ""
    return _digest(kind, sorted(values.items()), here() if options else "", code)


def image_note(recipe: str, *parts: object) -> str:
    """Return the key of the note on an image, given what the recipe leaves open; or nothing."""
    return _digest(recipe, *parts) if recipe and all(parts) else ""


def recalled_declaration(cache: ImageCache, recipe: str) -> Declaration | None:
    """Return the declaration of a kernel, if there is a note of it."""
    found = cache.recall(_digest(recipe, "declaration"))
    try:
        return None if found is None else declaration_of(json.loads(found))
    except (ValueError, LookupError, TypeError, AttributeError, ManifestError):
        return None


def remember_declaration(cache: ImageCache, recipe: str, declaration: Declaration) -> None:
    """Note the declaration of a kernel."""
    text = json.dumps(declaration_data(declaration))
    cache.remember(_digest(recipe, "declaration"), text.encode())


def recalled_image(cache: ImageCache, note: str) -> Image | None:
    """Return the image of a note whose headers are as they were, if the cache has both."""
    found = cache.recall(note)
    if found is None:
        return None
    try:
        known = json.loads(found)
        key, headers = str(known["image"]), dict(known["headers"])
    except (ValueError, LookupError, TypeError):
        return None
    if any(_digest_of(path) != digest for path, digest in headers.items()):
        return None
    return cache.probe(key)


def remember_image(cache: ImageCache, note: str, key: str, collected: Collected) -> None:
    """Note the key of an image, and the headers that were read and looked for outside of kspec."""
    read, own = collected.read, ROOT / "include"
    headers = {
        str(path.absolute()): _text_digest(read[path]) if path in read else _digest_of(path)
        for path in collected.looked_at
        if not Path(os.path.normpath(path)).is_relative_to(own)
    }
    cache.remember(note, json.dumps({"image": key, "headers": headers}).encode())


@functools.cache
def code_digest() -> str:
    """Return a digest of the files that decide declarations and sources, by sizes and times.

    Empty if this process may have imported other code than that of the files: some of them are
    newer than its import of kspec, or kspec is in an archive.
    """
    return _stamps([*map(ROOT.joinpath, (*DECIDING, *_MODULES)), *_templates(), *_libraries()])


@functools.cache
def dialect_digest() -> str:
    """Return the same for the headers of the host device."""
    return _stamps([ROOT / "host" / "include"])


def file_stamp(path: Path | None) -> str:
    """Return path, size and time of a file; empty if there is none."""
    try:
        status = path.stat() if path is not None else None
    except OSError:
        return ""
    return f"{path} {status.st_size} {status.st_mtime_ns}" if status is not None else ""


def _templates() -> tuple[Path, ...]:
    """Return the folder of the templates, in a wheel or in a clone."""
    return tuple(one for one in (ROOT / "templates", ROOT.parent / "templates") if one.is_dir())[:1]


def _libraries() -> Iterator[Path]:
    """Yield a file of each library, which is another one in another version."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):  # an import hook may refuse it
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin:
                yield Path(spec.origin)


def _stamps(places: Iterable[Path]) -> str:
    try:
        found = sorted(one for place in places for one in _files(str(place)))
    except OSError:
        return ""
    newest = max((time for _, _, time in found), default=0)
    return "" if newest > __loaded__ * 1e9 else _digest(found)


def _files(place: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, size and time of a file, or of all below a folder."""
    if not Path(place).is_dir():
        status = Path(place).stat()
        yield place, status.st_size, status.st_mtime_ns
        return
    with os.scandir(place) as entries:
        for one in entries:
            if not one.is_dir():
                status = one.stat()
                yield one.path, status.st_size, status.st_mtime_ns
            elif one.name != "__pycache__":
                yield from _files(one.path)


def here() -> str:
    """Return the current folder, which options may count from; unique where it was removed."""
    try:
        return str(Path.cwd())
    except OSError:
        return os.urandom(16).hex()


def _digest_of(path: str | Path) -> str:
    """Return the digest of a header's text as `carrying.read_header` reads it; empty: no file."""
    path = Path(path)
    try:
        return _text_digest(path.read_text("utf-8", "replace")) if is_file(path) else ""
    except OSError as error:
        return str(error)


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _digest(*parts: object) -> str:
    text = repr((_SCHEMA, __version__, sys.version, parts))
    return _text_digest(text)
