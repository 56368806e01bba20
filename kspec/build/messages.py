"""Messages between `kspec.build.worker` and its processes: JSON, and the bytes of images.

::

    pack_job(Job(...))          a line                      read_job(pipe)
    pack_job(Members(...))      a line, then entries        read_job(pipe)
    pack_outcome(image)         a line, then an entry       read_outcome(pipe)
    pack_outcome(error)         a line                      read_outcome(pipe)

No pickle: a message holds text and bytes, nothing that runs.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO, Any

from kspec import errors
from kspec.compiler.cache.entry import pack_image, unpack_image
from kspec.dataclass import dataclass
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError, KspecError, LoadError
from kspec.model.stages import CudaSource, Header, Image, Target

Outcome = Image | KspecError


@dataclass(frozen=True)
class Job:
    """One translation unit to compile.

    Attributes
    ----------
    source : CudaSource
        What to compile.
    target : Target
        What to compile it for.
    also : tuple of Target
        Others that are made of the same PTX, and are wanted, too: one compilation makes all.
    """

    source: CudaSource
    target: Target
    also: tuple[Target, ...] = ()

    @property
    def parts(self) -> tuple[Job, ...]:
        """Itself, and the jobs that the others would be by themselves: one for each outcome."""
        return (self, *(Job(self.source, one) for one in self.also))


@dataclass(frozen=True)
class Members:
    """Images to make a fatbin of."""

    images: tuple[Image, ...]


def pack_job(job: Job | Members) -> bytes:
    """Return a job as bytes."""
    if isinstance(job, Job):
        return _line(asdict(job))
    entries = [pack_image("", image) for image in job.images]
    return _line({"members": [len(entry) for entry in entries]}) + b"".join(entries)


def read_job(pipe: IO[bytes]) -> Job | Members | None:
    """Return the next job that comes through a pipe; None where the pipe ends, in a job or not."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    data = json.loads(line)
    if "members" in data:
        entries = [pipe.read(size) for size in data["members"]]
        if [len(entry) for entry in entries] != data["members"]:
            return None
        return Members(tuple(unpack_image(entry, "") for entry in entries))
    fields = data["source"]
    lists = {name: tuple(fields[name]) for name in ("name_expressions", "options")}
    headers = tuple(Header(**one) for one in fields["headers"])
    source = CudaSource(**{**fields, **lists, "headers": headers})
    return Job(source, _target(data["target"]), tuple(map(_target, data["also"])))


def _target(fields: dict[str, Any]) -> Target:
    return Target(**{**fields, "sanitize": tuple(fields["sanitize"])})


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
