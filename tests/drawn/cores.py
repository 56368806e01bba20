"""Kernels with core dimensions: small matrices and vectors of any dtype, batch and layout."""

import numpy as np

from tests.drawn.arguments import COMPLEX, FLOATS, pick
from tests.drawn.arguments import INTEGERS as INTS
from tests.drawn.parts import array, head, shape

REAL = (*INTS, *FLOATS)
NARROW = ("float16", "bfloat16")
SORT = """for (int r = 0; r < n; ++r) y(r) = x(r);
for (int r = 1; r < n; ++r)
  for (int k = r; k > 0 && y(k) < y(k - 1); --k) { const T t = y(k); y(k) = y(k - 1); y(k - 1) = t; }"""
SOLVE = """T M[n][n], r[n];
for (int a = 0; a < n; ++a) { r[a] = b(a); for (int c = 0; c < n; ++c) M[a][c] = A(a, c); }
for (int p = 0; p < n; ++p)
  for (int a = p + 1; a < n; ++a) {
    const T f = M[a][p] / M[p][p];
    for (int c = p; c < n; ++c) M[a][c] -= f * M[p][c];
    r[a] -= f * r[p];
  }
for (int a = n - 1; a >= 0; --a) {
  T s = r[a];
  for (int c = a + 1; c < n; ++c) s -= M[a][c] * x(c);
  x(a) = s / M[a][a];
}"""
SOFTMAX = """T top = x(0), sum = 0;
for (int k = 1; k < n; ++k) top = x(k) > top ? x(k) : top;
for (int k = 0; k < n; ++k) { y(k) = exp(x(k) - top); sum += y(k); }
for (int k = 0; k < n; ++k) y(k) /= sum;"""
COLUMNS = """for (int c = _thread; c < m; c += _threads) for (int r = 1; r < n; ++r) A(0, c) += A(r, c);
_sync();
for (int c = _thread; c < m; c += _threads) y(c) = A(0, m - 1 - c);"""
TILES = """for (int e = _thread; e < n * p; e += _threads) {
  T s = 0;
  for (int k = 0; k < m; ++k) s += A(e / p, k) * B(k, e % p);
  C(e / p, e % p) = s;
}"""
STEPS = """for (int step = 1; step < n; step *= 2) {
  T s[n / _threads + 1];
  for (int k = _thread, j = 0; k < n; k += _threads, ++j) s[j] = x(k) + (k >= step ? x(k - step) : T(0));
  _sync();
  for (int k = _thread, j = 0; k < n; k += _threads, ++j) x(k) = s[j];
  _sync();
}
for (int k = _thread; k < n; k += _threads) y(k) = x(k);"""
# inputs with the axes of their items, outputs, operation, NumPy of wide arrays, dtypes, threads; (r)eal results
# fmt: off
KERNELS = (
    ("T A[n, m], T v[m]", "T w[n]", "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) w(r) += A(r, c) * v(c)", "np.einsum('...nm,...m->...n', A, v)", (*REAL, *COMPLEX), ""),
    ("T A[n, m], T B[m, p]", "T C[n, p]", "for (int r = 0; r < n; ++r) for (int c = 0; c < p; ++c) { T s = 0; for (int k = 0; k < m; ++k) s += A(r, k) * B(k, c); C(r, c) = s; }", "A @ B", (*REAL, *COMPLEX), ""),
    ("T a[n], T b[m]", "T C[n, m]", "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) C(r, c) = a(r) * b(c)", "a[..., :, None] * b[..., None, :]", (*REAL, *COMPLEX), ""),
    ("T a[n], T b[n]", "T d", "T s = 0; for (int k = 0; k < n; ++k) s += a(k) * b(k); d = s", "(a * b).sum(-1)", (*REAL, *COMPLEX), ""),
    ("T A[n, n], T h", "T d", "T s = h; for (int k = 0; k < n; ++k) s += A(k, k); d = s", "np.trace(A, axis1=-2, axis2=-1) + h", (*REAL, *COMPLEX), ""),
    ("T A[n, m]", "T B[m, n]", "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) B(c, r) = A(r, c)", "A.swapaxes(-1, -2)", (*REAL, *COMPLEX, "bool"), ""),
    ("T a[3], T b[3]", "T c[3]", "for (int k = 0; k < 3; ++k) { const int l = (k + 1) % 3, m = (k + 2) % 3; c(k) = a(l) * b(m) - a(m) * b(l); }", "np.cross(a, b)", ("int8", "int32", "float32", "float64", "int64"), ""),
    ("T A[2, 2]", "T d, T t", "d = A(0, 0) * A(1, 1) - A(0, 1) * A(1, 0); t = A(0, 0) + A(1, 1)", "(A[..., 0, 0] * A[..., 1, 1] - A[..., 0, 1] * A[..., 1, 0], A[..., 0, 0] + A[..., 1, 1])", (*REAL, *COMPLEX), ""),
    ("T x[n]", "T y[n]", SORT, "np.sort(x, -1)", REAL, "own"),
    ("T x[n]", "T y[n]", "T s = 0; for (int k = 0; k < n; ++k) { s += x(k); y(k) = s; }", "x.cumsum(-1)", (*REAL, *COMPLEX), "own"),
    ("T x[n]", "T y[n]", "for (int k = 0; k < n; ++k) y(n - 1 - k) = x(k)", "x[..., ::-1]", (*REAL, *COMPLEX, "bool"), "own"),
    ("T a[n], T b[m]", "T c[n + m - 1]", "for (int r = 0; r < n; ++r) for (int k = 0; k < m; ++k) c(r + k) += a(r) * b(k)", "np.stack([sum(a[..., r] * b[..., k - r] for r in range(max(0, k - m + 1), min(n, k + 1))) for k in range(n + m - 1)], -1)", REAL, ""),
    ("T c[d], T x", "T y", "T s = 0; for (int k = 0; k < d; ++k) s = s * x + c(k); y = s", "sum(c[..., k] * x ** (d - 1 - k) for k in range(d)) + 0 * x", ("int32", "uint32", "int64", "float64"), ""),
    ("T x", "T y[count]", "T s = 1; for (int k = 0; k < count; ++k) { y(k) = s; s += x; }", "1 + x[..., None] * np.arange(count)", (*REAL, *COMPLEX), ""),
    ("T x[n]", "int64 y", "int best = 0; for (int k = 1; k < n; ++k) if (x(k) > x(best)) best = k; y = best", "x.argmax(-1)", REAL, ""),
    ("T A[n, n], T b[n]", "T x[n]", SOLVE, "np.linalg.solve(A, b[..., None])[..., 0]", ("float32", "float64", *COMPLEX), "r"),
    ("T A[n, m], T B[p, q]", "T C[n * p, m * q]", "for (int a = 0; a < n; ++a) for (int b = 0; b < m; ++b) for (int c = 0; c < p; ++c) for (int d = 0; d < q; ++d) C(a * p + c, b * q + d) = A(a, b) * B(c, d)", "(z := np.einsum('...ab,...cd->...acbd', A, B)).reshape(*z.shape[:-4], n * p, m * q)", REAL, ""),
    ("T x[n]", "T y[n // 2]", "for (int k = 0; k < n / 2; ++k) y(k) = x(2 * k) - x(2 * k + 1)", "x[..., :n // 2 * 2:2] - x[..., 1::2]", ("int8", "int64", "float16", "float32"), ""),
    ("T x[n], S h", "T y[2 * n + 1]", "for (int k = 0; k < n; ++k) { y(2 * k) = x(k); y(2 * k + 1) = x(k) + (T)h; }", "np.concatenate([np.stack([x + 0 * h[..., None], x + h[..., None]], -1).reshape(*(x[..., 0] + h).shape, 2 * n), 0 * (x[..., :1] + h[..., None])], -1)", ("int8", "int64", "float16", "float32"), ""),
    ("T t[u, v, w]", "T y[u, w]", "for (int p = 0; p < u; ++p) for (int q = 0; q < v; ++q) for (int r = 0; r < w; ++r) y(p, r) += t(p, q, r)", "t.sum(-2)", (*REAL, *COMPLEX), ""),
    ("T t[u, v, w, d]", "T y[d, v]", "for (int p = 0; p < u; ++p) for (int q = 0; q < v; ++q) for (int r = 0; r < w; ++r) for (int s = 0; s < d; ++s) y(s, q) += t(p, q, r, s)", "t.sum((-4, -2)).swapaxes(-1, -2)", REAL, ""),
    ("T x[n]", "T y[n]", SOFTMAX, "(e := np.exp(x - x.max(-1, keepdims=True))) / e.sum(-1, keepdims=True)", ("float32", "float64"), "r"),
    ("T x[n], raw T w[2]", "T y[n]", "for (int r = 0; r < n; ++r) { T s = 0; for (int k = 0; k < n; ++k) s += w[{r, k}] * x(k); y(r) = s; }", "np.einsum('rk,...k->...r', w, x)", (*REAL, *COMPLEX), ""),
    ("T x[n]", "int64 y[n]", "for (int k = 0; k < n; ++k) y(k) = (long long)x(k) * n + i", "x * n + np.arange(x[..., 0].size).reshape(x.shape[:-1])[..., None]", ("int8", "int32", "uint16"), ""),
    ("T x[n]", "T lo, T hi, bool any", "lo = hi = x(0); any = false; for (int k = 0; k < n; ++k) { lo = min(lo, x(k)); hi = max(hi, x(k)); any = any || x(k) == T(3); }", "(x.min(-1), x.max(-1), (x == 3).any(-1))", ("int8", "uint16", "int64", "float32", "float64"), ""),
    ("T A[n, m]", "T y[m]", COLUMNS, "A.sum(-2)[..., ::-1]", ("int32", "int64", "float32", "float64", "complex128"), "threads"),
    ("T A[n, m], T B[m, p]", "T C[n, p]", TILES, "A @ B", (*INTS, "float32", "float64", "complex64"), "threads"),
    ("T x[n]", "T y[n]", STEPS, "x.cumsum(-1)", ("int32", "uint8", "float32", "float64"), "threads"),
)
# fmt: on


def axes_of(parameter: str) -> list[str]:
    """Return the core dimensions of a parameter."""
    inside = parameter.partition("[")[2].rstrip("]")
    return (
        []
        if parameter.startswith("raw")
        else [axis.strip() for axis in inside.split(",") if axis.strip()]
    )


def split(parameters: str) -> list[str]:
    """Return the parameters of a list."""
    return [
        p.strip()
        for p in parameters.replace("], ", "];")
        .replace(", T ", ";T ")
        .replace(", S ", ";S ")
        .replace(", raw", ";raw")
        .replace(", bool", ";bool")
        .split(";")
    ]


# fmt: off
REDUCTIONS = (
    ("T x[2], T y[2]", "T s", "(x(0) - y(0)) * (x(1) - y(1))", "a + b", "s = a", "0", "", "", "(x - y).prod(-1).sum(AXES)", (*INTS, "float32", "float64", *COMPLEX)),
    ("T x[3], T y", "T f[2]", "P<T>{x(0) + y, x(1) * x(2)}", "P<T>{a.u + b.u, a.v + b.v}", "f(0) = a.u; f(1) = a.v", "P<T>{0, 0}", "P<T>", "template <class T> struct P { T u, v; };", "np.stack([(x[..., 0] + y).sum(AXES), (x[..., 1] * x[..., 2] + 0 * y).sum(AXES)], -1)", (*INTS[4:], "float32", "float64", *COMPLEX)),
    ("T x[2], T y[2]", "int64 k, T d", "B<T>{(x(0) - y(0)) * (x(0) - y(0)) + (x(1) - y(1)) * (x(1) - y(1)), _J}", "a.d < b.d || (a.d == b.d && a.k < b.k) ? a : b", "k = a.k; d = a.d", None, "B<T>", "template <class T> struct B { T d; long long k; };", "(((x - y) ** 2).sum(-1).reshape(-1).argmin(), ((x - y) ** 2).sum(-1).min())", ("int32", "int64", "float32", "float64")),
    ("T A[n, n], S w", "float64 s", "(double)A(0, n - 1) * (double)w + (double)A(n - 1, 0)", "a + b", "s = a", "0", "", "", "(A[..., 0, -1].astype('f8') * w + A[..., -1, 0]).sum(AXES)", (*REAL,)),
    ("T x[n]", "T y", "x(n - 1)", "max(a, b)", "y = a", "-100", "", "", "x[..., -1].max(AXES, initial=-100)", ("int8", "int32", "int64", "float32", "float64", "float16")),
)
# fmt: on


def reduction(random: np.random.Generator) -> str:
    """Return a program with a reduction of items and some calls of it."""
    inputs, outputs, mapped, reduced, post, identity, kind, preamble, wanted, dtypes = pick(
        random, REDUCTIONS
    )
    more = f", reduce_type={kind!r}, preamble={preamble!r}" if kind else ""
    text = (
        head(random)
        + f'f = kspec.ReductionKernel({inputs!r}, {outputs!r}, {mapped!r}, {reduced!r}, {post!r}, {identity!r}, "f"{more})\n'
    )
    names = [p.split("[")[0].split()[-1] for p in split(inputs)]
    dtype, size = pick(random, dtypes), int(random.integers(1, 7))
    for _ in range(5):
        axes = int(random.integers(1, 4))
        batch = tuple(
            max(n, int(identity is None))
            for n in shape(random, axes, pick(random, (10, 300, 3000)))
        )
        chosen = (
            None
            if identity is None
            else pick(random, (None, int(random.integers(-axes, axes)), tuple(range(axes))))
        )
        keep = "" if identity is None else pick(random, ("", ", keepdims=True"))
        for k, (parameter, name) in enumerate(zip(split(inputs), names, strict=True)):
            item = tuple(int(s) if s.isdigit() else size for s in axes_of(parameter))
            thin = (
                batch
                if k == 0 and random.random() < 0.6
                else tuple(n if axis % 2 == k or n == 0 else 1 for axis, n in enumerate(batch))
                if random.random() < 0.5
                else batch
            )
            given = (
                dtype if parameter.startswith("T") else pick(random, ("int32", "float32", "int8"))
            )
            text += f"{name} = {array(random, given, (*thin, *item))}\n"
        text += f"got = f({', '.join(names)}, axis={chosen}{keep})\n" + "".join(
            f"{name} = wide(get({name}))\n" for name in names
        )
        text += f"want = {wanted.replace('AXES', f'axis={chosen}{keep}')}\n"
        text += "for a, b in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):\n    b = np.asarray(b)\n    assert a.shape == b.shape, (a.shape, b.shape)\n    np.testing.assert_array_equal(wide(get(a)), wide(b.astype(a.dtype)))\n"
        dtype = pick(random, (dtype, dtype, pick(random, dtypes)))
    return text


def draw(random: np.random.Generator) -> str:
    """Return a program with a kernel of items and some calls of it."""
    if random.random() < 0.2:
        return reduction(random)
    inputs, outputs, operation, wanted, dtypes, how = pick(random, KERNELS)
    threads = (
        ', sizes={"count": [3]}'
        if "count" in outputs
        else f', threads="{pick(random, ("warp", "block"))}"'
        if how == "threads"
        else ""
    )
    text = (
        head(random)
        + f'f = kspec.ElementwiseKernel({inputs!r}, {outputs!r}, """\n{operation}\n""", "f"{threads})\n'
    )
    names = [p.split("[")[0].split()[-1] for p in split(inputs)]
    sizes: dict[str, int] = {}
    for _ in range(5):
        dtype = pick(random, dtypes)
        if not sizes or random.random() < 0.3:
            largest = pick(random, (3, 4, 8, 30 if how != "r" else 8)) if "d]" not in inputs else 4
            sizes = {
                s: int(
                    random.integers(
                        0 if random.random() < 0.1 and "(0" not in operation and how != "r" else 1,
                        largest + 1,
                    )
                )
                for p in split(inputs)
                for s in axes_of(p)
                if not s.isdigit()
            }
            sizes |= {"count": int(random.integers(1, 6))} if "count" in outputs else {}
        if "argmax" in wanted or "n + m - 1" in outputs:
            sizes = {s: max(n, 1) for s, n in sizes.items()}
        batch = shape(random, int(random.integers(0, 4)), pick(random, (10, 300)))
        text += "".join(f"{s} = {n}; " for s, n in sizes.items()) + "\n"
        for parameter, name in zip(split(inputs), names, strict=True):
            item = tuple(int(s) if s.isdigit() else sizes[s] for s in axes_of(parameter))
            if parameter.startswith("raw"):
                extents: tuple[int, ...] = (sizes["n"], sizes["n"])
            else:
                front = (
                    batch[int(random.integers(0, len(batch) + 1)) :]
                    if len(names) > 1 and random.random() < 0.4
                    else batch
                )
                thin = tuple(1 if len(names) > 1 and random.random() < 0.15 else n for n in front)
                extents = (*thin, *item)
            most = 3 if dtype in NARROW else 9
            made = array(
                random,
                dtype
                if parameter.startswith(("T", "raw"))
                else pick(random, ("int32", "float32", "int8")),
                extents,
                1 if "powers" in operation or "* x +" in operation else most,
            )
            text += f"{name} = {made}\n"
            if how == "r" and name == "A":
                text += "A = A + xp.asarray(90 * np.eye(n, dtype=A.dtype))\n"
        count = ", count=count" if "count" in sizes else ""
        got = f"got = f({', '.join(names)}{count})\n"
        if how == "own" and 0 < sizes["n"] <= 32 and random.random() < 0.3:
            got = "x = x.copy(); old = get(x).copy(); got = f(x, x)\n"
        elif (
            "y" in outputs
            and "," not in outputs.split("[")[0]
            and "+=" not in operation.split("(r + k)")[0].replace("s +=", "")
            and "+ 1]" not in outputs
            and random.random() < 0.3
        ):
            got += (
                "out = xp.ones(got.shape, got.dtype, order='F'); got = f("
                + ", ".join(names)
                + f", out=out{count})\nassert got is out\n"
            )
        text += got
        text += "g = got if isinstance(got, tuple) else (got,)\n" + "".join(
            f"{name} = wide({'old' if 'old =' in got else f'get({name})'})\n" for name in names
        )
        rtol = {"float32": 2e-4, "complex64": 2e-4}.get(dtype, 1e-9) if how == "r" else 0
        text += f"want = {wanted}\nfor a, b in zip(g, want if isinstance(want, tuple) else (want,), strict=True):\n    assert a.shape == b.shape, (a.shape, b.shape)\n    np.testing.assert_allclose(wide(get(a)), wide(np.asarray(b).astype(a.dtype)), rtol={rtol}, atol={rtol})\n"
    return text
