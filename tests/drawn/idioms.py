"""Elementwise kernels of one idea each, such as a search, a scatter, a struct or a histogram."""

from typing import NamedTuple

import numpy as np

from tests.drawn import arguments
from tests.drawn.arguments import COMPLEX, FLOATS, INTEGERS, array, pick

SIGNED, UNSIGNED = INTEGERS[::2], INTEGERS[1::2]
SINGLE = FLOATS[2:]
BISECT = "ptrdiff_t lo = 0, hi = w.size(); while (lo < hi) { ptrdiff_t m = (lo + hi) / 2; if (w[m] < x) lo = m + 1; else hi = m; } k = lo"
MATMUL = "ptrdiff_t r = i / b.shape()[1], c = i % b.shape()[1]; T s = 0; for (ptrdiff_t k = 0; k < a.shape()[1]; ++k) s += a[{r, k}] * b[{k, c}]; z = s"
COLLATZ = "int steps = 0; long long v = abs((long long)x) + 1; while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; ++steps; } k = steps"
STEPS = "np.vectorize(lambda v: next(k for k in range(999) if (path := [v] if k == 0 else [*path, path[-1] * 3 + 1 if path[-1] % 2 else path[-1] // 2])[-1] == 1) if v > 1 else 0, otypes=[int])(np.abs(x) + 1)"
HORNER = "T s = 0; for (int k = 0; k < w.size(); ++k) s = s * x + w[k]; z = s"


class Idiom(NamedTuple):
    """A kernel of inputs ``x`` and ``y``, and of what `setup` makes, and its outputs in NumPy."""

    dtypes: list[str]
    inputs: str
    outputs: str
    operation: str
    want: str
    setup: str = ""
    keywords: str = ""
    given: str = ""  # after x and y in a call
    scale: float = 10


IDIOMS = [
    Idiom(FLOATS + SIGNED, "T x, raw T w", "int64 k", BISECT, "np.searchsorted(w, x)", "w = xp.asarray(np.sort(np.array(rng.standard_normal(37) * 5, '{T}')))[::{step}]", given="w"),
    Idiom(SIGNED, "T x", "int32 k", COLLATZ, STEPS),
    Idiom(SINGLE, "T x, raw T w", "T z", HORNER, "np.polyval(w, x)", "w = xp.asarray(np.array(rng.standard_normal(6), '{T}'))[::{step}]", given="w", scale=1e4),
    Idiom(FLOATS + INTEGERS, "T x", "raw T z", "z[n - 1 - i] = x", "x.ravel()[::-1].reshape(shape)", "out = xp.zeros({shape}, '{T}')", given="out"),
    Idiom(FLOATS + INTEGERS, "T x", "raw T z", "z[2 * i] = x; z[2 * i + 1] = 7", "np.stack([x.ravel(), 7 + 0 * x.ravel()], 1).ravel()", "out = xp.zeros(2 * {size}, '{T}')", given="out"),
    Idiom(UNSIGNED, "T x", "raw int32 h", "atomicAdd(&h[x], 1)", "np.bincount(x.ravel(), minlength=10)", "out = xp.zeros(10, 'int32')", given="out"),
    Idiom(FLOATS + INTEGERS, "T x, T y", "T z", "z = x * K + y", "x * 3 + y", keywords=", options=('-DK=3',)"),
    Idiom(SINGLE, "T x", "T z", "z = half * x", "x / 2", keywords=", loop_prep='const T half = T(1) / 2'"),
    Idiom(FLOATS + INTEGERS, "T x", "T z", "z = x - _raw_x[i > 0 ? i - 1 : 0]", "x - np.concatenate([x.ravel()[:1], x.ravel()[:-1]]).reshape(shape)"),
    Idiom(FLOATS + INTEGERS, "T x", "T z", "z = _raw_x[n - 1 - i] + x", "x + x.ravel()[::-1].reshape(shape)"),
    Idiom(SINGLE, "T x", "T z, T u", "sincos(x, &z, &u)", "np.sin(x), np.cos(x)"),
    Idiom(["float64"], "T x", "T z, int32 k", "z = frexp(x, &k)", "*np.frexp(x),"),
    Idiom(["float32"], "T x", "T z, T u", "z = modff(x, &u)", "*np.modf(x),"),
    Idiom(SINGLE, "T x, T y", "T z", "z = atan2(x, y) + copysign(x, y)", "np.arctan2(x, y) + np.copysign(x, y)"),
    Idiom(FLOATS, "T x, T y", "T z", "z = pow(fabs(x) + 1, y)", "(np.abs(x) + 1) ** y", scale=100),
    Idiom(SINGLE, "T x", "T z", "z = erf(x) + erfc(x / 2) + tgamma(fabs(x) + 1)", "special.erf(x) + special.erfc(x / 2) + special.gamma(np.abs(x) + 1)", "from scipy import special", scale=200),
    Idiom(SINGLE, "T x, T y", "T z", "z = fmod(x, fabs(y) + 1)", "np.fmod(x, (np.abs(y).astype('{T}') + 1).astype('{T}'))"),
    Idiom(FLOATS, "T x", "uint8 z", "z = (unsigned char)min(max(float(x) * 100, 0.f), 255.f)", "np.clip((x.astype('float32') * np.float32(100)), 0, 255).astype('uint8')"),
    Idiom(FLOATS, "T x", "bool z", "z = isnan(x) || isinf(x) || signbit(x)", "~np.isfinite(x) | np.signbit(x)"),
    Idiom(SIGNED, "T x, T y", "T z", "z = _floor_divide(x, y)", "np.where(y == 0, 0, x // np.where(y == 0, 1, y))"),
    Idiom(SIGNED, "T x, T y", "T z", "z = kspec::ufunc::remainder(x, y)", "np.where(y == 0, 0, x % np.where(y == 0, 1, y))"),
    Idiom(INTEGERS, "T x", "T z", "z = kspec::ufunc::power(x, T(3))", "x ** 3"),
    Idiom(INTEGERS, "T x, T y", "T z", "z = kspec::ufunc::gcd(x, y) + kspec::ufunc::sign(x)", "np.gcd(x, y) + np.sign(x)"),
    Idiom(FLOATS, "T x, T y", "T z", "z = kspec::ufunc::remainder(x, y)", "np.mod(x.astype('{T}'), y.astype('{T}'))"),
    Idiom(FLOATS + INTEGERS, "T x", "T z", "z = kspec::ufunc::clip(x, T(1), T(4))", "np.clip(x, 1, 4)"),
    Idiom(INTEGERS[4:6], "T x", "int32 z", "z = __popc(x) * 100 + __clz(x)", "np.bitwise_count(x.astype('uint32')).astype('int64') * 100 + 32 - np.where(x < 0, 32, np.frexp(np.maximum(x, 0))[1])"),
    Idiom(["bool"], "T x, T y", "T z", "z = x ^ (y && !x)", "x ^ (y & (1 - x))"),
    Idiom(COMPLEX, "T x, T y", "T z", "z = x / (y + T(8)) + polar(abs(x), arg(x)) * 2", "x / (y + 8) + x * 2", scale=100),
    Idiom(COMPLEX, "T x", "T z", "z = exp(x) * sqrt(y2 * x * conj(x))", "np.exp(x) * np.sqrt(4 * np.abs(x) ** 2)", keywords=", loop_prep='const T y2 = T(4)'", scale=1e4),
    Idiom(FLOATS + SIGNED, "_non_const T x", "T z", "z = x; x += 1", "x"),
    Idiom(SINGLE + SIGNED, "raw T a, raw T b", "T z", MATMUL, "(a @ b)", "a = {a}\nb = {b}", given="a, b, xp.zeros((5, 4), '{T}')"),
    Idiom(FLOATS + INTEGERS, "T x, raw T w", "T z", "z = x + w[{{i % 2, 0, i % 3}}]".replace("{{", "{").replace("}}", "}"), "x + w[i % 2, 0, i % 3]", "w = {cube}", given="w"),
    Idiom(FLOATS, "T x", "T z", "T best = x; for (int k = 1; k < 8; k <<= 1) { T t = best * T(0.5); if (t < -1) break; best = t; } z = best", "np.select([x / 2 < -1, x / 4 < -1, x / 8 < -1], [x, x / 2, x / 4], x / 8)"),
]  # fmt: skip


def idiom(random: np.random.Generator) -> list[str]:
    """Return the lines of a program with one of the kernels."""
    own = pick(random, IDIOMS)
    names = [p.split()[-1] for p in own.inputs.split(", ") if p.split()[-1] in "xy"]
    outputs = [p.split()[-1] for p in own.outputs.split(", ")]
    text = [
        f"f = kspec.ElementwiseKernel({own.inputs!r}, {own.outputs!r},\n    {own.operation!r}, 'f'{own.keywords})"
    ]
    for _ in range(int(random.integers(2, 4))):
        dtype = pick(random, own.dtypes)
        shape = arguments.shape(random, None, 1000) if names else (5, 4)
        facts = {
            "T": dtype,
            "shape": shape,
            "size": int(np.prod(shape, dtype=int)),
            "step": pick(random, [1, 1, 2]),
        }
        facts |= {
            name: array(random, dtype, extents)
            for name, extents in {"a": (5, 7), "b": (7, 4), "cube": (2, 1, 3)}.items()
        }
        whole = len(own.given) or "_raw" in own.operation or len(names) == 1
        text += [f"shape = {shape}", "i = np.arange(np.prod(shape, dtype=int)).reshape(shape)"]
        for k, n in enumerate(names):
            extents = shape if k == 0 or whole else arguments.thinned(random, shape)
            made = array(random, dtype, extents)
            copied = "_non_const" in own.inputs and "broadcast_to" in made
            text.append(f"{n} = xp.array({made})" if copied else f"{n} = {made}")
        text += own.setup.format(**facts).splitlines()
        used = [
            n
            for n in [*names, "w", "a", "b"]
            if n in [p.split()[-1] for p in own.inputs.split(", ")]
        ]
        wide = "complex128" if dtype in COMPLEX else "float64" if dtype in FLOATS else "int64"
        text.append(
            f"def want({', '.join(used)}):\n    return [{own.want.format(**facts) if '{T}' in own.want else own.want}]"
        )
        text.append(f"wanted = want({', '.join(f'get({n}).astype({wide!r})' for n in used)})")
        given = ", ".join([*names, own.given.format(**facts)] if own.given else names)
        text.append(f"{', '.join(outputs)} = f({given})")
        for k, (n, kind) in enumerate(
            zip(outputs, own.outputs.replace("raw ", "").split(", "), strict=True)
        ):
            kind = dtype if kind[0] == "T" else kind.split()[0]
            text.append(f"assert {n}.dtype == {kind!r}")
            if kind in FLOATS + COMPLEX:
                rtol = {
                    "bfloat16": 2.0**-7,
                    "float16": 2.0**-9,
                    "float64": 2.0**-48,
                    "complex128": 2.0**-48,
                }.get(kind, 2.0**-20)
                text.append(
                    f"np.testing.assert_allclose(get({n}).astype({wide!r}), np.broadcast_to(wanted[{k}], {n}.shape), {rtol:.1e}, {rtol * own.scale:.1e})"
                )
            else:
                text.append(
                    f"np.testing.assert_array_equal(get({n}), np.broadcast_to(wanted[{k}], {n}.shape).astype({kind!r}))"
                )
        if "_non_const" in own.inputs:
            text.append(
                "np.testing.assert_allclose(get(x).astype('float64'), wanted[0] + 1, 1e-2, 1e-2)"
            )
    return text
