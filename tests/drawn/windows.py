"""Windows: stencils with every boundary, weights, conditions, and rolling reductions."""

import numpy as np

from tests.drawn import arguments
from tests.drawn.arguments import FLOATS, INTEGERS, array, pick
from tests.drawn.filters import filtered
from tests.drawn.stencils import stencil

MODES = ["nearest", "reflect", "mirror", "wrap", "constant", "valid"]
EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 2.0**-20, "float64": 2.0**-48}
PLACES = """def places(n, offsets, mode):  # index of each element's neighbours, -1 outside
    j = np.arange(n)[:, None] + np.asarray(offsets)
    if mode == "nearest":
        return j.clip(0, n - 1)
    if mode == "reflect":
        return np.minimum(j % (2 * n), 2 * n - 1 - j % (2 * n))
    if mode == "mirror":
        period = max(2 * n - 2, 1)
        return np.minimum(j % period, period - j % period) % max(n, 1)
    return j % n if mode == "wrap" else np.where((j < 0) | (j >= n), -1, j)"""
SHIFTED = """def shifted(u, reach, mode, value):  # u(dy, dx) as a function
    def at(*offsets):
        result = u
        for axis, k in zip(range(-len(reach), 0), offsets):
            index = places(u.shape[axis], [k], mode)[:, 0]
            taken = np.take(result, index.clip(0), axis)
            outside = (index < 0).reshape([-1] + [1] * (-1 - axis))
            result = np.where(outside, value, taken) if mode == "constant" else taken
        inside = [slice(None)] * u.ndim
        for axis, (before, after) in zip(range(-len(reach), 0), reach):
            if mode == "valid":
                inside[axis] = slice(before, max(u.shape[axis] - after, before))
        return result[tuple(inside)]
    return at"""
ROLLING = [  # dtypes, reduction, identity, reduce type, its value of v along the last axis
    (INTEGERS, ("x", "a + b", "y = a", "0"), None, "v.sum(-1)"),
    (FLOATS, ("x", "a + b", "y = a", "0"), None, "v.sum(-1)"),
    (INTEGERS + FLOATS, ("x", "min(a, b)", "y = a", None), None, "v.min(-1)"),
    (INTEGERS + FLOATS, ("x", "max(a, b)", "y = a", None), None, "v.max(-1)"),
    (FLOATS, ("x", "a + b", "y = a / (_in_ind.size() / _out_ind.size())", "0"), None, "v.mean(-1)"),
    (FLOATS, ("x * x", "a + b", "y = sqrt(a)", "0"), None, "(v * v).sum(-1) ** 0.5"),
    (INTEGERS, ("x * (_J % 3)", "a + b", "y = a", "0"), None, "(v * (J % 3)).sum(-1)"),
    (INTEGERS + FLOATS, ("x", "a", "y = a", None), None, "v[0]"),
    (INTEGERS + FLOATS, ("x", "b", "y = a", None), None, "v[-1]"),
    (FLOATS[:3], ("x", "a + b", "y = a", "0"), "double", "v.sum(-1)"),
]  # fmt: skip


def near(name: str, dtype: str, target: str, size: float) -> str:
    """Return the line that compares an array with its value."""
    if dtype in FLOATS:
        eps = EPSILON[dtype]
        return f"np.testing.assert_allclose(get({name}).astype('float64'), {target}, {eps:.1e}, {eps * size:.1e})"
    return f"np.testing.assert_array_equal(get({name}), {target}.astype({dtype!r}))"


def rolling(random) -> list[str]:
    """Return a program with rolling windows of a reduction."""
    dtypes, parts, kind, want = pick(random, ROLLING)
    text = [
        f"f = kspec.ReductionKernel('T x', 'T y', {', '.join(map(repr, parts))}, 'f', reduce_type={kind!r})",
        PLACES,
        "def want(x, size, axis, mode, step):",
        "    x, axis = np.moveaxis(x, axis, range(-len(axis), 0)), sorted(range(-len(axis), 0))",
        "    tables = []",
        "    for k, n in zip(size, x.shape[x.ndim - len(size):]):",
        "        j = places(n, np.arange(k) - (k // 2 if mode != 'valid' else 0), mode)",
        "        tables.append(j[: n - k + 1] if mode == 'valid' else j)",
        "    tables = [j[::s] for j, s in zip(tables, step)]",
        "    result = np.zeros(x.shape[: x.ndim - len(size)] + tuple(len(j) for j in tables))",
        "    for index in np.ndindex(result.shape):",
        "        batch, own = index[: x.ndim - len(size)], index[x.ndim - len(size) :]",
        "        v = x[batch][np.ix_(*(j[k][j[k] >= 0] for j, k in zip(tables, own)))].ravel()",
        "        inside = np.ix_(*(j[k] >= 0 for j, k in zip(tables, own)))",
        "        J = np.arange(np.prod(size)).reshape(size)[inside].ravel()",
        f"        result[index] = {want}",
        "    return result",
    ]
    for _ in range(int(random.integers(2, 4))):
        dtype = pick(random, dtypes)
        shape = [max(n, 1) for n in arguments.shape(random, int(random.integers(1, 4)), 1500)]
        count = min(len(shape), int(pick(random, [1, 1, 2])))
        axes = [int(k) for k in random.permutation(len(shape))[:count]]
        mode = pick(random, ["valid", "valid", *MODES[:4], "shrink"])
        sizes = [int(random.integers(1, min(shape[k], pick(random, [3, 9, 40])) + 1)) for k in axes]
        steps = [int(pick(random, [1, 1, 1, 2, 3, 7])) for _ in axes]
        kept = list(shape)
        for axis, k, s in zip(axes, sizes, steps, strict=True):
            kept[axis] = -(-(shape[axis] - (k - 1) * (mode == "valid")) // s)
        axis = tuple(k - len(shape) if random.random() < 0.5 else k for k in axes)
        plain = len(axes) == 1 and random.random() < 0.7
        order = np.argsort(axes)  # a window has its elements in C order
        places = [axes[k] for k in order]
        said = [f"{v[0] if plain else tuple(v)}" for v in (sizes, axis, steps)]
        out = f", out={arguments.output(random, dtype, tuple(kept))}" * (random.random() < 0.3)
        text += [
            f"x = {array(random, dtype, tuple(shape))}",
            f"y = f.window(x, {said[0]}, axis={said[1]}, boundary={mode!r}, step={said[2]}{out})",
            f"wide = get(x).astype({'float64' if dtype in FLOATS else 'int64'!r})",
            f"wanted = want(wide, {[sizes[k] for k in order]}, {places}, {mode!r}, {[steps[k] for k in order]})",
            f"wanted = np.moveaxis(wanted, range(-{len(axes)}, 0), {places})",
            f"assert y.shape == {tuple(kept)} and y.dtype == {dtype!r}",
            near("y", dtype, "wanted", 6.0 * np.prod(sizes)),
        ]
    return text


def draw(random: np.random.Generator) -> str:
    """Return a program with stencils, or with rolling windows."""
    kind = pick(random, ["rolling", "filters", "stencils", "stencils"])
    if kind == "rolling":
        text = rolling(random)
    elif kind == "filters":
        text = filtered(random, near)
    else:
        text = stencil(random, near, PLACES, SHIFTED)
    head = ["import ml_dtypes  # bfloat16"] if "bfloat16" in "".join(text) else []
    return (
        "\n".join([*head, f"rng = np.random.default_rng({random.integers(10**6)})", *text]) + "\n"
    )
