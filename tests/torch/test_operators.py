"""Every shipped kernel as an operator: what torch checks of operators, and what bad input meets."""

from __future__ import annotations

import copy
from typing import Any

import kspec_kernels
import numpy as np
import pytest
import torch

import kspec
import kspec.torch
from kspec.errors import ArgumentTypeError, DuplicateKernelError, ShapeError
from kspec.model.declaration import RawDeclaration
from kspec.model.dimensions import core_shape
from kspec.model.forms.kinds import REDUCE
from kspec.model.operators import form_name, operator_forms, operators, refusal
from kspec.runtime.package import modules_of

# Torch warns of itself, of its compiler and of what GPUs could do.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

KERNELS = {
    name: module.kernel(name)
    for module in modules_of(kspec_kernels)
    for name in module.kernel_names
}
OPERATORS = {
    one.name: one
    for kernel in KERNELS.values()
    if not refusal(kernel.declaration) and REDUCE in operator_forms(kernel.declaration)
    for one in operators(kernel.declaration)
}


def arguments(one: Any, place: str, grad: bool) -> tuple[list[Any], dict[str, Any]]:
    """Return small arguments of an operator, floats in float64 where that is precompiled."""
    declaration = one.declaration
    random = torch.Generator().manual_seed(0)
    raw = isinstance(declaration, RawDeclaration)
    params = {param.name: param for param in declaration.params or ()}
    sizes = {} if raw else {name: known[0] for name, known in declaration.sizes}
    values: list[Any] = []
    keywords: dict[str, Any] = {}
    for argument in one.arguments:
        param = params.get(argument.name)
        if argument.keyword:
            if argument.name in ("grid", "block") and not argument.default:
                keywords[argument.name] = [12] if argument.name == "block" else [1]
            elif argument.type == "int" and not argument.default:
                known = declaration.values if raw else dict(declaration.sizes)
                keywords[argument.name] = known[argument.name][0]
        elif argument.is_array:
            dtype = dtype_of(declaration, param.type)
            shape = (12,) if raw or declaration.name.startswith("add_reverse") else (3, 4)
            shape = (4, 4) if raw and one.results else shape
            shape += () if raw else core_shape("", param, sizes)
            made = torch.rand(shape, generator=random, dtype=torch.float64) + 0.5
            made = made if dtype.is_floating_point or dtype.is_complex else made + 2
            wants = grad and dtype.is_floating_point and not argument.written
            values.append(made.to(dtype).to(place).requires_grad_(wants))
        elif argument.type == "SymInt":
            # Elements, or a place in an array.
            values.append(12 if raw or argument.name == "size" else 2)
        elif not argument.default:
            values.append(0.25)
        elif argument.name == "axis":
            values.append([1])
    return values, keywords


def dtype_of(declaration: Any, type_: str) -> Any:
    if isinstance(declaration, RawDeclaration):
        names = {"float": "float32", "double": "float64", "T": "float32"}
        return getattr(torch, names.get(type_, "complex64"))
    return getattr(torch, type_ if len(type_) > 1 else "float64")


def overload(ops: Any, name: str) -> Any:
    kernel, _, chosen = name.partition(".")
    return getattr(getattr(ops, kernel), chosen or "default")


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_accepts_the_operator(name: str, ops: Any, place: str) -> None:
    one = OPERATORS[name]
    found = overload(ops, name)
    differentiable = KERNELS[one.declaration.name].backward is not None and not one.writes
    for grad in {False, differentiable}:
        values, keywords = arguments(one, place, grad)
        torch.library.opcheck(found, tuple(values), keywords)


@pytest.mark.parametrize("name", OPERATORS)
def test_it_does_what_the_kernel_does(name: str, ops: Any, place: str) -> None:
    one = OPERATORS[name]
    kernel: Any = KERNELS[one.declaration.name]
    values, keywords = arguments(one, place, False)
    others = copy.deepcopy(values)
    result = overload(ops, name)(*values, **keywords)
    if isinstance(one.declaration, RawDeclaration):
        names = [argument.name for argument in one.parameters]
        given = dict(zip(names, others, strict=False))
        order = [given.get(param.name) for param in one.declaration.params or ()]
        grid, block = keywords.get("grid"), keywords.get("block")
        sizes = (None, None) if grid is None else (tuple(grid), tuple(block))
        expected = kernel(*sizes, tuple(order))
        if one.results:
            same(result, expected)
    elif one.arguments[-1].name == "keepdims":
        expected = kernel(*others[:-1], axis=1)
        same(result, expected)
    else:
        sized = one.arguments[-1].name == "size"
        expected = kernel(*others[:-1], size=12) if sized else kernel(*others, **keywords)
        if one.results:
            same(result, expected)
    for before, after in zip(values, others, strict=True):
        same(before, after)


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected) and found.stride() == expected.stride()
    else:
        assert found == expected


def test_registering_again_does_nothing(ops: Any) -> None:
    before = ops.l2norm.default
    assert kspec.torch.register(kspec_kernels).l2norm.default is before
    assert kspec.torch.register(kspec_kernels.norms).l2norm.default is before


def test_a_namespace_of_ones_own() -> None:
    one = kspec.torch.register(kspec_kernels.norms.l2norm, namespace="my_norms")
    assert torch.equal(one.l2norm(torch.tensor([3.0, 4.0])), torch.tensor(5.0))
    found = kspec.torch.register(kspec_kernels.math, namespace="my_math")
    assert torch.equal(found.squared_diff(torch.ones(3), torch.zeros(3)), torch.ones(3))


def test_kernels_that_are_declared_again() -> None:
    def declare(slope: str, name: str) -> kspec.ElementwiseKernel:
        gradients = kspec.ElementwiseKernel("T grad_y", "T grad_x", f"grad_x = {slope}", name)
        return kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice", backward=gradients)

    x = torch.ones(2, requires_grad=True)
    for _ in range(2):  # as when a cell of a notebook is run again
        found = kspec.torch.register(declare("2 * grad_y", "slope"), namespace="again")
        (gradient,) = torch.autograd.grad(found.twice(x).sum(), x)
        assert torch.equal(gradient, torch.full((2,), 2.0))
    for slope, name, kept in (("3 * grad_y", "slope", "slope"), ("3 * grad_y", "steep", "twice")):
        with pytest.raises(DuplicateKernelError, match=f"again::{kept} already"):
            kspec.torch.register(declare(slope, name), namespace="again")


def test_names_of_others_are_not_taken() -> None:
    one = kspec.ElementwiseKernel("T x", "T y", "y = x", "kspec_clash")
    other = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "kspec_clash")
    kspec.torch.register(one, namespace="clashes")
    kspec.torch.register(one, namespace="clashes")
    with pytest.raises(DuplicateKernelError, match="clashes::kspec_clash already"):
        kspec.torch.register(other, namespace="clashes")
    mine = kspec.ElementwiseKernel("T x", "T y", "y = x", "relu")
    with pytest.raises(DuplicateKernelError, match="aten::relu already"):
        kspec.torch.register(mine, namespace="aten")


def test_numbers_for_inputs_whose_names_are_alike() -> None:
    alike = kspec.ElementwiseKernel(
        "T x, T y, T x_y", "T z", "z = x * 100 + y * 10 + x_y", "torch_alike"
    )
    call, three = kspec.torch.register(alike).torch_alike, torch.full((2,), 3.0)
    assert call(1.0, 2.0, three).tolist() == [123, 123]
    assert call(1.0, three, 2.0).tolist() == [132, 132]
    assert call(three, three, 2.0).tolist() == [332, 332]
    lengths = kspec.ElementwiseKernel("T x, T op", "T z", "z = x - op", "torch_lengths")
    assert kspec.torch.register(lengths).torch_lengths(three, 1.0).tolist() == [2, 2]


def test_parameters_that_are_called_as_options_of_other_kernels(place: str) -> None:
    x, y = torch.ones(3, device=place), torch.full((3,), 2.0, device=place)
    for name in ("size", "keepdims", "axis"):
        kernel = kspec.ElementwiseKernel(
            f"T x, T {name}", "T z", f"z = x + {name}", f"named_{name}"
        )
        found = getattr(kspec.torch.register(kernel), f"named_{name}")
        assert found(x, y).tolist() == [3, 3, 3] and found(x, 2.0).tolist() == [3, 3, 3]
        torch.library.opcheck(found.default, (x, y))


def test_a_generated_function_of_a_raw_kernel() -> None:
    found = kspec.torch.register(kspec_kernels.raw.my_add, namespace="raw_functions")
    x, y, z = torch.ones(3), torch.full((3,), 2.0), torch.zeros(3)
    found.my_add(x, y, z, grid=[1], block=[3])
    assert z.tolist() == [3, 3, 3]


class TestRawKernelsThatReturnArrays:
    @pytest.fixture
    def matmul(self) -> Any:
        return kspec.torch.register(kspec_kernels.raw.matmul, namespace="raw_returns").matmul

    def test_calls(self, matmul: Any, place: str) -> None:
        a, b = torch.rand(40, 50, device=place), torch.rand(50, 33, device=place)
        for options in ({}, {"TILE": 16}, {"TILE": 32}):
            c = matmul(a, b, **options)
            assert c.device == a.device and c.shape == (40, 33)
            torch.testing.assert_close(c, a @ b)
        assert str(matmul.default._schema) == (
            "raw_returns::matmul(Tensor a, Tensor b, *, SymInt? m=None, SymInt? n=None, "
            "SymInt? k=None, int? TILE=None, int? shared_mem=None) -> Tensor"
        )
        torch.library.opcheck(matmul.default, (a, b), {"TILE": 32})

    def test_in_one_graph(self, matmul: Any, place: str) -> None:
        @torch.compile(fullgraph=True, dynamic=True, backend="eager")
        def run(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return matmul(a + 1, b, TILE=32) * 2

        for rows in (3, 40, 41):
            a, b = torch.rand(rows, 5, device=place), torch.rand(5, 7, device=place)
            torch.testing.assert_close(run(a, b), (a + 1) @ b * 2)

    def test_errors(self, matmul: Any) -> None:
        a = torch.rand(4, 4)
        with pytest.raises(ArgumentTypeError, match="a requires grad, but autograd has no grad"):
            matmul(a.clone().requires_grad_(), a)
        with pytest.raises(kspec.InstanceNotBuilt, match="no instance for T=float32, TILE=8"):
            matmul(a, a, TILE=8)
        # The spec fixes it. What torch raises was a TypeError before 2.14.
        with pytest.raises((TypeError, RuntimeError), match=r"[Uu]nknown keyword argument 'block'"):
            matmul(a, a, block=[4])


def test_what_is_no_module_or_no_operator() -> None:
    raw = kspec.RawKernel('extern "C" __global__ void alone(float* x) {}', "alone")
    with pytest.raises(
        ArgumentTypeError, match=r"alone is a kspec\.RawKernel, which declares no arguments"
    ):
        kspec.torch.register(raw)
    with pytest.raises(ArgumentTypeError, match="numpy is not a module"):
        kspec.torch.register(np)
    with pytest.raises(ArgumentTypeError, match="namespace 'a b'"):
        kspec.torch.register(kspec_kernels, namespace="a b")
    with pytest.raises(ArgumentTypeError, match="distance cannot be an operator: p is Point"):
        kspec.torch.register(KERNELS["distance"])
    assert not hasattr(kspec.torch.register(kspec_kernels), "distance")


@pytest.mark.parametrize(
    ("param", "name", "reason"),
    [
        ("T in", "torch_words", "parameter in has a Python keyword"),
        ("T None", "torch_words", "parameter None has a Python keyword"),
        ("raw T size", "torch_words", "parameter size has the name of a keyword"),
        ("T x", "pass", "kernel pass has a Python keyword"),
        ("T x", "name", "torch.ops has another attribute named name; rename"),
    ],
)
def test_names_that_no_operator_can_have(param: str, name: str, reason: str) -> None:
    read = param.split()[-1] + "[i]" * param.startswith("raw")
    one = kspec.ElementwiseKernel(param, "T y", f"y = {read}", name)
    with pytest.raises(ArgumentTypeError, match=f"{name} cannot be an operator: {reason}"):
        kspec.torch.register(one, namespace="words")


def test_a_tensor_that_requires_grad_without_backward(ops: Any) -> None:
    x = torch.ones(3, dtype=torch.complex128, requires_grad=True)
    with pytest.raises(ArgumentTypeError, match=r"abs_squared: z requires grad.*detach"):
        ops.abs_squared(x)
    with torch.no_grad():
        assert ops.abs_squared(x).tolist() == [1, 1, 1]
    assert ops.abs_squared(x.detach()).tolist() == [1, 1, 1]
    y = torch.ones(3, requires_grad=True)
    assert ops.argmax(y).item() == 0  # an index has no gradient, as torch's own
    with pytest.raises(ArgumentTypeError, match=r"fx3: arr requires grad.*writes"):
        ops.fx3(y, 3, grid=[1], block=[3])


def test_gradients_of_complex_numbers_are_refused(ops: Any) -> None:
    z = torch.ones(3, dtype=torch.complex64, requires_grad=True)
    with pytest.raises(ArgumentTypeError, match="x is complex and requires grad"):
        ops.squared_diff_generic(z, z.detach())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: x.to_sparse(), r"sparse \(torch.sparse_coo\): pass x.to_dense"),
        (lambda x: x.to_sparse_csr(), r"sparse \(torch.sparse_csr\): pass x.to_dense"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), r"pass x\.dequantize"),
        (lambda x: torch.nested.nested_tensor([x, x[:2]]), r"nested .*pass x\.to_padded_tensor"),
    ],
)
def test_tensors_that_are_not_dense(ops: Any, place: str, make: Any, message: str) -> None:
    one = make(torch.eye(3, device=place))
    with pytest.raises(
        ArgumentTypeError, match=f"gelu_bias: argument x: the tensor is .*{message}"
    ):
        ops.gelu_bias(one, 0.0)
    with pytest.raises(ArgumentTypeError, match=message):
        ops.l2norm(one)


def test_dtypes_that_do_not_fit(ops: Any) -> None:
    x, y = torch.ones(3), torch.ones(3, dtype=torch.float64)
    for where in ("cpu", "meta"):
        with pytest.raises(TypeError, match="Type is mismatched"):
            ops.gelu_bias(x.to(where), y.to(where))
        with pytest.raises(TypeError, match="Type is mismatched"):
            ops.squared_diff(y.to(where), y.to(where))


def test_meta_tensors(ops: Any) -> None:
    x = torch.empty(3, 4, 5, device="meta", dtype=torch.float16)
    assert ops.l2norm(x, axis=[0, -1]).shape == (4,)
    assert ops.l2norm(x, axis=1, keepdims=True).shape == (3, 1, 5)
    assert ops.argmax(x).dtype == torch.int64
    assert ops.gelu_bias(x.transpose(0, 1), 0.5).stride() == (15, 5, 1)
    with pytest.raises(ValueError, match="axis"):
        ops.l2norm(x, axis=3)
    with pytest.raises(ShapeError, match=r"gelu_bias: operands .* shapes \(3, 4, 5\) \(4,\)"):
        ops.gelu_bias(x, x[0, :, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_promotes_to_the_widest(ops: Any, place: str, dtype: Any) -> None:
    x = torch.rand(3, 4, device=place, dtype=dtype)
    bias = torch.rand(4, device=place)
    with pytest.raises(TypeError, match="Type is mismatched"):
        ops.gelu_bias(x, bias)
    with torch.autocast(place, dtype=dtype):
        mixed = ops.gelu_bias(x, bias)
        alone = ops.gelu_bias(x, 0.5)
        declared = ops.squared_diff(x, bias)
    assert mixed.dtype == torch.float32 and alone.dtype == dtype
    assert declared.dtype == torch.float32
    assert torch.equal(mixed, ops.gelu_bias(x.float(), bias))


def test_autocast_leaves_what_is_written_alone(ops: Any) -> None:
    x, y = torch.ones(3, dtype=torch.float16), torch.ones(3)
    z = torch.zeros(3, dtype=torch.float32)
    with torch.autocast("cpu"):
        ops.squared_diff_super_generic(x, y, z)
    assert z.tolist() == [0, 0, 0]
    z += 5
    with torch.autocast("cpu"):
        ops.squared_diff_super_generic(x, 2 * y, z)
    assert z.tolist() == [1, 1, 1]


def test_autocast_makes_no_integers() -> None:
    scale = kspec.ElementwiseKernel("float32 x, int32 k", "float32 y", "y = x * k", "scale_by")
    call, x = kspec.torch.register(scale).scale_by, torch.ones(3, dtype=torch.float16)
    with torch.autocast("cpu"):
        assert call(x, torch.full((3,), 2, dtype=torch.int32)).tolist() == [2, 2, 2]
        with pytest.raises(TypeError, match="k is declared int32, but the array has dtype float32"):
            call(x, torch.full((3,), 2.5))


def test_modes_see_the_operator(ops: Any, place: str) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[Any] = []

    class Note(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.arange(3.0, device=place)
    with Note():
        y = ops.squared_diff(x, 2 * x)
    assert overload(ops, "squared_diff") in seen
    assert y.tolist() == [0, 1, 4]
    seen.clear()
    ops.squared_diff(x, x)
    assert seen == []


def test_kernels_that_are_replaced() -> None:
    """By `torch.library`, as for a test that does without a kernel."""
    twice = kspec.ElementwiseKernel("T x", "T y", "y = x + x", "replaced")
    ops = kspec.torch.register(twice, namespace="replacements")
    x = torch.ones(3)
    assert ops.replaced(x).tolist() == [2, 2, 2]
    library = torch.library.Library("replacements", "IMPL")
    library.impl("replaced", lambda x: x * 0, "CPU", allow_override=True)
    assert ops.replaced(x).tolist() == [0, 0, 0]
    library._destroy()
    assert ops.replaced(x).tolist() == [2, 2, 2]


def test_lazy_conjugates(place: str) -> None:
    """A bit of the tensor says that its elements are to be conjugated: they are, before."""
    twice = kspec.ElementwiseKernel("T x", "T y", "y = x + x", "twice_complex")
    ops = kspec.torch.register(twice, namespace="conjugates")
    x = torch.tensor([1 + 2j, 3 - 1j], device=place)
    assert x.conj().is_conj()
    np.testing.assert_array_equal(ops.twice_complex(x.conj()).cpu(), [2 - 4j, 6 + 2j])
    assert ops.twice_complex(x.imag).tolist() == [4, -2]
    assert x.conj().imag.is_neg()
    assert ops.twice_complex(x.conj().imag).tolist() == [-4, 2]


def test_the_generated_module_calls_the_operators(ops: Any) -> None:
    from kspec_kernels import torch as functions

    hidden = {name for name, one in KERNELS.items() if getattr(one.declaration, "forward", "")}
    forms = {
        form_name(name, form)
        for name, one in KERNELS.items()
        for form in operator_forms(one.declaration)
        if not refusal(one.declaration)
    }
    assert set(functions.__all__) == forms - hidden
    x = torch.rand(3, 4, requires_grad=True)
    result = functions.l2norm(functions.gelu_bias(x, 0.5), axis=1)
    assert torch.equal(result, ops.l2norm(ops.gelu_bias(x, 0.5), axis=1)) and result.requires_grad
    assert torch.equal(functions.squared_diff(x, 1.0), ops.squared_diff(x, 1.0))
    y = torch.zeros(12)
    functions.axpy(2.0, torch.ones(12), y)
    assert y.tolist() == [2.0] * 12
