"""Raw kernels: whole sources with macros, templates, shared memory, atomics, textures and old options."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any

import numpy as np

from tests.contract.foreign import sources
from tests.contract.foreign.declared import Foreign, Library, drawn, module, raw


def _texture(library: Library, kernel: Any, given: tuple[Any, ...]) -> None:
    """Call with a texture over an image, of kspec's or CuPy's classes."""
    image, out = given
    height, width = image.shape
    if library.arrays == "numpy":
        texture = constants = importlib.import_module("kspec").texture
        device = {"device": "host"}
    else:  # CuPy's own, for kernels of both
        texture = importlib.import_module("cupy.cuda.texture")
        constants, device = importlib.import_module("cupy").cuda.runtime, {}
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, constants.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, width, height, **device)
    array.copy_from(image)
    sampled = texture.TextureObject(
        texture.ResourceDescriptor(constants.cudaResourceTypeArray, cuArr=array),
        texture.TextureDescriptor(
            (constants.cudaAddressModeClamp,) * 2, constants.cudaFilterModeLinear
        ),
    )
    kernel((2, 2), (8, 8), (out, sampled, height, width))


def _sampled(image: Any, out: Any) -> None:
    out[...] = (image + np.concatenate([image[:, 1:], image[:, -1:]], 1)) / 2


def _constant(library: Library, kernel: Any, given: tuple[Any, ...]) -> None:
    """Call after the constant memory is written through an array over it."""
    x, y, taps = given
    variable = kernel.get_global("taps")
    if library.arrays == "numpy":
        variable = kernel.get_global("taps", device="host")
        variable.array(5, "float32")[...] = taps
    else:
        library.xp.ndarray(5, "float32", variable)[...] = taps
    kernel.get_function("fir")((2,), (32,), (x, y, 50))


def _classified(x, out):
    bits = (x * np.float32(0.5)).view("u4").astype("u8")
    out[...] = np.where(bits & np.uint64(1), bits, bits << np.uint64(32))


def _axpy(x, y, a, n):
    y[:n] += np.float32(a) * x[:n]


def _blur(image, out, height, width):
    padded = np.pad(image, 1, "edge")
    out[...] = sum(padded[r : r + height, c : c + width] for r in range(3) for c in range(3)) / 9


def _block_sums(x, sums, n):
    padded = np.zeros(-(-n // 512) * 512, "f4")
    padded[:n] = x
    sums[...] = padded.reshape(-1, 4, 128).sum((0, 2))


def _pull(points, out, body, n):
    distance = ((points - body["place"]) ** 2).sum(1)
    out[...] = body["mass"] * body["charge"] / np.sqrt(distance + 1)


def _fir(x, y, taps):
    y[...] = np.convolve(x, taps[::-1], "same")


def _keep(flags, x, y, z, n):
    y[...] = np.where(flags, x, -1)
    z[...] = x.astype("i4") ** 2


def _compact(x, kept, masks):
    for warp in range(2):
        own = x[warp * 32 :][:32]
        chosen = own[own % 3 == 0]
        kept[warp * 32 :][: chosen.size] = chosen
        masks[warp] = sum(1 << lane for lane in range(32) if own[lane] % 3 == 0)


def _extremes(x, k, top, low, n):
    top[0], low[0], low[1] = max(top[0], x.max()), k.min(), k.max()
    low[2] |= np.bitwise_or.reduce(1 << (k & 7))


def _laplace(u, v, *extents):
    inner = -6 * u[1:-1, 1:-1, 1:-1]
    for axis in range(3):
        inner += (np.roll(u, 1, axis) + np.roll(u, -1, axis))[1:-1, 1:-1, 1:-1]
    v[1:-1, 1:-1, 1:-1] = inner


def _draw(out, seed, each):
    state = np.uint32(seed) + np.arange(out.size // each, dtype="u4") * np.uint32(747796405)
    state = np.where(state == 0, 1, state).astype("u4")
    for k in range(each):
        state ^= state << np.uint32(13)
        state ^= state >> np.uint32(17)
        state ^= state << np.uint32(5)
        out[k::each] = state


def _lengths(v, out, n):
    out[:, 0], out[:, 1] = np.sqrt((v[:, :3] ** 2).sum(1)), 2 * v[:, 3]


def _mark(seen, last):
    seen[...], last[0] = np.arange(seen.size) % 251, 66_999


def _rotate(z, w, n):
    z[...] = z * np.conj(w) + 1j * np.abs(w)


def _set(at: int, function: Any) -> Any:
    """Return a reference that sets operand `at` to a function of all."""

    def reference(*operands: Any) -> None:
        operands[at][...] = function(*operands)

    return reference


_INDPTR = np.array([0, 40, 41, 41, 90], "int32")
_INDICES = (np.arange(90, dtype="int32") * 7) % 50
_DENSE = drawn(50, dtype="float64")
_DATA = drawn(90, dtype="float64")

RAW = (
    Foreign(
        "Python's numbers for a double and a long long",
        raw(sources.AXPY, "axpy"),
        (drawn(100), drawn(101)[:100].copy(), 0.5, 90),
        _axpy, launch=((4,), (32,)),
    ),
    Foreign(
        "a block of C functions, and a loop over the grid",
        module("activate", sources.BLOCK_OF_C, options=("--std=c++11",)),
        (drawn(500), np.zeros(500, "float32"), np.uint32(500)),
        _set(1, lambda x, *_: 1 / (1 + np.exp(-x))), launch=((3,), (64,)), tolerance=1e-5,
    ),
    Foreign(
        "a tile in shared memory with a border",
        raw(sources.STENCIL, "blur"),
        (drawn(21, 13), np.zeros((21, 13), "float32"), 21, 13),
        _blur, launch=((2, 3), (8, 8)), tolerance=1e-5,
    ),
    Foreign(
        "dynamic shared memory and shuffles",
        raw(sources.DYNAMIC, "block_sums"),
        (drawn(3000), np.zeros(4, "float32"), 3000),
        _block_sums, {"shared_mem": 512}, ((4,), (128,)), tolerance=1e-4,
    ),
    Foreign(
        "a histogram in shared memory whose size is an expression",
        raw(sources.HISTOGRAM, "histogram", options=("-std=c++11",)),
        (drawn(3000, dtype="uint8", low=0, high=256), np.zeros(16, "uint32"), 3000),
        _set(1, lambda data, *_: np.bincount(data >> 4, minlength=16)), launch=((5,), (64,)),
    ),
    Foreign(
        "templates of templates by name expressions",
        module(sources.NAMES[0], sources.TEMPLATES, options=("-std=c++14",), name_expressions=sources.NAMES),
        (drawn(30), 30),
        _set(0, lambda x, n: x**4), launch=((1,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "another name expression of the same module",
        module(sources.NAMES[1], sources.TEMPLATES, options=("-std=c++14",), name_expressions=sources.NAMES),
        (drawn(30, dtype="float64"), 30),
        _set(0, lambda x, n: -x), launch=((1,), (32,)),
    ),
    Foreign(
        "a structure by value",
        raw(sources.BODY, "pull"),
        (drawn(20, 3, dtype="float64"), np.zeros(20), np.array((2.5, (1, 2, 3), -2), sources.BODY_TYPE), 20),
        _pull, launch=((1,), (32,)),
    ),
    Foreign(
        "constant memory through get_global",
        lambda library: library.constructors.RawModule(code=sources.CONSTANT),
        (drawn(50), np.zeros(50, "float32"), drawn(5)),
        _fir, call=_constant, tolerance=1e-5,
    ),
    Foreign(
        "pointers to bool and to small integers",
        raw(sources.FLAGS, "keep"),
        (drawn(40, dtype="bool"), drawn(40, dtype="int16", low=-100, high=100), np.zeros(40, "int8"), np.zeros(40, "uint16"), 40),
        _keep, launch=((2,), (32,)),
    ),
    Foreign(
        "half precision by the toolkit's header",
        raw(sources.HALVES, "axpy_half"),
        (drawn(40, dtype="float16"), drawn(41, dtype="float16")[:40].copy(), np.float32(0.5), 40),
        _set(1, lambda x, y, a, n: x.astype("f4") * a + y.astype("f4")), launch=((2,), (32,)), tolerance=1e-3,
    ),
    Foreign(
        "complex numbers by both of their names",
        raw(sources.COMPLEX, "rotate"),
        (drawn(40, dtype="complex64"), drawn(41, dtype="complex64")[:40].copy(), 40),
        _rotate, launch=((2,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "complex numbers that are sorted",
        module("sort_pairs<complex<double>>", sources.PAIRS, name_expressions=("sort_pairs<complex<double>>", "sort_pairs<float>")),
        (np.round(drawn(40, dtype="complex128")), 20),
        _set(0, lambda z, n: np.sort(z.reshape(-1, 2), 1).ravel()), launch=((1,), (32,)),
    ),
    Foreign(
        "votes of a warp",
        raw(sources.BALLOT, "compact"),
        (drawn(64, dtype="int32", low=0, high=99), np.full(64, -1, "int32"), np.zeros(2, "uint32")),
        _compact, launch=((1,), (64,)),
    ),
    Foreign(
        "a scan by a device template",
        raw(sources.SCAN, "scan_warps"),
        (drawn(96, dtype="int32", low=-9, high=9), np.zeros(96, "int64")),
        _set(1, lambda x, y: x.reshape(-1, 32).cumsum(1).ravel()), launch=((3,), (32,)),
    ),
    Foreign(
        "compare and exchange on floats by their bits",
        raw(sources.EXCHANGE, "extremes"),
        (drawn(500), drawn(500, dtype="int32", low=-50, high=50), np.full(1, -9, "float32"), np.array([99, -99, 0], "int32"), 500),
        _extremes, launch=((4,), (32,)),
    ),
    Foreign(
        "launch bounds, unions, enums and typedefs",
        raw(sources.BOUNDS, "classify"),
        (drawn(128), np.zeros(128, "uint64")),
        _classified, launch=((2,), (64,)),
    ),
    Foreign(
        "three axes and an index macro",
        raw(sources.LAPLACE, "laplace"),
        (drawn(7, 6, 9, dtype="float64"), np.zeros((7, 6, 9)), 7, 6, 9),
        _laplace, launch=((2, 2, 2), (4, 4, 4)), tolerance=1e-9,
    ),
    Foreign(
        "types and extents among the options",
        raw(sources.MATMUL, "matmul", options=("-DREAL=double", "-D", "SIDE=4", "--use_fast_math")),
        (drawn(9, 11, dtype="float64"), drawn(11, 6, dtype="float64"), np.zeros((9, 6)), 9, 6, 11),
        _set(2, lambda a, b, *_: a @ b), launch=((2, 3), (4, 4)),
    ),
    Foreign(
        "a generator of random numbers",
        raw(sources.RANDOM, "draw"),
        (np.zeros(64 * 5, "uint32"), 12345, 5),
        _draw, launch=((2,), (32,)),
    ),
    Foreign(
        "CuPy's headers in a raw kernel",
        raw(sources.STANDARD, "tops"),
        (drawn(50, 7, dtype="int32", low=-99, high=99), np.zeros(50, "int32"), 50, 7),
        _set(1, lambda x, *_: x.max(1)), launch=((2,), (16,)),
    ),
    Foreign(
        "a kernel that a macro declares, and conditional types",
        raw(sources.CONDITIONAL % {"factor": 1.5}, "add_up", ("-DDOUBLE_RESULT",)),
        (drawn(20, dtype="float64"), drawn(21, dtype="float64")[:20].copy(), np.zeros(20)),
        _set(2, lambda a, b, c: a + 1.5 * b), launch=((1,), (20,)),
    ),
    Foreign(
        "vector types and a cast of pointers",
        raw(sources.VECTORS, "lengths"),
        (drawn(40, 4), np.zeros((40, 2), "float32"), 40),
        _lengths, launch=((2,), (32,)), tolerance=1e-5,
    ),
    Foreign(
        "a sort with barriers in loops",
        raw(sources.SORT, "bitonic"),
        (drawn(128),),
        _set(0, lambda x: np.sort(x.reshape(2, 64)).ravel()), launch=((2,), (64,)),
    ),
    Foreign(
        "more blocks than a grid once had",
        raw(sources.GRID, "mark"),
        (np.zeros(134_000, "uint8"), np.zeros(1, "int32")),
        _mark, launch=((67_000, 2), (1,)),
    ),
    Foreign(
        "a texture",
        raw(sources.TEXTURE, "sample"),
        (drawn(9, 12), np.zeros((9, 12), "float32")),
        _sampled, call=_texture, tolerance=5e-3,
    ),
    Foreign(
        "a warp for each row of a sparse matrix",
        raw(sources.CSR, "spmv", options=("--std=c++11",)),
        (_INDPTR, _INDICES, _DATA, _DENSE, np.zeros(4), 4),
        _set(4, lambda p, k, d, x, y, n: np.array([d[a:b] @ x[k[a:b]] for a, b in pairwise(p)])),
        launch=((1,), (128,)),
    ),
)  # fmt: skip
