"""What a kernel is at each stage, and as a spec."""

from __future__ import annotations

import numpy as np
import pytest

from kspec import jit
from kspec.compiler import compile_source
from kspec.errors import JitError
from kspec.model.stages import CudaSource, Target


@jit.rawkernel()
def scale(x, y, a):
    """Multiply by a number, two axes at once."""
    i, j = jit.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = a * x[i, j]


def arguments() -> tuple[object, ...]:
    return np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32), 2.0


def test_every_stage_can_be_shown() -> None:
    found = scale.inspect(*arguments(), arch="sm_80")
    assert found.source.startswith("def scale(x, y, a):")
    assert "kernel scale(x: float32[2d, C]" in found.ir
    assert "__global__ void scale" in found.code
    assert ".target sm_80" in found.ptx
    assert found.registers > 0 and found.spill_bytes == 0
    assert "registers" in str(found)


def test_a_spec_has_pointers_and_the_shapes_by_default() -> None:
    (spec,) = scale.to_spec(*arguments())
    assert spec.name == "scale" and spec.doc == "Multiply by a number, two axes at once."
    assert ", ".join(map(str, spec.params or ())) == (
        "const float* x, float* y, float a, long long x_0, long long x_1, long long y_0, "
        "long long y_1"
    )
    assert dict(spec.defaults)["x_1"] == "x.shape[1]"


def twice(x, y):
    return np.float64(x + x) if x < y else y


def test_lto_ir_links() -> None:
    """Other programs call the function by its name."""
    nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink")
    found = jit.rawkernel()(twice).get_lto_ir((np.float32(1), np.float64(2)), arch="sm_90")
    caller = CudaSource(
        "caller.cu",
        'extern "C" __device__ double twice(float, double);\n'
        'extern "C" __global__ void call(double* x) { x[0] = twice(3.0f, 5.0); }',
    )
    image = compile_source(caller, Target("lto_90"), None)
    assert image.format == "ltoir"

    def link(*parts: bytes) -> bytes:
        options = ["-arch=sm_90", "-lto"]
        handle = nvjitlink.create(len(options), options)
        try:
            for part in parts:
                nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, part, len(part), "part")
            nvjitlink.complete(handle)
            linked = bytearray(nvjitlink.get_linked_cubin_size(handle))
            nvjitlink.get_linked_cubin(handle, linked)
        finally:
            nvjitlink.destroy(handle)
        return bytes(linked)

    assert link(found, image.code)[:4] == b"\x7fELF"
    with pytest.raises(nvjitlink.nvJitLinkError):
        link(image.code)


def test_lto_ir_of_what_is_wrong() -> None:
    @jit.rawkernel()
    def wrong(x):
        return x + undefined  # noqa: F821

    with pytest.raises(JitError, match="undefined"):
        wrong.get_lto_ir((np.float32(1),))
