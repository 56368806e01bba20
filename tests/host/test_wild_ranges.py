"""Accesses that a range check or the host compiler could lose: each is a fault, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import kspec

MODES = pytest.mark.parametrize("sanitize", [None, "memory", "race", "init"])
SIZES = [-1, -8, -64, -(2**20), -(2**40), -(2**46), -(2**62), -(2**63), 2**62, 65]


def one(body: str) -> kspec.RawKernel:
    text = f'extern "C" __global__ void k(char* p, long long n) {{ {body} }}'
    return kspec.RawKernel(text, "k")


@MODES
@pytest.mark.parametrize(
    "body",
    [
        "memset(p, 0, n);",
        "memcpy(p, p + 8, n);",
        "memcpy(p + 8, p, n);",
        "memmove(p + 8, p, n);",
        "memmove(p, p + 8, n);",
        "__shared__ char t[64]; memset(t, 0, n); p[0] = t[3];",
        "extern __shared__ char t[]; memset(t, 0, n); p[0] = t[3];",
        "__shared__ char t[64]; memcpy(t, p, n); p[0] = t[3];",
    ],
)
def test_sizes(body: str, sanitize: str | None) -> None:
    kernel, p = one(body), np.zeros(64, "int8")
    for n in SIZES:
        with pytest.raises(kspec.HostFault) as caught:
            kernel((1,), (1,), (p, n), shared_mem=64, sanitize=sanitize)
        assert caught.value.kind == "illegal-address", n
        assert "read-only" not in caught.value.message
    if sanitize != "init":  # nothing has written to t
        kernel((1,), (1,), (p, 0), shared_mem=64, sanitize=sanitize)


@MODES
def test_local_arrays(sanitize: str | None) -> None:
    kernel = one("char t[64]; memset(t, 0, n); p[0] = t[n & 3];")
    for n in SIZES[:-1] if sanitize else SIZES:  # checks of accesses leave out a thread's own stack
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            kernel((1,), (1,), (np.zeros(64, "int8"), n), sanitize=sanitize)


@MODES
@pytest.mark.parametrize("header", ["", "#include <string.h>\n", "#include <cstring>\n"])
def test_sizes_beside_local_arrays(header: str, sanitize: str | None) -> None:
    bodies = [
        "char t[16]; memset(t, 0, (size_t)-1); p[0] = t[0];",
        "int t[2]; memset(t, 0, 9); p[0] = 1;",
        "int t[2]; memcpy(t, p, 12); p[0] = (char)t[1];",
        "int t[2] = {1, 2}; memcpy(p, t, 12); p[0] = 1;",
        "int t[2] = {1, 2}; memmove(t + 1, t, 8); p[0] = (char)t[1];",
    ]
    heads = (f'extern "C" __global__ void k{k}(char* p) {{ ' for k in range(9))
    text = header + "\n".join(f"{head}{body} }}" for head, body in zip(heads, bodies, strict=False))
    module = kspec.RawModule(
        code=f'{text}\nextern "C" __global__ void fits(char* p) '
        "{ int t[2]; memset(t, 1, 8); memcpy(p, t, 8); memmove(p + 1, p, 3); }"
    )
    for k in range(len(bodies)):
        with pytest.raises(kspec.HostFault, match=r"illegal-address.* at kernel\.cu:"):
            module.get_function(f"k{k}")((1,), (1,), (np.zeros(64, "int8"),), sanitize=sanitize)
    p = np.zeros(64, "int8")
    module.get_function("fits")((1,), (1,), (p,), sanitize=sanitize)
    assert p[:9].tolist() == [1] * 8 + [0]


@MODES
@pytest.mark.parametrize("count", ["(size_t)-64", "-1000", "(size_t)-1"])
def test_sizes_that_the_compiler_knows(count: str, sanitize: str | None) -> None:
    for body in (f"memset(p, 0, {count});", f"memcpy(p, p + 8, {count});"):
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            one(body)((1,), (1,), (np.zeros(64, "int8"), 0), sanitize=sanitize)


def test_elementwise_kernels() -> None:
    kernel = kspec.ElementwiseKernel(
        "int64 n, raw int8 p", "int64 y", "y = n; memset((void*)&p[0], 0, n)"
    )
    for n in SIZES:
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            kernel(np.array([n]), np.zeros(64, "int8"), np.zeros(1, "int64"))


@MODES
def test_copies_and_shared_memory(sanitize: str | None) -> None:
    body = "__shared__ char t[64]; memcpy(t, p, 64); memmove(t + 1, t, 63); memcpy(p, t, n);"
    kernel, p = one(body), np.arange(64, dtype="int8")
    kernel((1,), (1,), (p, 64), sanitize=sanitize)
    assert p.tolist() == [0, *range(63)]


@pytest.mark.parametrize("sanitize", [None, "memory", "none"])
@pytest.mark.parametrize(
    "body",
    [
        "float* q = nullptr; p[0] = (char)q[0]; p[1] = 7;",
        "float* q = nullptr; *q = 1; p[1] = 7;",
        "struct S { int a, b; }; S* q = nullptr; q->b = n; p[1] = 7;",
        "int* q = n ? (int*)p : nullptr; if (!q) *q = 1; p[1] = 7;",
    ],
)
def test_null_pointers_that_the_compiler_knows(body: str, sanitize: str | None) -> None:
    p = np.zeros(64, "int8")
    with pytest.raises(kspec.HostFault, match=r"illegal-address.*null pointer"):
        one(body)((1,), (1,), (p, 0), sanitize=sanitize)
    assert p[1] == 0


@MODES
@pytest.mark.parametrize(
    ("call", "size"),
    [
        ("atomicAdd((int*)(p + n), 1)", 4),
        ("atomicAdd((unsigned long long*)(p + n), 1ull)", 8),
        ("atomicAdd((float*)(p + n), 1.0f)", 4),
        ("atomicAdd((double*)(p + n), 1.0)", 8),
        ("atomicSub((unsigned*)(p + n), 1u)", 4),
        ("atomicMin((int*)(p + n), 1)", 4),
        ("atomicInc((unsigned*)(p + n), 1u)", 4),
        ("atomicXor((int*)(p + n), 1)", 4),
        ("atomicExch((int*)(p + n), 1)", 4),
        ("atomicCAS((int*)(p + n), 0, 1)", 4),
        ("atomicCAS((unsigned short*)(p + n), (unsigned short)0, (unsigned short)1)", 2),
        ("atomicAdd_block((int*)(p + n), 1)", 4),
    ],
)
def test_misaligned_atomics(call: str, size: int, sanitize: str | None) -> None:
    kernel = one(f"{call};")
    p = np.zeros(4, "complex128").view("int8")
    for n in (1, size // 2, size - 1, size + 1):
        if n % size:
            with pytest.raises(kspec.HostFault, match="which is not a multiple of") as caught:
                kernel((1,), (1,), (p, n), sanitize=sanitize)
            assert caught.value.kind == "misaligned-address"
    assert not p.any()
    kernel((1,), (1,), (p, size), sanitize=sanitize)
