"""What the build's processes say to each other arrives as it was."""

from __future__ import annotations

import io

import pytest

from kspec.build.messages import Answer, Job, pack_answer, pack_job, read_answer, read_job
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
        Job(SOURCE, Target("sm_80"), (Target("compute_80", ptx_isa="8.0"),)),
    ]
    assert pack_job(sent[0]).count(b"\n") == 1
    pipe = io.BytesIO(b"".join(map(pack_job, sent)))
    assert [read_job(pipe) for _ in sent] == sent
    assert read_job(pipe) is None


def test_answers_one_after_the_other() -> None:
    compile_error = CompileError("log\nlog", "text", ("-a",), "sm_90", (FOUND,))
    sent = [IMAGE, compile_error, ToolNotFoundError("no nvcc"), IMAGE]
    answers = [Answer(one, number / 8) for number, one in enumerate(sent)]
    pipe = io.BytesIO(b"".join(map(pack_answer, answers)))
    arrived = [read_answer(pipe) for _ in sent]
    assert [one.seconds for one in arrived] == [one.seconds for one in answers]
    image, refused, missing, again = [one.outcome for one in arrived]
    assert image == again == IMAGE
    assert isinstance(refused, CompileError)
    assert refused.__reduce__() == compile_error.__reduce__()
    assert type(missing) is ToolNotFoundError and str(missing) == "no nvcc"
    with pytest.raises(EOFError):
        read_answer(pipe)


def test_an_error_of_another_module_arrives_as_its_nearest_class() -> None:
    assert type(sent_through(SpecFileError([]))) is SpecError


def sent_through(outcome: Image | KspecError) -> Image | KspecError:
    return read_answer(io.BytesIO(pack_answer(Answer(outcome, 0.5)))).outcome


@pytest.mark.parametrize("length", [0, 5, 40, -1])
def test_half_an_answer(length: int) -> None:
    with pytest.raises(EOFError):
        read_answer(io.BytesIO(pack_answer(Answer(IMAGE, 0.5))[:length]))


def test_a_plain_error() -> None:
    assert str(sent_through(KspecError("why"))) == "why"
