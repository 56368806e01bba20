"""PyTorch tensors in, tensors out: on the CPU, and on torch's current stream of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from kspec.runtime.libraries import array_access
from tests.semantics.test_textures import channel_of

torch = pytest.importorskip("torch")

SQUARED_DIFF = kspec.ElementwiseKernel(
    "T x, T y", "T z", "z = (x - y) * (x - y)", "torch_squared_diff"
)
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "torch_total")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return str(request.param)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8", "complex64"]
)
def test_the_callers_kind_comes_back(place: str, dtype: str) -> None:
    x = torch.arange(10, device=place).reshape(2, 5).to(getattr(torch, dtype))
    y = torch.arange(5, device=place).to(getattr(torch, dtype))
    z = SQUARED_DIFF(x, y)
    assert isinstance(z, torch.Tensor)
    assert (z.dtype, z.device, tuple(z.shape)) == (x.dtype, x.device, (2, 5))
    assert torch.equal(z, (x - y) * (x - y))
    assert torch.equal(TOTAL(x, axis=1).cpu(), x.cpu().sum(dim=1).to(x.dtype))


def test_views_and_given_outputs(place: str) -> None:
    x = torch.arange(24.0, device=place).reshape(4, 6)
    out = torch.zeros(3, 4, device=place)
    assert SQUARED_DIFF(x.T[::2], x[:, 0], out) is out
    assert torch.equal(out, (x.T[::2] - x[:, 0]) ** 2)


@pytest.mark.gpu
def test_the_current_stream_is_used() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    x = torch.ones(2**24, device="cuda")
    side = torch.cuda.Stream()
    for _ in range(5):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(3)
            y = SQUARED_DIFF(x, 1)  # waits for fill_ only on the same stream
            x.fill_(1)
        side.synchronize()
        assert bool((y == 4).all())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x.requires_grad_(), "requires grad"),
        (lambda x: x.to_sparse(), "sparse"),
        (lambda x: torch.conj(x.to(torch.complex64)), "conjugate"),
        (lambda x: x.to(torch.complex32), "Unsupported dtype 'complex32'"),
        (lambda x: x.to("meta"), "the tensor is on meta"),
    ],
)
def test_tensors_that_are_refused(spoil: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        SQUARED_DIFF(spoil(torch.ones(3)), 1)


def test_numpy_and_cpu_tensors_mix() -> None:
    z = SQUARED_DIFF(torch.ones(3), np.zeros(3, np.float32))
    assert isinstance(z, torch.Tensor) and z.tolist() == [1, 1, 1]


INCREMENT = kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "torch_increment")
GROW = kspec.ElementwiseKernel("T x, _non_const T y", "", "y += x", "torch_grow")
BODY = "{ y[threadIdx.x] += x[threadIdx.x]; }"
CODE = f'extern "C" __global__ void torch_add_to(const float* x, float* y) {BODY}'
ADD_TO = kspec.RawKernel(CODE, "torch_add_to", params="const float* x, float* y")
BARE_ADD_TO = kspec.RawKernel(CODE, "torch_add_to")


@jit.rawkernel()
def add_to(x, y):  # type: ignore[no-untyped-def]
    y[jit.threadIdx.x] += x[jit.threadIdx.x]


@kspec.fuse()
def fused_add_to(x, y):  # type: ignore[no-untyped-def]
    y += x


def steps(x: Any) -> Any:
    return torch.arange(3, device=x.device)


def copy_to(x: Any, y: Any) -> None:
    place = "host" if x.device.type == "cpu" else "cuda"
    array = kspec.texture.CUDAarray(channel_of("f4"), 3, device=place)
    array.copy_from(x)
    array.copy_to(y)


WRITERS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": INCREMENT,
    "elementwise, without a dynamic-shape plan": lambda x, y: INCREMENT(x[::1], y, block_size=64),
    "what is not const": GROW,
    "bound": lambda x, y: INCREMENT.bind(x, y)(),
    "reduction": lambda x, y: TOTAL(x, out=y, axis=()),
    "raw": lambda x, y: ADD_TO((1,), (3,), (x, y)),
    "raw, without declared parameters": lambda x, y: BARE_ADD_TO((1,), (3,), (x, y)),
    "raw, without declared parameters, bound": lambda x, y: BARE_ADD_TO.bind((1,), (3,), (x, y))(),
    "scan": lambda x, y: TOTAL.scan(x, out=y),
    "segments": lambda x, y: TOTAL.segments(x, torch.arange(4, device=x.device), out=y),
    "by_key": lambda x, y: TOTAL.by_key(x, steps(x), 3, out=y),
    "by_key, in any order": lambda x, y: TOTAL.by_key(x, steps(x), 3, out=y, deterministic=False),
    "window": lambda x, y: TOTAL.window(x, 1, out=y),
    "fuse": fused_add_to,
    "texture": copy_to,
    "raw, bound": lambda x, y: ADD_TO.bind((1,), (3,), (x, y))(),
    "jit": lambda x, y: add_to((1,), (3,), (x, y)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_autograd_is_told_of_what_is_written_to(place: str, name: str) -> None:
    write = WRITERS[name]
    x, y = torch.ones(3, device=place), torch.zeros(3, device=place)
    for _ in range(4):
        before = x._version, y._version
        write(x, y)
        assert (x._version, y._version) == (before[0], before[1] + 1)
    w = torch.full((3,), 5.0, device=place, requires_grad=True)
    a = w * 2
    loss = (a * a).sum()
    write(x, a.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Parameters x and y, of which the kernel adds x to y, and what autograd is told of.
POINTERS = {
    "const": ("const float* x, float* y", (0, 1)),
    "const behind, restrict": ("float const* __restrict__ x, float* const __restrict__ y", (0, 1)),
    "brackets": ("const float x[], float y[]", (0, 1)),
    "nothing is const": ("float* x, float* y", (1, 1)),
    "aliases": ("Row x, Row y", (1, 1)),
    "const aliases": ("const Row x, const Row y", (1, 1)),
    "macros": ("READ x, WRITE y", (1, 1)),
}


@pytest.fixture(params=["", "none"])
def sanitize(request: pytest.FixtureRequest) -> Iterator[str]:
    """Repeated calls have plans on the host only where nothing is checked."""
    with kspec.checking(sanitize=request.param):
        yield request.param


@pytest.mark.usefixtures("sanitize")
@pytest.mark.parametrize("pointers", POINTERS)
def test_raw_kernels_write_behind_pointers_that_are_not_const(place: str, pointers: str) -> None:
    params, expected = POINTERS[pointers]
    known = "typedef float* Row;\n#define READ const float*\n#define WRITE float*\n"
    code = f'{known}extern "C" __global__ void add_to({params}) {BODY}'
    add_to = kspec.RawKernel(code, "add_to")
    for _ in range(4):
        x, y = torch.ones(3, device=place), torch.zeros(3, device=place)
        add_to((1,), (3,), (x, y))
        assert y.tolist() == [1.0] * 3
        assert (x._version, y._version) == expected
    read = kspec.RawKernel(code, "add_to", params="const float* x, float* y")
    for _ in range(4):
        x, y = torch.ones(3, device=place), torch.zeros(3, device=place)
        read((1,), (3,), (x, y))
        assert (x._version, y._version) == (0, 1)


def test_raw_kernels_of_templates(place: str) -> None:
    code = f"template <class X, typename T> __global__ void add_to(X x, T* y) {BODY}"
    names = ["add_to<const float*, float>", "add_to<float*, float>"]
    module = kspec.RawModule(code=code, name_expressions=names)
    for name, expected in zip(names, [(0, 1), (1, 1)], strict=True):
        for _ in range(4):
            x, y = torch.ones(3, device=place), torch.zeros(3, device=place)
            module.get_function(name)((1,), (3,), (x, y))
            assert (x._version, y._version) == expected


def test_parameters_of_modules_are_written_to_in_place(place: str) -> None:
    """And views, which share the counter of their base."""
    x, weights = torch.ones(3, device=place), torch.nn.Parameter(torch.zeros(2, 3, device=place))
    with torch.no_grad():
        for number in range(1, 4):
            BARE_ADD_TO((1,), (3,), (x, weights[1]))
            assert weights._version == number
        BARE_ADD_TO((1,), (3,), (x, weights))
    assert weights._version == 4 and x._version == 0
    assert weights.tolist() == [[1.0] * 3, [3.0] * 3]


def test_what_a_kernel_wrote_before_it_faulted_is_counted() -> None:
    fault = "if (x[threadIdx.x] < 0) __trap();"
    code = f'extern "C" __global__ void fails(const float* x, float* y) {{ {BODY} {fault} }}'
    raw = kspec.RawKernel(code, "fails")
    elementwise = kspec.ElementwiseKernel("T x", "T y", "y = x; if (x < 0) __trap()", "fails")
    calls: list[Callable[[Any, Any], Any]] = [
        lambda x, y: raw((1,), (3,), (x, y)),
        lambda x, y: raw.bind((1,), (3,), (x, y))(),
        elementwise,
        lambda x, y: elementwise.bind(x, y)(),
    ]
    for call in calls:
        for _ in range(4):  # the last ones have a plan
            call(torch.ones(3), torch.zeros(3))
        x, y = torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3)
        with pytest.raises(kspec.HostFault):
            call(x, y)
        assert y[0] == 1 and (x._version, y._version) == (0, 1)


@pytest.mark.parametrize("older", [False, True])
def test_autograd_is_told_by_any_version_of_torch(
    older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if older:
        monkeypatch.setattr(torch._C, "_increment_version", lambda tensor: tensor.data_ptr())
        monkeypatch.setattr(torch.autograd.graph, "increment_version", lambda x: x.add_(0))
    tensors = torch.zeros(3), torch.zeros(3)
    array_access._version_counter()(tensors)
    assert [one._version for one in tensors] == [1, 1]


def test_autograd_is_told_for_shapes_that_change(place: str) -> None:
    for size in range(1, 40):
        x, y = torch.ones(size, device=place), torch.zeros(size, device=place)
        INCREMENT(x, y)
        assert (x._version, y._version) == (0, 1)
        assert y.tolist() == [2.0] * size


def test_new_outputs_and_arguments_that_are_read_only_are_as_they_were(place: str) -> None:
    x = torch.ones(3, device=place)
    for _ in range(4):
        assert INCREMENT(x)._version == 0 and x._version == 0


def test_writing_to_tensors_of_inference_mode(place: str) -> None:
    with torch.inference_mode():
        x = torch.zeros(3, device=place)
        for _ in range(3):
            INCREMENT(x, x)
    for _ in range(3):
        INCREMENT(x, x)
    assert x.tolist() == [6.0] * 3


def test_signs_that_are_flags_of_contiguous_tensors(place: str) -> None:
    """Calls with other tensors of the same shape do not hide them."""
    for shape in (), (1,), (4,):
        x, y = torch.ones(shape, device=place), torch.zeros(shape, device=place)
        for _ in range(5):
            INCREMENT(x)
            INCREMENT(x, y)
            TOTAL(x)
        flagged = torch._neg_view(x)
        assert flagged.is_contiguous() and flagged.is_neg()
        for call in (
            lambda flagged=flagged: INCREMENT(flagged),
            lambda flagged=flagged, x=x: INCREMENT(x, flagged),
            lambda flagged=flagged: TOTAL(flagged),
        ):
            with pytest.raises(kspec.ArgumentTypeError, match="negative by a flag only"):
                call()


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_calls_with_one_element_have_plans(shape: tuple[int, ...], place: str) -> None:
    kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 1", "one_element")
    x = torch.ones(shape, device=place)
    for _ in range(4):
        assert kernel(x).tolist() == (x + 1).tolist()
    assert kernel.cache_info().plans == 1
