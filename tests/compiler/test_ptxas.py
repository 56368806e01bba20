"""What ptxas reports, as NVRTC and as nvcc hand it through."""

from __future__ import annotations

import pytest

from kspec.compiler.cuda.ptxas import parse_figures, strip_report
from kspec.model.stages import Figures

NVRTC = """\
ptxas info    : 296 bytes gmem, 24 bytes cmem[4]
ptxas info    : Compiling entry function 'q' for 'sm_80'
ptxas info    : Function properties for _Z1ff
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for q
ptxas         .     560 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 32 registers, 64 bytes smem, 364 bytes cmem[0], 40 bytes cmem[2]
ptxas info    : Compile time = 25.601 ms
"""
NVCC = NVRTC.replace("ptxas         .", "")


@pytest.mark.parametrize("log", [NVRTC, NVCC], ids=["nvrtc", "nvcc"])
def test_called_functions_are_kept_apart(log: str) -> None:
    assert parse_figures(log) == {"q": Figures(32, 64, 560, 404, 12)}


@pytest.mark.parametrize("log", [NVRTC, NVCC], ids=["nvrtc", "nvcc"])
def test_the_rest_of_a_log(log: str) -> None:
    assert strip_report(log) == ""
    assert strip_report(f"a warning\n{log}ptxas warning : careful\n") == (
        "a warning\nptxas warning : careful"
    )
