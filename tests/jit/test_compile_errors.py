"""What a compiler refuses is said with the line of the Python file that it was made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kspec import jit
from kspec.errors import CompileError
from kspec.ir import builtins, emit


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that no compiler knows, for nothing that is traced is refused by one."""
    row = replace(builtins.BUILTINS["sqrt"], text="no_such_function({})")
    monkeypatch.setattr(emit, "BUILTINS", {**builtins.BUILTINS, "sqrt": row})


@jit.rawkernel()
def roots(x):
    x[0] = 1
    x[1] = np.sqrt(x[0])  # the line


LINE = roots.function.__code__.co_firstlineno + 3


def test_on_the_host_device() -> None:
    with pytest.raises(
        CompileError, match=rf"test_compile_errors\.py:{LINE}:\d+: error: .*no_such"
    ):
        roots[1, 1](np.ones(3))


def test_on_cuda() -> None:
    with pytest.raises(CompileError, match=rf"test_compile_errors\.py\({LINE}\): error: .*no_such"):
        roots.inspect(np.ones(3), arch="sm_90")
