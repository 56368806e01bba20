"""Messages between `kspec.build.worker` and its processes: JSON, and the bytes of images.

::

    pack_job(Job(...))          a line                      read_job(pipe)
    pack_answer(of an image)    a line, then an entry       read_answer(pipe)
    pack_answer(of an error)    a line                      read_answer(pipe)

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
class Answer:
    """Result of a compilation, and the CPU seconds that it took."""

    outcome: Outcome
    seconds: float


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


def pack_job(job: Job) -> bytes:
    """Return a job as bytes."""
    return _line(asdict(job))


def read_job(pipe: IO[bytes]) -> Job | None:
    """Return the next job that comes through a pipe; None where the pipe ends, in a job or not."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    data = json.loads(line)
    fields = data["source"]
    lists = {name: tuple(fields[name]) for name in ("name_expressions", "options")}
    headers = tuple(Header(**one) for one in fields["headers"])
    source = CudaSource(**{**fields, **lists, "headers": headers})
    return Job(source, _target(data["target"]), tuple(map(_target, data["also"])))


def _target(fields: dict[str, Any]) -> Target:
    return Target(**{**fields, "sanitize": tuple(fields["sanitize"])})


def pack_answer(answer: Answer) -> bytes:
    """Return an image, or the error that there is none, as bytes.

    An error that is not of `kspec.errors` arrives as the nearest class there.
    """
    outcome, seconds = answer.outcome, answer.seconds
    if isinstance(outcome, Image):
        entry = pack_image("", outcome)
        return _line({"bytes": len(entry), "seconds": seconds}) + entry
    kind = type(outcome)
    if vars(errors).get(kind.__name__) is kind:
        arguments = [*outcome.__reduce__()[1]]
        if isinstance(outcome, CompileError):
            arguments[-1] = [asdict(one) for one in outcome.found]
        return _line({"error": kind.__name__, "arguments": arguments, "seconds": seconds})
    near = next(one for one in kind.__mro__ if vars(errors).get(one.__name__) is one)
    return _line({"error": near.__name__, "arguments": [str(outcome)], "seconds": seconds})


def read_answer(pipe: IO[bytes]) -> Answer:
    """Return the next answer that comes through a pipe.

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
        return Answer(_error(data["error"], data["arguments"]), data["seconds"])
    try:
        return Answer(unpack_image(pipe.read(data["bytes"]), ""), data["seconds"])
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
