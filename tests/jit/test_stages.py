"""What a kernel is at each stage, and as a spec."""

from __future__ import annotations

import numpy as np

from kspec import jit


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
