"""Forms of reductions, of any operation, axis, key and layout, beside sums of NumPy over the same elements."""

import re

import numpy as np

from tests.drawn.arguments import COMPLEX, FLOATS, pick
from tests.drawn.arguments import INTEGERS as INTS
from tests.drawn.parts import array, extent, head, shape

REAL = (*INTS, *FLOATS)
MATRIX = """struct M { unsigned v[N][N]; };
__device__ M times(M a, M b) {
  M c;
  for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) {
    c.v[i][j] = 0;
    for (int k = 0; k < N; k++) c.v[i][j] += a.v[i][k] * b.v[k][j];
  }
  return c;
}
__device__ M of(unsigned x) {
  M c;
  for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) c.v[i][j] = x * (i + 1) + j * j + (i == j);
  return c;
}
__device__ M one() { M c; for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) c.v[i][j] = i == j; return c; }"""
MATRIX_REF = """def ref(x, J, k):
    N, c = {N}, np.broadcast_to(np.eye({N}, dtype="u4"), (*x.shape[1:], {N}, {N}))
    i, j = np.arange(N, dtype="u4")[:, None], np.arange(N, dtype="u4")
    for e in x: c = c @ (e.astype("u4")[..., None, None] * (i + 1) + j * j + np.eye(N, dtype="u4"))
    return (c[..., 0, N - 1],)"""
LAST = "struct L { T v; int set; };"
LAST_REF = "def ref(x, J, k): return (x[-1] if len(x) else np.zeros(x.shape[1:], x.dtype),)"
BEST = "struct B { T v; long long i; };"
PICK = "a.v > b.v || (a.v == b.v && a.i <= b.i) ? a : b"
BEST_REF = """def ref(x, J, k):
    if not len(x): return (np.full(x.shape[1:], -1),)
    J = np.broadcast_to(J, x.shape); best = x == x.max(0)
    return (np.where(best, J, 10**9).min(0),)"""
TWO = "struct S { double s, q; };\n__device__ S both(S a, S b) { return {a.s + b.s, a.q + b.q}; }"
SIZE = "(_in_ind.size() / _out_ind.size())"
# inputs, outputs, map, reduce, post-map, identity, accumulator, preamble, reference, dtypes, most elements of an output
# fmt: off
OPERATIONS = (
    ("T x", "T y", "x", "a + b", "y = a", "0", "", "", "def ref(x, J, k): return (wide(x).sum(0).astype(x.dtype),)", (*REAL, *COMPLEX, "bool"), 9999),
    ("T x", "T y", "x", "a + b", "y = a", "5", "", "", "def ref(x, J, k): return ((wide(x).sum(0) + 5).astype(x.dtype),)", REAL, 9999),
    ("T x", "float64 y", "x * x", "a+b", "y = a", "0", "", "", "def ref(x, J, k): return ((x.astype('f8') ** 2).sum(0),)", (*REAL, "bool"), 9999),
    ("T x", "T y", "x | 1", "a * b", "y = a", "1", "", "", "def ref(x, J, k): return ((x | 1).prod(0, dtype=x.dtype),)", ("uint8", "uint32", "uint64"), 9999),
    ("T x", "T y", "x", "min(a, b)", "y = a", "7", "", "", "def ref(x, J, k): return (x.min(0, initial=7),)", REAL, 9999),
    ("T x", "T y", "x", "max(a, b)", "y = a", None, "", "", "def ref(x, J, k): return (x.max(0),)", REAL, 9999),
    ("T x", "T y", "x", "kspec::ufunc::maximum(a, b)", "y = a", "0", "", "", "def ref(x, J, k): return (x.max(0, initial=0),)", REAL, 9999),
    ("T x", "T y", "x", "a ^ b", "y = a", "0", "", "", "def ref(x, J, k): return (np.bitwise_xor.reduce(x, 0),)", INTS, 9999),
    ("T x", "T y", "x", "a | b", "y = a", "0", "", "", "def ref(x, J, k): return (np.bitwise_or.reduce(x, 0),)", INTS, 9999),
    ("T x", "T y", "x", "a & b", "y = a", "-1", "", "", "def ref(x, J, k): return (np.bitwise_and.reduce(x, 0),)", ("int8", "int16", "int32", "int64"), 9999),
    ("T x", "bool y", "x > 3", "a || b", "y = a", "false", "", "", "def ref(x, J, k): return ((x > 3).any(0),)", REAL, 9999),
    ("T x", "bool y", "x != T(2)", "a && b", "y = a", "true", "", "", "def ref(x, J, k): return ((x != 2).all(0),)", (*REAL, *COMPLEX), 9999),
    ("T x", "int32 y", "x != T(0)", "a + b", "y = a", "0", "", "", "def ref(x, J, k): return ((x != 0).sum(0),)", (*REAL, "bool", *COMPLEX), 9999),
    ("T x", "float64 y", "x", "a + b", f"y = a / {SIZE}", "0", "", "", "def ref(x, J, k): return (wide(x).sum(0) / np.float64(len(x)),)", REAL, 9999),
    ("T x", "T y", "x", "a + b", f"y = a * {SIZE}", "0", "double", "", "def ref(x, J, k): return ((wide(x).sum(0) * len(x)).astype(x.dtype),)", ("float32", "float64", "int64"), 2000),
    ("T x", "int64 y", "x * (_J + 1)", "a + b", "y = a", "0", "", "", "def ref(x, J, k): return ((wide(x) * (J + 1)).sum(0),)", ("int8", "int32", "uint16", "int64"), 9999),
    ("T x", "int64 y", "x + _i % 5", "a + b", "y = a", "0", "", "", "def ref(x, J, k): return ((wide(x) + k % 5).sum(0),)", ("int8", "int32", "int64"), 9999),
    ("T x, S w", "float64 y", "(double)x * (double)w", "a + b", "y = a", "0", "", "", "def ref(x, w, J, k): return ((x.astype('f8') * w.astype('f8')).sum(0),)", REAL, 9999),
    ("T x, T w", "T y, int64 n", "L{x + w, 1}", "L{a.v + b.v, a.n + b.n}", "y = a.v; n = a.n", "L{0, 0}", "L", "struct L { double v; long long n; };", "def ref(x, w, J, k): return ((wide(x) + wide(w)).sum(0).astype(x.dtype), np.full(x.shape[1:], len(x)))", (*FLOATS, "int32", "uint8"), 9999),
    ("T x", "float64 m, float64 v", "S{double(x), double(x) * double(x)}", "both(a, b)", f"const double c = {SIZE}; m = a.s / c; v = a.q / c - m * m", "S{0, 0}", "S", TWO, "def ref(x, J, k): return (x.astype('f8').mean(0), x.astype('f8').var(0)) if len(x) else (np.full(x.shape[1:], np.nan),) * 2", REAL, 9999),
    ("T x", "int64 y", "B{x, _J}", PICK, "y = a.i", "B{T(-100), -1}", "B", BEST, BEST_REF, ("int8", "int64", "float16", "float32", "float64"), 9999),
    ("T x", "T y", "L{x, 1}", "b.set ? b : a", "y = a.v", "L{T(0), 0}", "L", LAST, LAST_REF, (*REAL, *COMPLEX, "bool"), 9999),
    ("T x", "T y", "x", "min(a + b, T(50))", "y = a", "0", "", "", "def ref(x, J, k): return (np.minimum(wide(x).sum(0), 50).astype(x.dtype),)", ("uint8", "uint16", "uint32", "uint64"), 9999),
    ("T x", "uint32 y", "of(x)", "times(a, b)", "y = a.v[0][N - 1]", "one()", "M", MATRIX, MATRIX_REF, ("uint8", "uint32"), 300),
)
# fmt: on
LOOP = """for {each}:
    want = ref({taken}, J=at.reshape(-1, *[1] * (h[0].ndim - 1)), k={number})
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g[k]).astype(np.asarray(w).dtype), w, rtol=1e-12, err_msg=f"at {{k}}")"""
GOT = "got = got if isinstance(got, tuple) else (got,)\n"
SOME = "sorted({*rng.integers(0, N, min(N, 30)).tolist(), 0, N - 1} if N else ())"


def calls(
    random: np.random.Generator,
    inputs: int,
    form: str,
    noncommutative: bool,
    extents: tuple[int, ...],
    operation: tuple,
) -> str:
    """Return one call of a form and its check; the arrays `x`, `w` have so many axes."""
    x = "x, w" if inputs == 2 else "x"
    move = (
        "h = [np.moveaxis(h, {0}, 0) for h in np.broadcast_arrays("
        + ", ".join(f"get({v})" for v in x.split(", "))
        + ")]\nN = len(h[0])\n"
    )
    taken = "*[h[at] for h in h]"
    axes = len(extents)
    axis = int(random.integers(-axes, axes)) if axes else 0
    text = ""
    if form == "reduce":
        some = sorted({int(k) for k in random.integers(0, axes, min(axes, 2))})
        keep = pick(random, ("", ", keepdims=True"))
        chosen = pick(random, (axis, tuple(some), None)) if axes else None
        listed = (
            list(range(axes))
            if chosen is None
            else [chosen % axes]
            if isinstance(chosen, int)
            else list(chosen)
        )
        fold = f"h = [np.moveaxis(h, {listed}, range({len(listed)})) for h in h]; rest = h[0].shape[{len(listed)}:]\n"
        fold += f"h = [h.reshape(int(np.prod(h.shape[:{len(listed)}])), *rest) for h in h]\n"
        text = f"got = f({x}, axis={chosen}{keep})\n{GOT}got = [get(g).reshape(1, *rest) for g in got]\n"
        first = "h = np.broadcast_arrays(" + ", ".join(f"get({v})" for v in x.split(", ")) + ")\n"
        each = "k, at in [(0, np.arange(len(h[0])))]"
        return (
            first
            + fold
            + text
            + LOOP.format(
                each=each, taken=taken, number="np.arange(int(np.prod(rest))).reshape(rest)"
            )
        )
    if form == "scan":
        exclusive, reverse = (
            operation[5] is not None and random.random() < 0.4,
            random.random() < 0.4,
        )
        call = f"({x}, axis={axis}, exclusive={exclusive}, reverse={reverse})"
        text = move.format(axis)
        own = operation[0:2] == ("T x", "T y") and random.random() < 0.3
        text += (
            f"x = x.copy(); h = [h.copy() for h in h]; f.scan({call[1:-1]}, out=x); got = x\n"
            if own
            else f"got = f.scan{call}\n"
        )
        text += GOT + f"got = [np.moveaxis(get(g), {axis}, 0) for g in got]\n"
        cut = {(0, 0): "[:k + 1]", (1, 0): "[:k]", (0, 1): "[k:][::-1]", (1, 1): "[k + 1:][::-1]"}[
            exclusive, reverse
        ]
        each = f"k, at in [(k, np.arange(N){cut}) for k in {SOME}]"
        return text + LOOP.format(
            each=each, taken=taken, number="np.arange(h[0][0].size).reshape(h[0].shape[1:])"
        )
    text = move.format(0)
    if form == "segments":
        kind = pick(
            random,
            ("int32", "int64", "uint64", "int16" if extents[0] < 30000 else "int32", "uint32"),
        )
        many = extent(random, 200)
        bounds = pick(
            random,
            (
                f"rng.integers(0, N + 1, {many + 1})",
                f"np.minimum(rng.integers(0, 4, {many + 1}).cumsum(), N)",
                "[0, 0, N, N]",
            ),
        )
        text += f'b = np.sort({bounds}).astype("{kind}")\ngot = f.segments({x}, xp.asarray(b))\n{GOT}got = [get(g) for g in got]\nassert len(got[0]) == len(b) - 1; N = len(b) - 1\n'
        return text + LOOP.format(
            each=f"k, at in [(k, np.arange(int(b[k]), int(b[k + 1]))) for k in {SOME}]",
            taken=taken,
            number="k",
        ).replace("J=at", "J=np.arange(len(at))")
    if form == "by_key":
        n = extent(random, pick(random, (10, 300, 20000, 20000 if len(extents) > 1 else 500000)))
        keys = pick(
            random,
            (
                f"rng.integers(-1, {n} + 1, N)",
                f"np.sort(rng.integers(0, {n} or 1, N))",
                f"np.full(N, {n // 2})",
                "rng.zipf(1.5, N) - 1",
            ),
        )
        kind = pick(random, ("int32", "int64", "uint32", "int16", "int8", "uint64"))
        order = "" if noncommutative or random.random() < 0.6 else ", deterministic=False"
        text += f'keys = np.clip({keys}, -1, np.iinfo("{kind}").max).astype("{kind}")\ngot = f.by_key({x}, xp.asarray(keys), {n}{order})\n{GOT}got = [get(g) for g in got]\nassert len(got[0]) == {n}; N = {n}\n'
        return text + LOOP.format(
            each=f"k, at in [(k, np.flatnonzero(keys == k)) for k in {SOME}]",
            taken=taken,
            number="k",
        )
    size, step = int(random.integers(1, 12)), int(random.integers(1, 4))
    boundary = pick(random, ("valid", "shrink", "nearest", "reflect", "mirror", "wrap"))
    boundary = "shrink" if extents[axis] < size and boundary == "valid" else boundary
    text = (
        move.format(axis)
        + f'got = f.window({x}, {size}, axis={axis}, boundary="{boundary}", step={step})\n{GOT}'
    )
    text += f"got = [np.moveaxis(get(g), {axis}, 0) for g in got]\n"
    if boundary == "valid":
        places = f"(k, np.arange({step} * k, {step} * k + {size})) for k in {SOME}"
        text += f"N = (N - {size}) // {step} + 1 if N >= {size} else 0\nassert len(got[0]) == N\n"
    else:
        pad = {
            "nearest": "edge",
            "reflect": "symmetric",
            "mirror": "reflect",
            "wrap": "wrap",
            "shrink": "constant",
        }[boundary]
        other = ", constant_values=-1" if boundary == "shrink" else ""
        text += f'p = np.pad(np.arange(N), {size}, mode="{pad}"{other}) if N else ()\n'
        places = f"(k, p[(at := {size} + {step} * k - {size // 2}):at + {size}]) for k in {SOME}"
        places = (
            places.replace("p[(at", "p[(a").replace("]:at +", "]:a +").replace(":at + ", ":a + ")
        )
        text += f"N = -(-N // {step})\nassert len(got[0]) == N\n"
    each = f"k, at in [{places}]"
    loop = LOOP.format(each=each, taken=taken, number="k").replace("J=at", "J=np.arange(len(at))")
    there = ":\n    places = np.flatnonzero(at >= 0); at = at[places]\n"
    return text + (
        loop.replace(":\n", there, 1).replace("np.arange(len(at))", "places")
        if boundary == "shrink"
        else loop
    )


def again(random: np.random.Generator, text: str) -> str:
    """Return a call that is bound, or that is given outputs in another order, now and then."""
    found = re.search(r"got = f(?:\.(\w+))?\((.*)\)\n", text)
    if found is None or random.random() < 0.7:
        return text
    form, given = found[1] or "reduce", found[2]
    if random.random() < 0.3:
        return text.replace(found[0], f'got = f.bind({given}, form="{form}")()\n')
    name = "f" if form == "reduce" else f"f.{form}"
    more = f"o = tuple(xp.ones(g.shape[::-1], g.dtype).T for g in got)\n{name}({given}, out=o if len(o) > 1 else o[0]); got = o\n"
    return text.replace(found[0] + GOT, found[0] + GOT + more)


def draw(random: np.random.Generator) -> str:
    """Return a program with a reduction and some calls of its forms."""
    operation = pick(random, OPERATIONS)
    inputs, outputs, mapped, reduced, post, identity, kind, preamble, reference, dtypes, most = (
        operation
    )
    size = int(random.integers(2, 6))
    if "[N][N]" in preamble:
        preamble, reference = f"#define N {size}\n" + preamble, reference.format(N=size)
    extra = (f", reduce_type={kind!r}" if kind else "") + (
        f",\n    preamble={preamble!r}" if preamble else ""
    )
    text = (
        head(random)
        + f'f = kspec.ReductionKernel({inputs!r}, {outputs!r}, {mapped!r}, {reduced!r}, {post!r}, {identity!r}, "f"{extra})\n{reference}\n'
    )
    noncommutative = (kind in ("M", "L") and "b.set" in reduced) or kind == "M"
    forms = (
        ["scan", "window"]
        + (["segments", "by_key"] if identity is not None else [])
        + ([] if noncommutative else ["reduce"])
    )
    if "_i " in mapped or "const double c" in post:
        forms.remove("window")
    dtype = pick(random, dtypes)
    for _ in range(4):
        form = pick(random, forms)
        axes = int(random.integers(0 if form == "reduce" else 1, 5))
        extents = shape(random, axes, pick(random, (30, 1000, 30000 if most > 999 else 1000)))
        extents = tuple(max(min(n, most), int(identity is None)) for n in extents)
        if most > 2000 and random.random() < 0.06:  # the ways of GPUs with long arrays
            axes, extents = 1, (int(random.integers(10**5, 3 * 10**6)),)
        text += f"x = {array(random, dtype, extents)}\n"
        if "w" in inputs:
            other = dtype if "S" not in inputs else pick(random, REAL)
            small = tuple(
                pick(random, (1, n)) for n in extents[int(random.integers(0, axes + 1)) :]
            )
            text += f"w = {array(random, other, small)}\n"
        text += (
            again(
                random, calls(random, 1 + ("w" in inputs), form, noncommutative, extents, operation)
            )
            + "\n"
        )
        dtype = pick(random, (dtype, dtype, pick(random, dtypes)))
    return text
