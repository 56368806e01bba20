"""Rows of `benchmarks.overhead` with tensors of torch: plain calls, and calls of operators.

A floor is an operator in Python that only makes its outputs: the time that torch's dispatcher and
its autograd take before a kernel can be called. As an operator whose gradients are refused must,
the one without gradients is asked for them, in Python, before it is run.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import replace
from typing import Any

from benchmarks import kernels
from benchmarks.call_bench import Bench, NotHereError, Plan
from benchmarks.kernels import Text
from benchmarks.timing import Call

_PRODUCT = replace(
    kernels.ADD_F32,
    arguments=("float32 x, float32 y", "float32 z", "z = x * y", "product_f32"),
    options={"backward": {"x": "grad_z * y", "y": "grad_z * x"}},
)


def plain(bench: Bench, given: bool) -> Plan:
    """A kernel, beside torch's own function and CuPy's kernel."""
    x, y, z = bench.tensors(3)
    assert bench.torch is not None
    arguments = (x, y, z) if given else (x, y)
    keywords = {"out": z} if given else {}
    calls: dict[str, Call] = {
        "kspec": functools.partial(bench.kernel(kernels.ADD_F32), *arguments),
        "torch": functools.partial(bench.torch.add, x, y, **keywords),
    }
    return Plan(
        bench.with_cupy(calls, given),
        bench.same(calls["kspec"], lambda: bench.numpy(x) + bench.numpy(y)),
    )


def operator(bench: Bench) -> Plan:
    """A kernel through torch's dispatcher, beside torch's own operator and the plain call."""
    x, y = bench.tensors(2)
    calls: dict[str, Call] = {
        "kspec": functools.partial(_registered(bench, kernels.ADD_F32), x, y),
        "torch": functools.partial(bench.torch.add, x, y),
        "plain call": functools.partial(bench.kernel(kernels.ADD_F32), x, y),
        "floor": functools.partial(_floor(bench.torch)[1].add.default, x, y),
    }
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x) + bench.numpy(y)))


def compiled(bench: Bench) -> Plan:
    """The same in a program of `torch.compile`, beside such a program of torch's own operator."""
    x, y = bench.tensors(2)
    if bench.machine.kind == "host":
        raise NotHereError("programs of torch.compile are timed on GPUs")

    def program(add: Any) -> Call:
        found = bench.torch.compile(lambda x, y: add(x, y), fullgraph=True, dynamic=False)
        found(x, y)
        return functools.partial(found, x, y)

    calls = {
        "kspec": program(_registered(bench, kernels.ADD_F32)),
        "torch": program(bench.torch.add),
    }
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x) + bench.numpy(y)))


def differentiated(bench: Bench) -> Plan:
    """A product and its two gradients, beside torch's own."""
    x, y = (one.requires_grad_() for one in bench.tensors(2))
    (ones,) = bench.tensors(1)
    grad = bench.torch.autograd.grad

    def gradients(product: Any) -> Call:
        return lambda: grad(product(x, y), (x, y), ones)

    calls = {
        "kspec": gradients(_registered(bench, _PRODUCT)),
        "torch": gradients(bench.torch.mul),
        "floor": gradients(_floor(bench.torch)[1].mul.default),
    }

    def check() -> list[tuple[Any, Any]]:
        found, known = ([bench.numpy(one) for one in calls[name]()] for name in ("kspec", "torch"))
        return list(zip(found, known, strict=True))

    return Plan(calls, check)


def _registered(bench: Bench, text: Text) -> Any:
    """Return the operator of a kernel."""
    kernel = bench.kernel(text)
    register = importlib.import_module("kspec.torch").register
    return getattr(register(kernel, namespace="kspec_benchmarks"), kernel.name).default


@functools.cache
def _floor(torch: Any) -> tuple[Any, Any]:
    """Return a library, and its operators that only make their outputs, one with gradients."""

    class Empty(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return torch.empty_like(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return tuple(map(torch.empty_like, ctx.saved_tensors))

    library = torch.library.Library("kspec_floor", "FRAGMENT")
    for name in ("add", "mul"):
        library.define(f"{name}(Tensor x, Tensor y) -> Tensor")
        for key in ("CPU", "CUDA"):
            library.impl(name, lambda x, y: torch.empty_like(x), key)
    below, add = torch._C._AutoDispatchBelowAutograd, torch.ops.kspec_floor.add.default

    def without_gradients(x: Any, y: Any) -> Any:
        assert not (x.requires_grad or y.requires_grad)
        with below():
            return add(x, y)

    library.impl("add", without_gradients, "Autograd")
    library.impl("mul", Empty.apply, "Autograd")
    return library, torch.ops.kspec_floor
