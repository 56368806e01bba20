"""RMSNorm from two kernels: a shipped, precompiled reduction and one made here.

``python examples/rms_norm.py`` runs on the CPU; with CuPy installed, on the GPU as well.
"""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
from kspec_kernels import norms

import kspec

apply_scale = kspec.ElementwiseKernel(
    "T x, T scale, T weight", "T y", "y = x * scale * weight", "apply_scale"
)


def rms_norm(x, weight, eps=1e-6):
    """Normalise the rows of `x`, on the device where it lives."""
    scale = norms.rms_scale(x, eps, axis=-1, keepdims=True)
    return apply_scale(x, scale, weight)


def main():
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 1024)).astype(np.float32)
    weight = random.normal(size=1024).astype(np.float32)
    expected = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight

    y = rms_norm(x, weight)
    print("host: max error", np.abs(y - expected).max())
    assert np.allclose(y, expected, atol=1e-5)

    if find_spec("cupy") and len(kspec.devices()) > 1:
        cupy = import_module("cupy")
        y = rms_norm(cupy.asarray(x), cupy.asarray(weight))
        print("cuda: max error", np.abs(cupy.asnumpy(y) - expected).max())
        assert np.allclose(cupy.asnumpy(y), expected, atol=1e-5)


if __name__ == "__main__":
    main()
