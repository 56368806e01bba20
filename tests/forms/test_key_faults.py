"""Wrong reductions by key: the class and the words of each refusal."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.forms.test_faults import (
    DOT,
    GREATEST,
    OUTPUT,
    PLACED,
    SCALED,
    TOTAL,
    TWO,
    VIEWED,
    WRITING,
    ShapeFault,
    TypeFault,
    Unsupported,
    on,
)

X = np.arange(6.0)
K = np.array([0, 1, 1, 0, 2, 1])


def by_key(kernel: Any, *args: Any, **keywords: Any) -> tuple[Any, ...]:
    return kernel.by_key, args, keywords


def keys_message(rows: int, shape: tuple[int, ...]) -> str:
    return (
        f"total: keys must have one axis, with an element for each of the {rows} rows of the first "
        f"axis, not shape {shape}"
    )


# A call, and the error.
CALLS: list[tuple[tuple[Any, ...], type, str]] = [
    (by_key(TOTAL), TypeFault, "total.by_key() takes 3 positional arguments (T x, keys, n), not 0"),
    (by_key(TOTAL, X, K), TypeFault, "total.by_key() takes 3 positional arguments"),
    (by_key(TOTAL, X, K, 3, np.empty(3)), TypeFault, "(T x, keys, n), not 4"),
    (
        by_key(TOTAL, X, n=3),
        TypeFault,
        "total.by_key() takes 2 or 3 positional arguments (T x, keys, T y)",
    ),
    (by_key(DOT, X, K, 3), TypeFault, "dot.by_key() takes 4 positional arguments (T x, T w, keys"),
    *(
        (
            by_key(TOTAL, X, K.astype(dtype), 3),
            TypeFault,
            f"total: keys must hold integers, not {dtype}",
        )
        for dtype in ("float64", "bool", "complex128")
    ),
    (by_key(TOTAL, X, K[:, None], 3), ShapeFault, keys_message(6, (6, 1))),
    (by_key(TOTAL, X, K[:5], 3), ShapeFault, keys_message(6, (5,))),
    (by_key(TOTAL, X[:1], K, 3), ShapeFault, keys_message(1, (6,))),
    (by_key(TOTAL, X, np.array(3), 3), ShapeFault, keys_message(6, ())),
    *(
        (
            by_key(TOTAL, X, value, 3),
            TypeFault,
            f"total: argument keys must be an array, not {type(value).__name__}",
        )
        for value in (3, [0, 2, 6], None, "keys")
    ),
    *(
        (by_key(TOTAL, X, K, n), TypeFault, f"total: n must be an integer, not {n!r}")
        for n in (3.0, "3", (3,), True, np.float64(3))
    ),
    (by_key(TOTAL, X, K, -1), ShapeFault, "total: n must be 0 or more, not -1"),
    (
        by_key(GREATEST, X, K, 3),
        ShapeFault,
        "greatest: an output without elements is the identity, which the kernel does not have",
    ),
    (
        by_key(TOTAL, np.array(3.0), K, 3),
        ShapeFault,
        "total: keys are of the first axis, and the inputs have none",
    ),
    (by_key(TOTAL, 3.0, K, 3), ShapeFault, "total: Loop size is undecided"),
    (
        by_key(DOT, X, X[:4], K, 3),
        ShapeFault,
        "dot: operands could not be broadcast together with shapes (6,) (4,)",
    ),
    (
        by_key(DOT, X, X.astype("float32"), K, 3),
        TypeFault,
        "dot: T is float64 by x, but w has dtype float32",
    ),
    (by_key(SCALED, X, X, K, 3), TypeFault, "scaled: s is read by the reduce or post-map"),
    *(
        (by_key(kernel, X, K, 3), Unsupported, f"{kernel.__name__} has no by_key: {reason}")
        for kernel, reason in (
            (PLACED, "its expressions read _in_ind, which only the reduction itself has"),
            (OUTPUT, "its expressions read _out_ind, which only the reduction itself has"),
            (VIEWED, "its expressions read _raw_x, which only the reduction itself has"),
            (WRITING, "it writes to x, which is _non_const"),
        )
    ),
    (
        by_key(TOTAL, X, K, 3, out=np.empty(6)),
        ShapeFault,
        "total: output y has shape (6,), the result (3,)",
    ),
    (
        by_key(TOTAL, X[:, None], K, 3, out=np.empty(3)),
        ShapeFault,
        "total: output y has shape (3,), the result (3, 1)",
    ),
    (
        by_key(TOTAL, X, K, 3, out=np.empty(3, "float32")),
        TypeFault,
        "total: T is float32 by y, but x has dtype float64",
    ),
    (by_key(TOTAL, X, K, 3, out=()), ShapeFault, "total: out must hold 1 arrays, not 0"),
    (
        by_key(TOTAL, X, K, np.empty(3), n=3, out=np.empty(3)),
        ShapeFault,
        "total: cannot specify 'out' as both positional and keyword",
    ),
    (by_key(TWO, X, K, 3, out=np.empty(3)), ShapeFault, "two: out must hold 2 arrays, not 1"),
    (by_key(TOTAL, X, K, 3, out=[0.0] * 3), TypeFault, "total: argument y must be an array"),
    (by_key(TOTAL, X, K, 3, stream="a"), TypeFault, "stream must be a stream handle or an object"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_refused(call: tuple[Any, ...], kind: type, message: str, place: ArrayDevice) -> None:
    function, args, keywords = call
    given = [on(place, one) for one in args]
    named = {name: on(place, one) for name, one in keywords.items()}
    x, keys = place.array(X), place.array(K)
    for _ in range(3):  # a refused call leaves no plan behind, and none lets it through
        TOTAL.by_key(x, keys, 3)
        TOTAL.by_key(x, keys, 3, out=place.empty(3))
        with pytest.raises(Exception, match=re.escape(message)) as caught:
            function(*given, **named)
        assert type(caught.value) is kind


def test_unknown_keywords() -> None:
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'axis'"):
        TOTAL.by_key(X, K, 3, axis=0)


def test_arrays_that_are_not_aligned() -> None:
    odd = np.zeros(49, "uint8")[1:].view("int64")
    with pytest.raises(TypeFault, match="argument keys is not aligned: the addresses of int64"):
        TOTAL.by_key(X, odd, 3)


def test_read_only_arrays() -> None:
    x, keys, out = X.copy(), K.copy(), np.empty(3)
    x.flags.writeable = keys.flags.writeable = out.flags.writeable = False
    for _ in range(3):
        assert TOTAL.by_key(x, keys, 3).tolist() == [3, 8, 4]
    with pytest.raises(
        TypeFault, match="total: argument y is written to, but the array is read-on"
    ):
        TOTAL.by_key(x, keys, 3, out=out)


def test_outputs_whose_elements_are_one() -> None:
    shared = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))
    with pytest.raises(kspec.OverlapError, match="several of its elements are the same memory"):
        TOTAL.by_key(X, K, 3, out=shared)


@pytest.mark.gpu
def test_keys_on_another_device() -> None:
    x, keys = kspec.asarray(X, device="cuda:0"), kspec.asarray(K, device="cuda:0")
    with pytest.raises(kspec.DeviceMismatchError, match="x on cuda:0, keys on host"):
        TOTAL.by_key(x, K, 3)
    with pytest.raises(kspec.DeviceMismatchError, match="x on host, keys on cuda:0"):
        TOTAL.by_key(X, keys, 3)


STRICT = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "strict", strict_keys=True)
# On a GPU the process ends: it gets the places of keys and how many there are.
ON_A_GPU = """\
import sys
import numpy as np
import kspec
strict = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "strict", strict_keys=True)
place, n, deterministic = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
keys = np.arange(9000) % n
given = [kspec.asarray(one, device="cuda:0") for one in (np.ones(9000), keys)]
found = kspec.asnumpy(strict.by_key(*given, n, deterministic=deterministic))
assert found.sum() == 9000
keys[place] = n
given[1] = kspec.asarray(keys, device="cuda:0")
kspec.asnumpy(strict.by_key(*given, n, deterministic=deterministic))
"""


@pytest.mark.parametrize("key", [-1, 3, 2**40])
def test_strict_keys(key: int) -> None:
    assert STRICT.by_key(X, K, 3).tolist() == [3, 8, 4]
    wrong = K.copy()
    wrong[4] = key
    message = re.escape(f"by_key: keys[4] is {key}: keys must be from 0 to 2")
    for deterministic in (True, False):
        for _ in range(3):
            with pytest.raises(kspec.HostFault, match=rf"^strict<double, .*>: {message}"):
                STRICT.by_key(X, wrong, 3, deterministic=deterministic)
    assert TOTAL.by_key(X, wrong, 3).tolist() == [3, 8, 0]


@pytest.mark.gpu
@pytest.mark.unsanitized("a kernel that stops is what the tools look for")
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("n", [5, 3000])
def test_strict_keys_on_a_gpu(n: int, deterministic: bool) -> None:
    words = [sys.executable, "-c", ON_A_GPU, "7000", str(n), str(deterministic)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert f"kspec: by_key: keys[7000] is {n}: keys must be from 0 to {n - 1}" in done.stdout
    assert done.returncode == 1 and "CUDA_ERROR" in done.stderr, done.stderr
