"""Kernels written in Python: drawn functions beside Python itself, and usual programs beside NumPy."""

import numpy as np

from tests.drawn.arguments import INTEGERS as INTS
from tests.drawn.arguments import pick
from tests.drawn.parts import array, extent, head

# (N) elements, (B) threads of a block, (G) blocks, (T) dtype; `x` and `y` are arrays of N elements of T
PROGRAMS = (
    """def k(x, out, n):
    s = jit.shared_memory(x.dtype, B)
    t = np.int32(jit.threadIdx.x)
    total = x.dtype.type(0)
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        total += x[i]
    s[t] = total
    jit.syncthreads()
    half = B // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        jit.syncthreads()
        half //= 2
    if t == 0:
        jit.atomic_add(out, 0, s[0])
out = xp.zeros(1, x.dtype)
k[G, B](x, out, N)
want = wide(hx).sum(keepdims=True).astype("T")
""",
    """def k(x, out, n, bins):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        jit.atomic_add(out, int(x[i]) % bins, 1)
out = xp.zeros(7, pick_int)
k[G, B](x, out, N, 7)
want = np.bincount(wide(hx).astype(int) % 7, minlength=7)
""",
    """def k(x, out, n):
    i = np.int32(jit.grid(1))
    v = x[i] if i < n else x.dtype.type(0)
    for step in (16, 8, 4, 2, 1):
        v += jit.shfl_down_sync(0xFFFFFFFF, v, step)
    if jit.laneid() == 0 and i < n:
        out[i // 32] = v
out = xp.zeros((N + 31) // 32, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
want = np.array([wide(hx)[j:j + 32].sum() for j in range(0, N, 32)]).astype("T")
""",
    """def k(x, out, n):
    i = np.int32(jit.grid(1))
    lane = jit.threadIdx.x % W
    v = x[i] if i < n else x.dtype.type(0)
    step = 1
    while step < W:
        u = jit.shfl_up_sync(0xFFFFFFFF, v, step, width=W)
        if lane >= step:
            v += u
        step *= 2
    if i < n:
        out[i] = v
out = xp.zeros(N, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
want = np.concatenate([wide(hx)[j:j + W].cumsum() for j in range(0, N, W)] or [[]]).astype("T")
""",
    """def k(x, out, n):
    i = np.int32(jit.grid(1))
    v = x[i] if i < n else x.dtype.type(-9)
    for j in range(3):
        v = max(v, jit.shfl_xor_sync(0xFFFFFFFF, v, 1 << j))
    if i < n:
        out[i] = v
out = xp.zeros(N, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
p = np.concatenate([wide(hx), np.full(-N % 8, -9)])
want = np.repeat(p.reshape(-1, 8).max(1), 8)[:N].astype("T")
""",
    """def k(a, out):
    tile = jit.shared_memory(a.dtype, (8, 9))
    r, c = jit.blockIdx.y * 8 + jit.threadIdx.y, jit.blockIdx.x * 8 + jit.threadIdx.x
    if r < a.shape[0] and c < a.shape[1]:
        tile[jit.threadIdx.y, jit.threadIdx.x] = a[r, c]
    jit.syncthreads()
    r, c = jit.blockIdx.x * 8 + jit.threadIdx.y, jit.blockIdx.y * 8 + jit.threadIdx.x
    if r < out.shape[0] and c < out.shape[1]:
        out[r, c] = tile[jit.threadIdx.x, jit.threadIdx.y]
a = MATRIX
out = xp.zeros(a.shape[::-1], a.dtype)
k[(a.shape[1] // 8 + 1, a.shape[0] // 8 + 1), (8, 8)](a, out)
want = get(a).T
""",
    """def k(a, out, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        row, total = a[i], a.dtype.type(0)
        for j in range(len(row)):
            if row[j] == 3:
                continue
            if row[j] == -7:
                break
            total += row[j]
        out[i] = total
a = MATRIX
out = xp.zeros(len(a), a.dtype)
k[G, B](a, out, len(a))
def row(r):
    cut = np.flatnonzero(r == -7)
    r = r[:cut[0]] if len(cut) else r
    return r[r != 3].sum()
want = np.array([row(r) for r in wide(get(a))]).astype("T")
""",
    """def k(x, out, n):
    i = np.int32(jit.grid(1))
    w = jit.local_array(x.dtype, 5)
    if i < n:
        for j in range(5):
            w[j] = x[(i + j) % n]
        for j in range(1, 5):
            m = j
            while m > 0 and w[m] < w[m - 1]:
                w[m], w[m - 1] = w[m - 1], w[m]
                m -= 1
        out[i] = w[2]
out = xp.zeros(N, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
want = np.sort(np.stack([np.roll(hx, -j) for j in range(5)]), 0)[2]
""",
    """def k(s, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        p = s[i]
        old = s[i].copy()
        p.a = old.b
        p["b"] = old.a + p.a
        p.n += 1 if old.a > 2 else -1
s = np.zeros(N, [("a", "f4"), ("b", "f4"), ("n", "i4")][::ORDER])
s["a"], s["b"] = rng.integers(-9, 9, (2, N))
old = s.copy()
s = kspec.asarray(s, device="cuda" if xp is not np else "host")
k[G, B](s, N)
s = kspec.asnumpy(s)
out = np.stack([s["a"], s["b"], s["n"]])
want = np.stack([old["b"], old["a"] + old["b"], np.where(old["a"] > 2, 1, -1)])
""",
    """def k(x, out, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        j = np.int64(i) + 1
        count = 0
        while j != 1:
            j = 3 * j + 1 if j % 2 else j // 2
            count += 1
            if count >= 50:
                break
        if j == 1:
            count = -count
        out[i] = count
out = xp.zeros(N, "int32")
k[G, B](x, out, N)
def length(j):
    for count in range(50):
        if j == 1: return -count
        j = 3 * j + 1 if j % 2 else j // 2
    return -50 if j == 1 else 50
want = np.array([length(i + 1) for i in range(N)], "int32")
""",
    """def k(out, n, seed):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        v = np.uint32(i) * np.uint32(2654435761) + seed
        for _ in range(3):
            v ^= v << np.uint32(13)
            v ^= v >> np.uint32(17)
            v ^= v << np.uint32(5)
        out[i] = v
out = xp.zeros(N, "uint32")
k[G, B](out, N, np.uint32(99))
v = np.arange(N, dtype="u4") * np.uint32(2654435761) + np.uint32(99)
for _ in range(3):
    v ^= v << np.uint32(13); v ^= v >> np.uint32(17); v ^= v << np.uint32(5)
want = v
""",
    """def k(x, out, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        jit.atomic_max(out, 0, int(x[i]))
        jit.atomic_min(out, 1, int(x[i]))
        jit.atomic_xor(out, 2, int(x[i]))
        jit.atomic_or(out, 3, int(x[i]))
        jit.atomic_sub(out, 4, int(x[i]))
        old = out[5]
        while True:
            seen = jit.atomic_cas(out, 5, old, max(old, int(x[i]) * 2))
            if seen == old:
                break
            old = seen
out = xp.zeros(6, "int32")
k[G, B](x, out, N)
v = wide(hx).astype("i4")
want = np.array([v.max(initial=0), v.min(initial=0), np.bitwise_xor.reduce(v), np.bitwise_or.reduce(v), -v.sum(), 2 * v.max(initial=0)])
""",
    """def k(x, out, n):
    s = jit.shared_memory(x.dtype, None)
    i = np.int32(jit.grid(1))
    t = np.int32(jit.threadIdx.x)
    if i < n:
        s[t + 1] = x[i]
        if t == 0:
            s[0] = x[i - 1] if i > 0 else x[n - 1]
        if t == B - 1 or i == n - 1:
            s[t + 2] = x[(i + 1) % n]
    jit.syncthreads()
    if i < n:
        out[i] = s[t] + s[t + 1] + s[t + 2]
out = xp.zeros(N, x.dtype)
k((max(1, -(-N // B)),), (B,), (x, out, N), shared_mem=(B + 2) * x.itemsize)
want = (np.roll(wide(hx), 1) + wide(hx) + np.roll(wide(hx), -1)).astype("T")
""",
    """def k(x, out, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        z = np.complex64(float(x[i]), 2)
        w = z * z.conjugate() + TABLE[i % 4] * 1j
        out[i] = w - z if w.imag > 2 else z / 2
TABLE = (1, 2, 3, 4)
out = xp.zeros(N, "complex64")
k[G, B](x, out, N)
z = wide(hx).astype("c16") + 2j; t = np.arange(N) % 4 + 1
want = np.where(t > 2, z * z.conj() + 1j * t - z, z / 2)
""",
    """def k(a, b, out):
    for r in range(jit.grid(2)[0], out.shape[0], jit.gridsize(2)[0]):
        for c in range(jit.grid(2)[1], out.shape[1], jit.gridsize(2)[1]):
            total = out.dtype.type(0)
            for j in range(a.shape[1]):
                total += a[r, j] * b[j, c]
            out[r, c] = total
a = MATRIX
b = a.T
out = xp.zeros((len(a), len(a)), a.dtype)
k[(2, 3), (4, 8)](a, b, out)
want = (wide(get(a)) @ wide(get(b))).astype("T")
""",
    """def k(x, out, n):
    scan = jit.cub.BlockScan[x.dtype, B]
    storage = jit.shared_memory(scan.TempStorage, 1)
    i = np.int32(jit.grid(1))
    v = x[i] if i < n else x.dtype.type(0)
    v = BlockReduce(jit.shared_memory(BlockReduce.TempStorage, 1)[0]).Sum(v)
    if jit.threadIdx.x == 0:
        out[jit.blockIdx.x] = v
BlockReduce = jit.cub.BlockReduce[np.dtype("T"), B]
out = xp.zeros(max(1, -(-N // B)), x.dtype)
k[max(1, -(-N // B)), B](x, out, N)
want = np.array([wide(hx)[j:j + B].sum() for j in range(0, max(N, 1), B)]).astype("T")
""",
    """def k(a):
    i = np.int32(jit.grid(1))
    if i < len(a):
        row = a[i]
        jit.thrust.sort(jit.thrust.seq, row.begin(), row.end())
a = MATRIX.copy(order="C")
want = np.sort(get(a), 1)
k[-(-len(a) // B) or 1, B](a)
out = a
""",
    """def k(a, out):
    i = np.int32(jit.grid(1))
    if i < len(a):
        part = a[i, ::2]
        last = a[i, 1:][::-1]
        out[i] = float(part[-1]) * 2 + len(part) - float(last[0]) + float(last[-1] if len(last) > 1 else part[0])
a = MATRIX
a = xp.concatenate([a, a, a], 1) if a.shape[1] else xp.ones((3, 3), a.dtype)
out = xp.zeros(len(a), "float64")
k[-(-len(a) // B) or 1, B](a, out)
h = wide(get(a)).astype("f8"); odd = h[:, ::2]
want = odd[:, -1] * 2 + odd.shape[1] - h[:, -1] + h[:, 1]
""",
    """def k(x, out, n):
    warp = jit.cub.WarpReduce[x.dtype]
    s = jit.shared_memory(warp.TempStorage, B // 32)
    i = np.int32(jit.grid(1))
    v = warp(s[jit.threadIdx.x // 32]).Sum(x[i] if i < n else x.dtype.type(0))
    if jit.laneid() == 0 and i < n:
        out[i // 32] = v
out = xp.zeros((N + 31) // 32, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
want = np.array([wide(hx)[j:j + 32].sum() for j in range(0, N, 32)]).astype("T")
""",
    """def k(x, out, n):
    scan = jit.cub.BlockScan[x.dtype, B]
    s = jit.shared_memory(scan.TempStorage, 1)
    i = np.int32(jit.grid(1))
    v = x[i] if i < n else x.dtype.type(0)
    v = scan(s[0]).InclusiveSum(v)
    if i < n:
        out[i] = v
out = xp.zeros(N, x.dtype)
k[(N + B - 1) // B or 1, B](x, out, N)
want = np.concatenate([wide(hx)[j:j + B].cumsum() for j in range(0, N, B)] or [[]]).astype("T")
""",
    """def k(x, out, n):
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        jit.atomic_inc(out, 0, np.uint32(4))
        if x[i] == 3:
            jit.atomic_exch(out, 1, np.uint32(7))
        jit.atomic_and(out, 2, ~np.uint32(1 << (np.uint32(i) % 32)))
out = xp.array([0, 0, 2**32 - 1], "uint32")
k[G, B](x, out, N)
want = np.array([N % 5, 7 * (hx == 3).any(), 2**32 - 2**min(N, 32)])
""",
    """def k(x, tmp, out, n):
    whole = jit.cg.this_grid()
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        tmp[i] = x[i] + x[i]
    whole.sync()
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        out[i] = tmp[n - 1 - i]
tmp, out = xp.zeros(N, x.dtype), xp.zeros(N, x.dtype)
k[G, B](x, tmp, out, np.uint32(N))
want = (2 * wide(hx)[::-1]).astype("T")
""",
    """def k(a, out):
    i = np.int32(jit.grid(1))
    if i < len(a):
        row = a[i]
        jit.thrust.inclusive_scan(jit.thrust.seq, row.begin(), row.end(), out[i].begin())
a = MATRIX.copy(order="C")
out = xp.zeros(a.shape, a.dtype)
k[-(-len(a) // B) or 1, B](a, out)
want = wide(get(a)).cumsum(1).astype("T")
""",
    """def k(x, out, n):
    s = jit.shared_memory(PAIR, B)
    t = np.int32(jit.threadIdx.x)
    i = np.int32(jit.grid(1))
    if i < n:
        s[t].v = x[i]
        s[t].i = i
    jit.syncthreads()
    other = min(B - 1 - t + i - t, n - 1) - (i - t)
    if i < n:
        p = s[other].copy()
        q = jit.local_array(PAIR, 1)
        q[0] = p
        q[0].i += 1
        out[i] = float(q[0].v) * 1000 + q[0].i
PAIR = np.dtype([("v", "T"), ("i", "i4")], align=True)
out = xp.zeros(N, "float64")
k[(N + B - 1) // B or 1, B](x, out, N)
i = np.arange(N); other = np.minimum(i // B * B + B - 1 - i % B, N - 1)
want = wide(hx)[other].astype("f8") * 1000 + other + 1
""",
)


class Writer:
    """Statements of a function of numbers, which Python computes alike."""

    def __init__(self, random: np.random.Generator, floats: bool) -> None:
        self.random, self.floats, self.names, self.count = random, floats, ["a", "b"], 0
        self.bound = "% 64.0" if floats else "% 97"

    def atom(self) -> str:
        """Return a name or a constant."""
        constants = (
            ("0.5", "2.0", "3.25", "-1.5") if self.floats else ("1", "2", "3", "-5", "7", "10")
        )
        return pick(self.random, (*self.names, *self.names, pick(self.random, constants)))

    def condition(self) -> str:
        """Return a condition."""
        a, b, c = self.atom(), self.atom(), pick(self.random, self.names)
        forms = (
            f"{a} < {b}",
            f"{a} >= {b}",
            f"{a} == {c}",
            f"{a} != {b} and {c} > 0",
            f"not {c}",
            f"{a} < {c} <= {b}",
            f"{c} > 1 or {a} < {b}",
            f"{c} in (1, 2, 3)",
            c,
            f"not ({a} > {b})",
            f"{c} % 2 == 0",
            f"({a} < {b}) != ({b} < {c})",
        )
        return pick(self.random, forms)

    def number(self) -> str:
        """Return an expression of small numbers."""
        a, b, c = self.atom(), self.atom(), pick(self.random, self.names)
        forms = [
            f"{a} + {b}",
            f"{a} - {b}",
            f"{a} * {b}",
            f"-{c}",
            f"abs({c})",
            f"min({a}, {c})",
            f"max({c}, {b})",
            f"{c} if {self.condition()} else {a}",
            f"{c} // (abs({b}) + 1)",
            f"{c} % (abs({b}) + 1)",
            f"{c} // -3",
            f"{c} % -5",
            f"{c} or {a}",
            f"{c} and {a}",
            f"{c} ** 2",
            f"({a} + {b}) * {c}",
            f"divmod({c}, 4)[1]",
            f"+{c}",
            f"max({a}, {b}, {c})",
            f"{c} + ({a} < {b})",
            f"{a} - {b} - {c}",
            f"{a} - ({b} - {c})",
            f"TABLE[int(abs({c})) % 4] + {c}",
            f"g({a}, {c})",
            f"g(g({c}, {b}), {c}) - {a}",
            f"{c} - True",
            f"{c} if {a} else {b}" if a != b else c,
            f"int({c} > {a}) + int({c} > {b})",
            f"abs({c} - {a}) // 2",
        ]
        if self.floats:
            forms += [
                f"{c} / 4",
                f"round({c})",
                f"float(int({c}))",
                f"np.floor({c})",
                f"math.fabs({c})",
                f"np.where({c} > 0, {a}, {b})",
                f"math.floor({c}) + {a}",
                f"np.sqrt({c} * {c})",
                f"np.sign({c})",
            ]
        else:
            forms += [
                f"{c} & {b}",
                f"{c} | {b}",
                f"{c} ^ {b}",
                f"~{c}",
                f"{c} << 2",
                f"{c} >> 1",
                f"int({c} / 4)",
                f"int({c} > {b})",
                f"{c} & 7 | {b}",
                f"pow({c}, 2)",
                f"round({c} / 2)",
                f"{c} // 2 * 2",
            ]
        return pick(self.random, forms)

    def block(self, indent: str, depth: int) -> list[str]:
        """Return some statements."""
        lines: list[str] = []
        for _ in range(int(self.random.integers(1, 4))):
            kind = pick(
                self.random,
                ("new", "new", "set", "augmented", "if", "for", "while", "swap", "tuple", "return")
                if depth
                else ("set", "augmented"),
            )
            name, inner = pick(self.random, self.names), indent + "    "
            if kind == "new" and len(indent) == 4:
                self.count += 1
                lines.append(f"{indent}v{self.count} = TYPE(({self.number()}) {self.bound})")
                self.names.append(f"v{self.count}")
            elif kind in ("set", "new"):
                lines.append(f"{indent}{name} = TYPE(({self.number()}) {self.bound})")
            elif kind == "augmented":
                operator = pick(
                    self.random, ("+=", "-=") if self.floats else ("+=", "-=", "^=", "|=", "&=")
                )
                lines += [
                    f"{indent}{name} {operator} {self.atom()}",
                    f"{indent}{name} %= {self.bound[2:]}",
                ]
            elif kind == "swap" and len(self.names) > 2:
                lines.append(
                    f"{indent}{self.names[0]}, {self.names[-1]} = {self.names[-1]}, {self.names[0]}"
                )
            elif kind == "tuple":
                lines += [
                    f"{indent}pair = ({name}, {self.names[0]})",
                    f"{indent}{name} = pair[0] - pair[1]",
                ]
            elif kind == "return" and len(indent) > 4:
                lines += [f"{indent}if {self.condition()}:", f"{inner}return {name}"]
            elif kind == "if":
                lines += [f"{indent}if {self.condition()}:", *self.block(inner, depth - 1)]
                if self.random.random() < 0.4:
                    lines += [f"{indent}elif {self.condition()}:", *self.block(inner, depth - 1)]
                if self.random.random() < 0.6:
                    lines += [f"{indent}else:", *self.block(inner, depth - 1)]
            elif kind == "for":
                bounds = pick(
                    self.random,
                    (
                        "5",
                        "1, 4",
                        "6, 0, -2",
                        f"int(abs({name})) % 5",
                        "int(abs(a)) % 3, 7, 2",
                        "-3, 2",
                    ),
                )
                over = pick(self.random, (f"range({bounds})", f"range({bounds})", "(1, 4, 2)"))
                self.count += 1
                j = f"j{depth}" if self.random.random() < 0.1 else f"j{self.count}"
                lines += [f"{indent}for {j} in {over}:", *self.block(inner, depth - 1)]
                lines += [f"{inner}{name} = TYPE(({name} + {j}) {self.bound})"]
                if over[0] == "r" and self.random.random() < 0.5:
                    lines += [
                        f"{inner}if {self.condition()}:",
                        f"{inner}    {pick(self.random, ('break', 'continue'))}",
                        f"{inner}{name} += 1",
                    ]
            elif kind == "while":
                lines += [
                    f"{indent}w{depth} = 0",
                    f"{indent}while w{depth} < 4 and ({self.condition()}):",
                    f"{inner}w{depth} += 1",
                    *self.block(inner, depth - 1),
                ]
        return lines or [f"{indent}a = TYPE(({self.number()}) {self.bound})"]


def function(random: np.random.Generator) -> str:
    """Return a program of a drawn function of two numbers."""
    floats = bool(random.random() < 0.4)
    writer = Writer(random, floats)
    lines = [line for _ in range(3) for line in writer.block("    ", 2)]
    dtype = "float64" if floats else pick(random, ("int64", "int64", "int32"))
    number = "float" if floats else "int"
    mode = pick(random, ('mode="cuda"', 'mode="numpy"'))
    body = "\n".join(lines).replace("TYPE", f"np.{dtype}")
    n = extent(random, 300, 0)
    table = pick(
        random,
        ("(0.5, 2.0, -1.0, 4.0)", "np.array([1.0, 2.0, 3.0, 0.25])")
        if floats
        else ("(3, -1, 4, 7)", "np.array([5, 6, -7, 8])"),
    )
    divisor = " / 4" if floats else ""
    return (
        head(random)
        + f"import math\nTABLE = {table}\ndef plain(a, b):\n    return {pick(random, ('b - a', 'max(a, b)', 'min(a, b) - max(a, b)', '(a < b) + b'))}\n"
        + f"g = jit.rawkernel(device=True, {mode})(plain)\n"
        + f"def f(a, b):\n{body}\n    return {' + '.join(writer.names[-4:])}\n"
        f"device = jit.rawkernel(device=True, {mode})(f)\n@jit.rawkernel({mode})\ndef k(x, y, out, n):\n"
        f"    for i in range(jit.grid(1), n, jit.gridsize(1)):\n        out[i] = device(x[i], y[i])\n"
        f'x, y = (xp.asarray((rng.integers(-40, 41, {n}){divisor}).astype("{dtype}")) for _ in "xy")\n'
        f'out = xp.zeros({n}, "{dtype}")\nk[2, 64](x, y, out, {n})\n'
        f'g = plain  # for Python\nwant = np.array([f({number}(a), {number}(b)) for a, b in zip(get(x), get(y))], "{dtype}")\n'
        "np.testing.assert_array_equal(get(out), want)\n"
    )


def draw(random: np.random.Generator) -> str:
    """Return a program with a kernel in Python."""
    if random.random() < 0.5:
        return function(random)
    text = pick(random, PROGRAMS)
    mode = pick(random, ("", 'mode="numpy"'))
    dtype = pick(
        random,
        ("int32", "int64", "float32", "float64")
        if "shfl" in text or "cub" in text or "BlockReduce" in text or "atomic_add(out, 0" in text
        else (*INTS[2:], "float32", "float64"),
    )
    n, block = extent(random, 2000), pick(random, (32, 64, 128, 256))
    matrix = array(random, dtype, (extent(random, 40, 0), extent(random, 40, 0)))
    names = {
        "B": block,
        "G": int(random.integers(1, 5)),
        "N": n,
        "W": pick(random, (4, 8, 16, 32)),
        "ORDER": pick(random, (1, -1)),
    }
    lines = "".join(f"{name} = {value}; " for name, value in names.items())
    text = (
        text.replace("MATRIX", matrix)
        .replace('"T"', f'"{dtype}"')
        .replace("pick_int", f'"{pick(random, ("int32", "uint32", "int64", "uint64"))}"')
    )
    x = f"x = {array(random, dtype, (n,))}\nhx = get(x)\n"
    check = "np.testing.assert_allclose(wide(get(out)), wide(np.asarray(want)), rtol=1e-6)\n"
    table = "".join(line + "\n" for line in text.splitlines() if line.startswith(("TABLE", "PAIR")))
    return head(random) + lines + "\n" + x + table + f"@jit.rawkernel({mode})\n" + text + check
