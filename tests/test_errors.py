from __future__ import annotations

import pickle

import pytest

import kspec
from kspec import errors
from kspec.errors import KspecError, SignatureSyntaxError

ALL = [
    value for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, KspecError)
]  # fmt: skip


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_is_complete(kind: type) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_all_are_public(kind: type) -> None:
    assert getattr(kspec, kind.__name__) is kind


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.SpecError("m"), ValueError),
        (errors.UnknownTypeError("m"), TypeError),
        (errors.ArgumentTypeError("m"), TypeError),
        (errors.UnboundPlaceholderError("m"), KeyError),
        (errors.UnsupportedDTypeError("m"), ValueError),
        (errors.DeviceMismatchError("m"), ValueError),
        (errors.ShapeError("m"), ValueError),
        (errors.DriverError("CUDA_ERROR_NOT_FOUND", "m", 500), RuntimeError),
        (errors.HostFault("assert", "m"), RuntimeError),
        (errors.CompileError("m", "text", ("-O2",), "sm_80"), Exception),
    ],
)
def test_errors_are_the_builtin_too_and_survive_pickling(error: Exception, also: type) -> None:
    assert isinstance(error, also)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert "m" in str(error) and not str(error).startswith("'")


def test_the_caret_is_under_the_right_line() -> None:
    error = SignatureSyntaxError("bad", "T x,\n  flaot y", offset=7, length=5)
    assert str(error) == "bad\n      flaot y\n      ^^^^^"


def test_numbered_source() -> None:
    lines = errors.CompileError("log", "\n".join("abcdefghij")).numbered_source().split("\n")
    assert lines[0] == " 1 a" and lines[-1] == "10 j"
