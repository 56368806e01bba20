"""Generated modules in, operators of torch's dispatcher out, each once a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import torch

from kspec.errors import ArgumentTypeError, DuplicateKernelError
from kspec.locks import make_lock
from kspec.model.backward import Backward, form_gradient_fault
from kspec.model.declaration import RawDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.operators import (
    Operator,
    gradient_numbers,
    operator,
    operator_forms,
    operators,
    refusal,
)
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.kernels.identity import Kernel, called_in, identity_of, kernel_of
from kspec.runtime.package import modules_of
from kspec.runtime.raw.kernel import RawKernel
from kspec.torch.autocast import make_autocast
from kspec.torch.autograd import Gradients
from kspec.torch.batching import make_batching
from kspec.torch.derivatives import make_derivatives
from kspec.torch.execution import make_implementation
from kspec.torch.fake import make_fake

# The key of torch's dispatcher under which a device's operators are found while autocast is on.
_AUTOCAST = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
# Keys of tensors that kernels do not take: the call itself says so, with the way out.
_REFUSED = (
    *("MkldnnCPU", "NestedTensorCPU", "QuantizedCPU", "SparseCPU", "SparseCsrCPU"),
    *("NestedTensorCUDA", "QuantizedCUDA", "SparseCUDA", "SparseCsrCUDA"),
)


def register(module: Any, namespace: str | None = None) -> Any:
    """Make every kernel of a generated module a PyTorch operator.

    ``torch.ops.<namespace>.<kernel>`` takes tensors on the CPU and on GPUs, and works under
    `torch.compile` without breaking the graph, in `torch.export`, in CUDA graphs and under
    autocast; it is differentiable where the spec has `backward`. Kernels that take structs,
    textures or parameters that are not declared are left out.

    Other forms of a reduction are operators beside it, ``total_scan``, ``total_segments``,
    ``total_by_key`` and ``total_window``: those that its spec lists in `forms`, or all of a kernel
    made in Python, but for those for which a parameter has the name of an argument.

    Registering a module again does nothing, nor does registering a kernel that was declared again
    as it was.

    Parameters
    ----------
    module : module or kernel
        A generated module, a generated package with all its modules, or one kernel: a
        `kspec.ElementwiseKernel`, say, or a generated function of any kind. A `kspec.RawKernel`
        is in no spec, and refused.
    namespace : str, optional
        Default: the name of the package; ``"kspec"`` for a kernel.

    Returns
    -------
    namespace
        ``torch.ops.<namespace>``.

    Raises
    ------
    DuplicateKernelError
        If the namespace has another operator of a kernel's name.
    ArgumentTypeError
        If it is neither a generated module nor a kernel, or a kernel that cannot be an operator.
    """
    if not isinstance(module, ModuleType):
        kernel = _kernel_of(module)
        reason = refusal(kernel.declaration)
        if reason:
            raise ArgumentTypeError(f"{kernel.name} cannot be an operator: {reason}")
        kernels = [kernel]
        namespace = namespace or "kspec"
    else:
        opened = modules_of(module)
        kernels = [one.kernel(name) for one in opened for name in one.kernel_names]
        namespace = namespace or _package_of(module)
    if not namespace.isidentifier():
        raise ArgumentTypeError(f"namespace {namespace!r} is not an identifier")
    _REGISTRY.add(namespace, [one for one in kernels if not refusal(one.declaration)])
    return getattr(torch.ops, namespace)


def _kernel_of(given: Any) -> KernelCallable[Any]:
    """Return a kernel, or that of a generated function."""
    if isinstance(given, KernelCallable):
        return given
    if isinstance(given, RawKernel):
        raise ArgumentTypeError(
            f"{given.name} is a kspec.RawKernel, which declares no arguments of an operator; "
            "declare it as a raw kernel in a spec file"
        )
    found = called_in(given)
    return kernel_of(given) if found is None else found


def _are_equal(known: KernelCallable[Any], kernel: KernelCallable[Any]) -> bool:
    """Return whether two objects are one kernel: of the same module, or declared alike in Python.

    Whether kernels that compute their gradients are equal is asked when those are registered.
    """
    if known.is_same(kernel):
        return True
    if not (isinstance(known, Kernel) and isinstance(kernel, Kernel)):
        return False
    if known.origin or kernel.origin or identity_of(known) != identity_of(kernel):
        return False
    mine, other = known.backward, kernel.backward
    return (mine and mine.kernel.name) == (other and other.kernel.name)


def _package_of(module: Any) -> str:
    """Return the namespace of a generated module or package: the package's name."""
    name: str = module.__name__
    is_package = hasattr(module, "__path__")
    return (name if is_package else name.rpartition(".")[0] or name).replace(".", "_")


class _Registry:
    """The operators of this process, and the libraries that keep them."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._libraries: dict[str, torch.library.Library] = {}
        self._kernels: dict[tuple[str, str], KernelCallable[Any]] = {}
        self._defined: set[tuple[str, str]] = set()

    def add(self, namespace: str, kernels: Iterable[KernelCallable[Any]]) -> None:
        """Register kernels and what computes their gradients, unless they are there."""
        with self._lock:
            planned = list(self._plan(namespace, kernels))
            library = self._libraries.get(namespace)
            if library is None:
                library = self._libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
            # All of them first: torch looks up the overloads of an operator only once.
            for one, _ in planned:
                library.define(one.schema, tags=(torch.Tag.pt2_compliant_tag,))
            for one, kernel in planned:
                self._defined.add((namespace, one.name))
                self._kernels[namespace, one.packet] = kernel
                _implement(library, namespace, one, kernel)

    def _plan(
        self, namespace: str, kernels: Iterable[KernelCallable[Any]]
    ) -> Iterator[tuple[Operator, KernelCallable[Any]]]:
        """Yield the operators that are missing, each with its kernel."""
        planned: dict[str, tuple[Operator, KernelCallable[Any]]] = {}
        found = [
            (one, kernel)
            for kernel in kernels
            for form in operator_forms(kernel.declaration, listed=kernel.origin is not None)
            for one in operators(kernel.declaration, form)
        ]
        for one, kernel in found:  # which grows: gradients may have gradients
            if one.name in planned:
                _check_equal(namespace, one, planned[one.name][1], kernel)
                continue
            planned[one.name] = one, kernel
            gradients = _gradients_of(one, kernel)
            if gradients is not None:
                backward, made = gradients
                found.append((made, backward.kernel))
        for name, (one, kernel) in planned.items():
            self._check(namespace, one, kernel)
            if (namespace, name) not in self._defined:
                yield one, kernel

    def _check(self, namespace: str, one: Operator, kernel: KernelCallable[Any]) -> None:
        """Raise unless the name of an operator is free, or that of the same kernel."""
        known = self._kernels.get((namespace, one.packet))
        if known is not None:
            _check_equal(namespace, one, known, kernel)
        elif hasattr(getattr(torch.ops, namespace), one.packet):
            raise _taken(namespace, one)


def _check_equal(
    namespace: str, one: Operator, known: KernelCallable[Any], kernel: KernelCallable[Any]
) -> None:
    """Raise unless the kernel of an operator is the one that is known under its name."""
    if not _are_equal(known, kernel):
        raise _taken(namespace, one)


def _taken(namespace: str, one: Operator) -> DuplicateKernelError:
    return DuplicateKernelError(
        f"torch has an operator {namespace}::{one.packet} already, of something else; "
        "register with another namespace="
    )


def _gradients_of(one: Operator, kernel: KernelCallable[Any]) -> tuple[Backward, Operator] | None:
    """Return the gradients of an operator, and the operator for them; None if it has none."""
    backward = kernel.backward
    if backward is None or one.writes or _form_fault(one, backward):
        return None
    declaration = backward.kernel.declaration
    if isinstance(one.declaration, RawDeclaration) or isinstance(declaration, RawDeclaration):
        return None
    return backward, operator(declaration, gradient_numbers(one, declaration))


def _form_fault(one: Operator, backward: Backward | None) -> str:
    """Return why another form of a reduction has no gradients, though the reduction has."""
    if one.form == REDUCE or backward is None:
        return ""
    assert isinstance(one.declaration, ReductionDeclaration)
    return form_gradient_fault(one.declaration, backward.kernel.declaration, one.form)


def _implement(
    library: torch.library.Library, namespace: str, one: Operator, kernel: KernelCallable[Any]
) -> None:
    """Give an operator what it does."""
    name = f"{namespace}::{one.name}"
    found = _gradients_of(one, kernel)
    run = make_implementation(one, kernel)
    for device, autocast_key in _AUTOCAST.items():
        library.impl(one.name, run, device.upper())
        autocast = make_autocast(one, _overload(namespace, one), device)
        if autocast is not None:
            library.impl(one.name, autocast, autocast_key)
    for key in _REFUSED:
        library.impl(one.name, run, key)
    torch.library.register_fake(name, make_fake(one), lib=library)
    batching = make_batching(one, _overload(namespace, one))
    if batching is not None:
        torch.library.register_vmap(name, batching, lib=library)
    gradients = None
    if found is not None:
        backward, made = found
        front, call = _overload(namespace, one), _overload(namespace, made)
        gradients = Gradients(one, backward, front, call, made.writes)
    fault = _form_fault(one, kernel.backward)
    derivatives = make_derivatives(one, _overload(namespace, one), gradients, fault)
    if derivatives is not None:
        library.impl(one.name, derivatives, "Autograd")


def _overload(namespace: str, one: Operator) -> Any:
    """Return torch's object of an operator that is defined."""
    packet = getattr(getattr(torch.ops, namespace), one.packet)
    return getattr(packet, one.overload or "default")


# Operators cannot be taken back, so they belong to the process.
_REGISTRY = _Registry()
