"""The shipped kernels as operators, on the CPU and on a GPU; nothing of it where torch is missing."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def ops() -> Any:
    import kspec_kernels

    import kspec.torch

    return kspec.torch.register(kspec_kernels)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> str:
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


@pytest.fixture(autouse=True)
def fresh_graphs() -> None:
    import torch

    torch._dynamo.reset()
