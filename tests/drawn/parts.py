"""Arguments as people have them, as Python text: extents, values and layouts of arrays.

`array(random, "int8", (3, 4))` might be ``xp.asarray(rng.integers(-9, 10, (4, 3)).astype("int8")).T``.
Programs begin with `HEAD`, which has what the texts name.
"""

import math
from collections.abc import Sequence

import numpy as np

from tests.drawn.arguments import pick

HEAD = """import ml_dtypes  # NumPy's "bfloat16"
rng = np.random.default_rng({seed})
def wide(x): return x.astype({{"f": "f8", "V": "f8", "c": "c16", "u": "u8"}}.get(x.dtype.kind, "i8"))
"""


def head(random: np.random.Generator) -> str:
    """Return the first lines of a program."""
    return HEAD.format(seed=random.integers(10**6))


def extent(random: np.random.Generator, most: int, zero: float = 0.03) -> int:
    """Return an extent up to `most`: log-uniform, now and then 0, 1 or a power of two and its neighbours."""
    chance = random.random()
    if chance < zero:
        return 0
    if chance < 0.1:
        return 1
    if chance < 0.25 and most > 4:
        power = 2 ** int(random.integers(1, int(math.log2(most)) + 1))
        return min(power + int(random.integers(-1, 2)), most)
    return int(math.exp(random.uniform(0, math.log(most + 0.99))))


def shape(random: np.random.Generator, axes: int, most: int) -> tuple[int, ...]:
    """Return the extents of so many axes, with at most `most` elements."""
    extents: list[int] = []
    for _ in range(axes):
        extents.append(extent(random, max(1, most // max(1, math.prod(extents)))))
    random.shuffle(extents)
    return tuple(extents)


def values(random: np.random.Generator, dtype: str, shape: tuple[int, ...], most: int = 9) -> str:
    """Return an expression of an array of small whole numbers, which all but complex dtypes add exactly."""
    low = 0 if dtype.startswith("u") else -most
    whole = f"rng.integers({low}, {most + 1}, {shape})"
    if dtype == "bool":
        return f"(rng.random({shape}) < {pick(random, (0.1, 0.5, 0.9))})"
    if dtype.startswith("complex"):
        return f'({whole} + 1j * {whole}).astype("{dtype}")'
    return f'{whole}.astype("{dtype}")'


def array(random: np.random.Generator, dtype: str, shape: tuple[int, ...], most: int = 9) -> str:
    """Return an expression of an array of xp with this shape, in whatever layout."""

    def made(extents: Sequence[int]) -> str:
        return f"xp.asarray({values(random, dtype, tuple(int(n) for n in extents), most)})"

    axes = len(shape)
    kind = pick(
        random, ("C", "C", "F", "permuted", "step", "negative", "offset", "crop", "broadcast")
    )
    if axes == 0 or kind == "C":
        return made(shape)
    if kind == "F":
        return f"xp.asfortranarray({made(shape)})"
    if kind == "permuted":
        order = [int(k) for k in random.permutation(axes)]
        return f"{made([shape[k] for k in order])}.transpose({tuple(int(k) for k in np.argsort(order))})"
    if kind == "step":
        steps = [int(n) for n in random.integers(1, 4, axes)]
        cut = ", ".join(f"::{n}" if n > 1 else ":" for n in steps)
        return f"{made([n * s for n, s in zip(shape, steps, strict=True)])}[{cut}]"
    if kind == "negative":
        return f"{made(shape)}[{', '.join(pick(random, ('::-1', ':')) for _ in shape)}]"
    if kind == "offset":
        start = int(random.integers(1, 9))
        return f"{made([math.prod(shape) + start])}[{start}:].reshape({shape})"
    if kind == "crop":
        low, high = random.integers(0, 3, (2, axes))
        cut = ", ".join(f"{a}:{a + n}" for a, n in zip(low, shape, strict=True))
        return f"{made([a + n + b for a, n, b in zip(low, shape, high, strict=True)])}[{cut}]"
    return f"xp.broadcast_to({made([pick(random, (1, n)) for n in shape])}, {shape})"
