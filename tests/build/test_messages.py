"""What the build's processes say to each other arrives as it was."""

from __future__ import annotations

import io

import pytest

from kspec.build.messages import Job, Members, pack_job, pack_outcome, read_job, read_outcome
from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError, KspecError, SpecError, ToolNotFoundError
from kspec.model.stages import CudaSource, Figures, Header, Image, Target
from kspec.spec.loader import SpecFileError

SOURCE = CudaSource(
    "a.cu", 'text\n"ü"\udcff', ("k<int>",), (Header("h.cuh", "\n\n"),), ("-DN=1",), "nvcc"
)
FOUND = Diagnostic("error", "wrong", "a.toml", 3, 4, 5, "source")
IMAGE = Image("cubin", "sm_90", b"\n\0code\n", {"k<int>": "_Zk"}, {"k<int>": Figures(3)}, "log\n")


def test_jobs_one_after_the_other() -> None:
    sent = [
        Job(SOURCE, Target("host", ("memory",), "8.0")),
        Members((IMAGE, IMAGE)),
        Job(SOURCE, Target("sm_80"), Target("compute_80", ptx_isa="8.0")),
    ]
    assert pack_job(sent[0]).count(b"\n") == 1
    pipe = io.BytesIO(b"".join(map(pack_job, sent)))
    assert [read_job(pipe) for _ in sent] == sent
    assert read_job(pipe) is None


def test_outcomes_one_after_the_other() -> None:
    compile_error = CompileError("log\nlog", "text", ("-a",), "sm_90", (FOUND,))
    sent = [IMAGE, compile_error, ToolNotFoundError("no nvcc"), IMAGE]
    pipe = io.BytesIO(b"".join(map(pack_outcome, sent)))
    image, refused, missing, again = [read_outcome(pipe) for _ in sent]
    assert image == again == IMAGE
    assert isinstance(refused, CompileError)
    assert refused.__reduce__() == compile_error.__reduce__()
    assert type(missing) is ToolNotFoundError and str(missing) == "no nvcc"
    with pytest.raises(EOFError):
        read_outcome(pipe)


def test_an_error_of_another_module_arrives_as_its_nearest_class() -> None:
    error = read_outcome(io.BytesIO(pack_outcome(SpecFileError([]))))
    assert type(error) is SpecError


@pytest.mark.parametrize("length", [0, 5, 40, -1])
def test_half_an_outcome(length: int) -> None:
    with pytest.raises(EOFError):
        read_outcome(io.BytesIO(pack_outcome(IMAGE)[:length]))


def test_a_plain_error() -> None:
    assert str(read_outcome(io.BytesIO(pack_outcome(KspecError("why"))))) == "why"
