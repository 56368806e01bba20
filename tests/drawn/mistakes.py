"""Mistakes as people make them: typos in texts, wrong arguments. Each has an error of kspec's."""

import numpy as np

from tests.drawn.arguments import FLOATS, INTEGERS, array, pick

ELEMENTWISE = [
    ("T x, T y", "T z", "z = x * y + 1"),
    ("T x, T y", "T z", "if (x > y) z = x; else z = y"),
    ("T x, float32 y", "T z, T u", "T t = x * 2; z = t + 1; u = t - 1"),
    ("T x, T y", "T z", "T s = 0, t = 1; { s += x; } z = s * t"),
    ("T x, T y", "bool z", "z = x == y || i % 2 == 0"),
    ("T x, T y", "T z", "switch (i % 2) { case 0: z = x; break; default: z = y; }"),
    ("T x, T y", "T z", "// the larger\nz = max(x, y)"),
    ("T x, T y", "T z", "z = x; /* old */ z += y"),
]
REDUCTIONS = [
    ("T x", "T y", "x", "a + b", "y = a", "0"),
    ("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0"),
    ("T x", "T y", "fabs(x)", "max(a, b)", "y = a", None),
    ("T x", "float64 y", "x", "a + b", "y = a / _in_ind.size()", "0"),
]
WINDOWS = [
    {"u": {"reach": [1], "boundary": "nearest"}},
    {"u": {"reach": [[1, 2], 1], "boundary": ["wrap", "valid"]}},
    {"u": {"reach": ["R"], "boundary": "constant", "value": 3}},
]
ATTEMPT = """def attempt(action, must=False):
    try:
        action()
    except (kspec.KspecError, np.exceptions.AxisError, OverflowError) as error:
        assert str(error)
    except TypeError as error:  # Python's, of keywords
        assert "keyword" in str(error) or "argument" in str(error), error
    else:
        assert not must, 'no error'"""
WRONG = [  # calls of f(x, y) or of a reduction g(x), x and y of one dtype and shape (3, 4)
    "f(x)", "f(x, y, x, x)", "f()", "f(x, y[:2])", "f(x, y, out=xp.ones((2, 4), x.dtype))", "f(x, None)",
    "f(x, 'two')", "f(x, y, axis=0)", "f(x, [1, 2, 3])", "f(x, y, size=5)", "f(x, y, out=(x, y))",
    "f(x, y, out=x[::-1])", "f(x, y.astype('complex64'))", "f(x, y, block_size=0)", "f(x, y, block_size=-3)",
    "f(x, y, block_size='a')", "f(x, y, stream='now')", "f(x, y, out=5)",
    "f(x, y, sanitize='all')", "f(x, object())", "f(x, y, boundary='wrap')", "f(2, 3)", "f(x, 1j)",
    "f(x, y, out=xp.broadcast_to(x[:1], (3, 4)))", "f(x, {})", "f(x, y, R=2)", "f.bind(x)", "f.bind(x, y, axis=1)",
    "g()", "g(x, axis=2)", "g(x, axis=-3)", "g(x, axis=(0, 0))", "g(x, axis=(0, -2))", "g(x, axis=1.5)",
    "g(x, axis='rows')", "g(x, y, x)", "g(5)", "g(x, out=xp.ones(7, x.dtype), axis=0)", "g(x, keepdim=True)",
    "g(x, axis=[[0]])", "g(x, axis=None, out=xp.ones(3, x.dtype))", "g(x[:0], axis=0)", "g(x, out=x)",
    "g.window(x, 9)", "g.window(x, 0)", "g.window(x, -1)", "g.window(x)", "g.window(x, 2, boundary='edge')",
    "g.window(x, (2, 2))", "g.window(x, 2, step=0)", "g.window(x, 2, axis=5)", "g.window(x, 1.5)",
    "g.scan(x, axis=4)", "g.scan(x, exclusive=True)", "g.scan(x, axis=(0, 1))", "g.segments(x)",
    "g.segments(x, np.array([0.5, 2]))", "g.segments(x, xp.asarray([0, 3]))", "g.by_key(x, xp.asarray([0, 1, 1]), -1)",
    "g.by_key(x, xp.asarray([0, 1]), 3)", "g.by_key(x, xp.asarray([0.5, 1, 1]), 3)", "g.by_key(x, [0, 1, 1], 3)",
]  # fmt: skip


def typo(random, text: str) -> str:
    """Return a text with a slip: a character gone, doubled, swapped or another."""
    if not text:
        return pick(random, [" ", ";", "x", "("])
    k = int(random.integers(len(text)))
    c = text[k]
    other = pick(random, list("xyzuiT01 ;,(){}[]=<>+-*/'\"#\\_.é\n"))
    slip = pick(random, ["", c + c, other, c + other, c.upper(), c.lower()])
    return text[:k] + slip + text[k + 1 :]


def slipped(random, parts: list) -> list:
    """Return parts with slips in one or two of them."""
    for _ in range(int(pick(random, [1, 1, 2]))):
        k = int(random.integers(len(parts)))
        parts = [typo(random, p or "") if j == k else p for j, p in enumerate(parts)]
    return parts


def mangled(random, value):
    """Return a table with one part replaced by what does not belong there."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = pick(random, list(value))
        if random.random() < 0.15:
            return {(typo(random, k) if k == key else k): v for k, v in value.items()}
        return {k: mangled(random, v) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and random.random() < 0.6:
        k = int(random.integers(len(value)))
        return [mangled(random, v) if j == k else v for j, v in enumerate(value)]
    return pick(
        random,
        [-1, 0, 1.5, None, "", "edge", "R", [], {}, [1, 2, 3], 10**9, True, ["R", -1], "wrap"],
    )


def draw(random: np.random.Generator) -> str:
    """Return a program whose mistakes must all be errors of kspec's, or no mistakes at all."""
    dtype = pick(random, FLOATS + INTEGERS)
    text = [
        "import ml_dtypes  # bfloat16",
        f"rng = np.random.default_rng({random.integers(10**6)})",
        f"x, y = {array(random, dtype, (3, 4))}, {array(random, dtype, (3, 4))}",
        ATTEMPT,
    ]
    kind = pick(random, ["elementwise", "reduction", "windows", "calls"])
    for _ in range(4):
        if kind == "elementwise":
            parts = ", ".join(map(repr, slipped(random, list(pick(random, ELEMENTWISE)))))
            text.append(
                f"attempt(lambda: kspec.ElementwiseKernel({parts}, 'f')(x, y.astype('float32')))"
            )
            text.append(f"attempt(lambda: kspec.ElementwiseKernel({parts}, 'f')(x, y))")
        elif kind == "reduction":
            parts = ", ".join(map(repr, slipped(random, list(pick(random, REDUCTIONS)))))
            text.append(f"attempt(lambda: kspec.ReductionKernel({parts}, 'f')(x, axis=1))")
        elif kind == "windows":
            windows = mangled(random, pick(random, WINDOWS))
            sizes = pick(random, [{"R": [1]}, mangled(random, {"R": [1, 2]})])
            extra = pick(random, ["", f", sizes={sizes!r}"])
            body = pick(
                random,
                ["v = u", "v = u(1)", "v = u(1, 0)", "v = u(0) + u(9)", "v = u()", "v = u(x)"],
            )
            call = pick(
                random,
                ["(x)", "(x, R=2)", "(x, boundary='wrap')", "(x, R=-1)", "(x, R='a')", "(x[:0])"],
            )
            text.append(
                f"attempt(lambda: kspec.ElementwiseKernel('T u', 'T v', {body!r}, 'f', windows={windows!r}{extra}){call})"
            )
        else:
            text.append(f"attempt(lambda: {pick(random, WRONG)}, must=True)")
    if kind == "calls":
        text[4:4] = [
            "f = kspec.ElementwiseKernel('T x, T y', 'T z', 'z = x + y', 'f')",
            "g = kspec.ReductionKernel('T x', 'T y', 'x', 'max(a, b)', 'y = a', None, 'g')",
        ]
    return "\n".join(text) + "\n"
