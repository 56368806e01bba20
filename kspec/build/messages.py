"""Messages between `kspec.build.worker` and its processes: JSON, and the bytes of images.

::

    pack_job(source, target)        a line                      unpack_job(line)
    pack_outcome(image)             a line, then an entry       read_outcome(pipe)
    pack_outcome(error)             a line                      read_outcome(pipe)

No pickle: a message holds text and bytes, nothing that runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any

from kspec import errors
from kspec.compiler.cache.entry import pack_image, unpack_image
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError, KspecError, LoadError
from kspec.model.stages import CudaSource, Header, Image, Target

Outcome = Image | KspecError


def pack_job(source: CudaSource, target: Target) -> bytes:
    """Return one line that says what to compile."""
    return _line({"source": asdict(source), "target": asdict(target)})


def unpack_job(line: bytes) -> tuple[CudaSource, Target]:
    """Return the job that `pack_job` made a line of."""
    data = json.loads(line)
    fields = data["source"]
    lists = {name: tuple(fields[name]) for name in ("name_expressions", "options")}
    headers = tuple(Header(**one) for one in fields["headers"])
    source = CudaSource(**{**fields, **lists, "headers": headers})
    target = Target(**{**data["target"], "sanitize": tuple(data["target"]["sanitize"])})
    return source, target


def pack_outcome(outcome: Outcome) -> bytes:
    """Return an image, or the error that there is none, as bytes.

    An error that is not of `kspec.errors` arrives as the nearest class there.
    """
    if isinstance(outcome, Image):
        entry = pack_image("", outcome)
        return _line({"bytes": len(entry)}) + entry
    kind = type(outcome)
    if vars(errors).get(kind.__name__) is kind:
        arguments = [*outcome.__reduce__()[1]]
        if isinstance(outcome, CompileError):
            arguments[-1] = [asdict(one) for one in outcome.found]
        return _line({"error": kind.__name__, "arguments": arguments})
    near = next(one for one in kind.__mro__ if vars(errors).get(one.__name__) is one)
    return _line({"error": near.__name__, "arguments": [str(outcome)]})


def read_outcome(pipe: IO[bytes]) -> Outcome:
    """Return the next outcome that comes through a pipe.

    Raises
    ------
    EOFError
        If the pipe ends before.
    """
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError("no answer")
    data = json.loads(line)
    if "error" in data:
        return _error(data["error"], data["arguments"])
    try:
        return unpack_image(pipe.read(data["bytes"]), "")
    except LoadError as error:
        raise EOFError(str(error)) from error


def _error(name: str, arguments: list[Any]) -> KspecError:
    if name == CompileError.__name__:
        log, source, options, target, found = arguments
        found = tuple(Diagnostic(**{**one, "details": tuple(one["details"])}) for one in found)
        return CompileError(log, source, tuple(options), target, found)
    error: KspecError = getattr(errors, name)(*arguments)
    return error


def _line(data: object) -> bytes:
    return json.dumps(data).encode() + b"\n"
