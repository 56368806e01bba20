"""Text of arguments as people have them: dtypes, extents, layouts and numbers."""

import math

import numpy as np

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
TOLERANCES = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 2e-5, "complex64": 2e-5}


def pick(random: np.random.Generator, choices):
    """Return one of some choices, unchanged."""
    return choices[int(random.integers(len(choices)))]


def extent(random: np.random.Generator, largest: int = 300) -> int:
    """Return the extent of an axis: 0, 1, or log-uniform; odd ones and primes among them."""
    if random.random() < 0.06:
        return 0
    return int(math.exp(random.uniform(0, math.log(largest + 1))))


def shape(random: np.random.Generator, ndim: int | None = None, size: int = 5000) -> tuple:
    """Return a shape of at most `size` elements."""
    ndim = int(pick(random, [0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5])) if ndim is None else ndim
    extents, left = [], size
    for _ in range(ndim):
        extents.append(extent(random, max(left, 1)))
        left //= max(extents[-1], 1)
    return tuple(extents[k] for k in random.permutation(ndim))


def values(random: np.random.Generator, dtype: str, extents: tuple, low=-9, high=10) -> str:
    """Return the text of a NumPy array of random values from a generator ``rng``."""
    if dtype == "bool":
        return f"(rng.random({extents}) < 0.5)"
    if dtype in INTEGERS:
        return f"rng.integers({0 if dtype[0] == 'u' else low}, {high}, {extents}, {dtype!r})"
    normal = f"rng.standard_normal({extents})"
    if dtype in COMPLEX:
        return f"({normal} + 1j * {normal}).astype({dtype!r})"
    return normal if dtype == "float64" and extents else f"np.array({normal}, {dtype!r})"


def layout(random: np.random.Generator, extents: tuple) -> tuple[tuple, str]:
    """Return the shape of an array, and the text that makes a view with the given extents of it."""
    if random.random() < 0.4 or not extents:
        return extents, ""
    order = random.permutation(len(extents)) if random.random() < 0.5 else range(len(extents))
    base, slices = [], []
    for axis in order:
        step = int(pick(random, [1, 1, 1, 1, 2, 3, -1, -2]))
        skip = int(pick(random, [0, 0, 0, 1, 2, 3]))
        base.append(extents[axis] * abs(step) + skip)
        first = "" if not skip else str(skip if step > 0 else -1 - skip)
        slices.append(f"{first}:" + (f":{step}" if step != 1 else ""))
    view = "" if set(slices) == {":"} else f"[{', '.join(slices)}]"
    axes = tuple(int(k) for k in np.argsort(order))
    return tuple(base), view + (f".transpose{axes}" if axes != tuple(range(len(axes))) else "")


def array(random: np.random.Generator, dtype: str, extents: tuple, low=-9, high=10) -> str:
    """Return the text of an array of ``xp`` of any layout: strided, permuted, reversed."""
    stretched = [k for k, n in enumerate(extents) if n > 1 and random.random() < 0.04]
    if stretched:
        thin = tuple(1 if k in stretched else n for k, n in enumerate(extents))
        return f"xp.broadcast_to({array(random, dtype, thin, low, high)}, {extents})"
    base, view = layout(random, extents)
    return f"xp.asarray({values(random, dtype, base, low, high)}){view}"


def output(random: np.random.Generator, dtype: str, extents: tuple) -> str:
    """Return the text of an array for results, whose old values are ones."""
    base, view = layout(random, extents)
    return f"xp.ones({base}, {dtype!r}){view}"


def thinned(random: np.random.Generator, extents: tuple) -> tuple:
    """Return a shape that broadcasts to the given one."""
    kept = extents[int(random.integers(len(extents) + 1)) if random.random() < 0.3 else 0 :]
    return tuple(1 if random.random() < 0.2 else n for n in kept)


def tolerance(dtype: str) -> float:
    """Return the relative error that some steps of arithmetic may have; 0 for integers."""
    return TOLERANCES.get(dtype, 1e-12 if dtype in ("float64", "complex128") else 0)
