"""Processes that end while kernels, arrays and memory of theirs are alive end without a word."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What is kept goes after every module of the package, whose names are None by then.
SCRIPT = """
import builtins, sys
import numpy as np
import kspec

device = {str(one): one for one in kspec.devices()}[sys.argv[1]]
add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "exit_add")
norm = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "exit_norm")
x = kspec.asarray(np.full(100_000, 2, "float32"), device=device)
out, length = kspec.empty(x.shape, x.dtype, device), kspec.empty((), "float32", device)
for _ in range(8):
    add(x, x, out)
    norm(x, out=length)
if not device.is_host:
    from cuda.bindings import driver

    code, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    for _ in range(8):
        y = add(x, x, stream=int(stream))  # memory that was in use on the default stream
print(kspec.asnumpy(out).sum(), kspec.asnumpy(length))
builtins.kept = [dict(vars())]
"""


@pytest.mark.parametrize(
    "device", ["host", pytest.param("cuda:0", marks=pytest.mark.gpu)], ids=["host", "cuda"]
)
def test_nothing_is_printed_at_exit(device: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, device],
        env={**os.environ, "KSPEC_GRAPH_LAUNCH": "always"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["400000.0", "632.4555"]
