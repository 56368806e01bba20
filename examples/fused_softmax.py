"""NumPy code as one kernel: a softmax that reads each row once and writes it once.

``python examples/fused_softmax.py`` runs on every device present. Other array libraries than NumPy
need no `device`: calls with arrays on a GPU are always fused.
"""

import numpy as np

import kspec


@kspec.fuse(device="host")
def softmax(x, scale):
    e = np.exp(scale * (x - x.max(axis=-1, keepdims=True)))
    return e / e.sum(axis=-1, keepdims=True)


def main():
    x = np.random.default_rng(0).normal(size=(500, 1000)).astype(np.float32)
    expected = softmax.func(x.astype(np.float64), 2.0)  # the function itself
    print(softmax.explain(x, 2.0))
    for device in kspec.devices():
        result = kspec.asnumpy(softmax(kspec.asarray(x, device=device), 2.0))
        error = np.abs(result - expected).max()
        print(f"{device}: error {error:.1e}")
        assert error < 1e-6


if __name__ == "__main__":
    main()
