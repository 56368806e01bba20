"""Programs with windows and samples, whose values are those of `scipy.ndimage`."""

from tests.drawn import arguments
from tests.drawn.arguments import FLOATS, INTEGERS, array, pick

MODES = ["nearest", "reflect", "mirror", "wrap", "constant"]
SORT = (
    "T a[9]; int m = 0; for (int p = -1; p <= 1; ++p) for (int q = -1; q <= 1; ++q) a[m++] = u(p, q); "
    "for (int j = 1; j < 9; ++j) { T t = a[j]; int k = j; while (k > 0 && a[k - 1] > t) { a[k] = a[k - 1]; --k; } a[k] = t; } v = a[4]"
)


def image(random, dtype: str, axes: int, least: int = 1) -> tuple[tuple, str]:
    """Return the shape of an image that is not empty, and its text."""
    extents = tuple(max(n, least) for n in arguments.shape(random, axes, 2500))
    return extents, array(random, dtype, extents)


def ranks(random, near) -> list[str]:
    """Return a program with a median, a minimum or a maximum."""
    name = pick(random, ["median", "minimum", "maximum"])
    before, after = (
        (1, 1) if name == "median" else (int(random.integers(9)), int(random.integers(9)))
    )
    text = f"v = u(0, 0); for (int q = {-before}; q <= {after}; ++q) v = {name[:3]}(v, u(0, q))"
    size, reach = (1, before + after + 1), [0, [before, after]]
    if name == "median":
        text, size, reach = SORT, (3, 3), [1, 1]
    lines = [
        "from scipy import ndimage",
        f"f = kspec.ElementwiseKernel('T u', 'T v',\n    {text!r}, 'f',",
        f"    windows={{'u': {{'reach': {reach}, 'boundary': {MODES}}}}})",
    ]
    origin = 0 if name == "median" else (0, before - size[1] // 2)
    for _ in range(3):
        mode, dtype = pick(random, MODES), pick(random, FLOATS + INTEGERS)
        wide = "'float64'" if dtype in FLOATS else "'int64'"
        lines += [
            f"u = {image(random, dtype, 2)[1]}",
            f"v = f(u, boundary={mode!r})",
            f"wanted = ndimage.{name}_filter(get(u).astype({wide}), {size}, mode={mode!r}, origin={origin})",
            f"np.testing.assert_array_equal(get(v).astype({wide}), wanted)",
        ]
    return lines


def weighted(random, near) -> list[str]:
    """Return a program with a correlation along an axis, whose reach calls choose."""
    text = "T sum = 0; for (int k = -R; k <= R; ++k) sum += w[k + R] * u(k); v = sum"
    gradient = random.random() < 0.4
    lines = [
        "from scipy import ndimage",
        f"f = kspec.ElementwiseKernel('T u, raw T w', 'T v',\n    {text!r}, 'f',",
        f"    windows={{'u': {{'reach': ['R'], 'boundary': {MODES}}}}}, sizes={{'R': [1, 2]}}"
        + ", backward={'u': 'adjoint'})" if gradient else
        f"    windows={{'u': {{'reach': ['R'], 'boundary': {MODES}}}}}, sizes={{'R': [1, 2]}})",
    ]  # fmt: skip
    for _ in range(2 if gradient else 3):
        mode, dtype, reach = (
            pick(random, MODES),
            pick(random, FLOATS),
            int(pick(random, [0, 1, 2, 3, 5, 8, 16])),
        )
        lines += [
            f"u = {image(random, dtype, int(random.integers(1, 4)))[1]}",
            f"w = {array(random, dtype, (2 * reach + 1,))}",
            f"v = f(u, w, R={reach}, boundary={mode!r})",
            f"wanted = ndimage.correlate1d(get(u).astype('float64'), get(w).astype('float64'), mode={mode!r})",
            near("v", dtype, "wanted", 30.0 * (2 * reach + 1)),
        ]
        if gradient and dtype in ("float32", "float64"):
            lines += [
                f"g = xp.asarray(rng.standard_normal(u.shape).astype({dtype!r}))",
                f"back = f.backward.kernel(w, g, R={reach}, boundary={mode!r})",
                "left, right = (get(v) * get(g)).sum(dtype='float64'), (get(u) * get(back)).sum(dtype='float64')",
                f"np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-3 * (1 + {reach}))",
            ]
    return lines


def sampled(random, near) -> list[str]:
    """Return a program that reads a raw array between its elements."""
    order = int(pick(random, [0, 1, 1, 3]))
    axes = int(pick(random, [1, 2, 2, 3]))
    names = ["y", "x", "t"][:axes]
    value = int(pick(random, [0, -1, 5]))
    kind = pick(random, ["float32", "float64"])
    table = {"order": order, "boundary": MODES, "value": value}
    lines = [
        "from scipy import ndimage",
        f"f = kspec.ElementwiseKernel('raw T image, {', '.join(f'{kind} {n}' for n in names)}', 'T z',",
        f"    'z = image.sample({', '.join(names)})', 'f', samples={{'image': {table}}})",
    ]
    for _ in range(3):
        mode, dtype = pick(random, MODES), pick(random, FLOATS)
        scipy_mode = {"wrap": "grid-wrap", "constant": "grid-constant"}.get(mode, mode)
        extents, made = image(random, dtype, axes, 2)
        points = arguments.shape(random, int(random.integers(1, 4)), 500)
        lines.append(f"image = {made}")
        for n, extent in zip(names, extents, strict=True):
            lines.append(
                f"{n} = xp.asarray((rng.random({points}) * {extent + 6} - 3).astype({kind!r}))"
            )
            if order == 0:  # halves may go either way
                lines.append(
                    f"{n} = xp.where(abs({n} % 1 - 0.5) < 1e-3, {n} + 0.25, {n}).astype({kind!r})"
                )
        lines += [
            f"z = f(image, {', '.join(names)}, boundary={mode!r})",
            f"places = [get(a).astype('float64') for a in ({', '.join(names)},)]",
            f"wanted = ndimage.map_coordinates(get(image).astype('float64'), places, order={order}, mode={scipy_mode!r}, cval={value}, prefilter=False)",
            f"assert z.shape == {points} and z.dtype == {dtype!r}",
            near(
                "z",
                dtype if kind == "float64" or dtype in FLOATS[:2] else "float32",
                "wanted",
                30.0 * max(extents),
            ),
        ]
    return lines


def paired(random, near) -> list[str]:
    """Return a program with two inputs that have windows of different reach."""
    modes = MODES[: int(random.integers(1, 6))]
    boundary = modes if len(modes) > 1 else repr(modes[0])
    a, b = int(random.integers(4)), int(random.integers(9))
    lines = [
        "from scipy import ndimage",
        f"f = kspec.ElementwiseKernel('T u, T h', 'T v',\n    'v = u(1, {-a}) * h({b}) - u(0, {a}) + h(-1)', 'f',",
        f"    windows={{'u': {{'reach': [1, {a}], 'boundary': {boundary}}}, 'h': {{'reach': [[1, {b}]], 'boundary': {boundary}}}}})",
        "def moved(u, mode, *offsets):  # the array of the elements further along",
        "    weights = np.zeros([2 * abs(k) + 1 for k in offsets])",
        "    weights[tuple(k + abs(k) for k in offsets)] = 1",
        "    return ndimage.correlate(u, weights, mode=mode)",
    ]
    for _ in range(3):
        mode, dtype = pick(random, modes), pick(random, FLOATS + INTEGERS)
        wide = "float64" if dtype in FLOATS else "int64"
        extents, made = image(random, dtype, 2)
        own = pick(random, [extents, (1, extents[1]), extents[1:]])
        lines += [
            f"u, h = {made}, {array(random, dtype, own)}",
            f"v = f(u, h, boundary={mode!r})",
            f"a, b = get(u).astype({wide!r}), np.broadcast_to(get(h), {extents}).astype({wide!r})",
            f"wanted = moved(a, {mode!r}, 1, {-a}) * moved(b, {mode!r}, 0, {b}) - moved(a, {mode!r}, 0, {a}) + moved(b, {mode!r}, 0, -1)",
            f"assert v.shape == {extents} and v.dtype == {dtype!r}",
            near("v", dtype, "wanted", 30.0),
        ]
    return lines


def filtered(random, near) -> list[str]:
    """Return the lines of a program."""
    return pick(random, [ranks, weighted, weighted, sampled, sampled, paired])(random, near)
