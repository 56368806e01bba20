"""Programs with one elementwise kernel that has windows."""

import numpy as np

from tests.drawn import arguments
from tests.drawn.arguments import FLOATS, INTEGERS, array, pick
from tests.drawn.neighbours import operation

MODES = ["nearest", "reflect", "mirror", "wrap", "constant", "valid"]


def drawn_reach(random, axes: int) -> list[tuple[int, int]]:
    """Return the reach of each axis, before and after: 0 to 16."""
    largest = [16, 8, 4, 2][axes - 1]
    sides = lambda: int(pick(random, [0, 1, 1, 1, 2, 2, 3, 4, 7, 8, 16]))  # noqa: E731
    reach = []
    for _ in range(axes):
        before = min(sides(), largest)
        reach.append((before, before if random.random() < 0.5 else min(sides(), largest)))
    return reach


def stencil(random, near, places: str, shifted: str) -> list[str]:
    """Return the lines of a program with a stencil."""
    axes = int(pick(random, [1, 1, 2, 2, 2, 3]))
    reach = drawn_reach(random, axes)
    pool = pick(random, [INTEGERS[::2], INTEGERS[1::2][:2], FLOATS, FLOATS, FLOATS[2:]])
    text, lines, needs = operation(random, reach, "int" in pool[0])
    modes = [MODES[k] for k in random.permutation(6)[: int(random.integers(1, 7))]]
    value = int(pick(random, [0, 0, 1, 5]))
    window = {"reach": [b if b == a and random.random() < 0.7 else [b, a] for b, a in reach]}
    window["boundary"] = modes if len(modes) > 1 else modes[0]
    if value and "constant" in modes:
        window["value"] = value
    more = {"": "", "w": ", raw T w", "c": ", T c", "d": ", int32 d", "i": ""}[needs]
    outputs = "T v, int32 i2" if needs == "i" else "T v"
    given = f"u, {needs}" if needs in ("w", "c", "d") and needs else "u"
    program = [
        "import itertools",
        f"f = kspec.ElementwiseKernel(\n    'T u{more}', {outputs!r}, {text!r}, 'f',\n    windows={{'u': {window}}})",
        places, shifted,
        f"def want({given}, mode):",
        f"    u = shifted(u, {reach}, mode, {value})",
        f"    v0 = u({', '.join('0' for _ in reach)})",
        *("    " + line for line in lines),
        f"    return v{', i2' if needs == 'i' else ''}",
    ]  # fmt: skip
    dtypes = [pick(random, pool) for _ in range(2)]
    for _ in range(int(random.integers(2, 5))):
        program += call(random, reach, pick(random, dtypes), modes, needs, given, near)
    return program


def call(random, reach, dtype: str, modes: list[str], needs: str, given: str, near) -> list[str]:
    """Return the lines of a call and of its check."""
    axes = len(reach)
    mode = pick(random, modes)
    batch = arguments.shape(random, int(pick(random, [0, 0, 0, 1, 2])), 20)
    extents = [*batch, *arguments.shape(random, axes, 4000)]
    kept = list(extents)
    for k, (b, a) in enumerate(reach):
        if mode == "valid":
            extents[len(batch) + k] = max(extents[len(batch) + k], a + b)
            kept[len(batch) + k] = extents[len(batch) + k] - a - b
    kept = tuple(kept)
    signed = "int" if dtype not in FLOATS else "float"
    lines = [f"u = {array(random, dtype, tuple(extents))}"]
    if needs == "w":
        count = tuple(a + b + 1 for b, a in reach)
        count = (int(np.prod(count)),) if random.random() < 0.5 else count
        lines.append(f"w = {array(random, dtype, count)}")
    elif needs == "c":
        own = arguments.thinned(random, kept)
        lines.append("c = 2" if random.random() < 0.4 else f"c = {array(random, dtype, own)}")
    elif needs == "d":
        own = arguments.thinned(random, kept)
        b, a = reach[-1]
        lines.append(f"d = {array(random, 'int32', own, -b, a + 1)}")
    tail = f", boundary={mode!r}" if mode != modes[0] or random.random() < 0.3 else ""
    names = "v, i2" if needs == "i" else "v"
    if random.random() < 0.25 and needs != "i":
        tail += f", out={arguments.output(random, dtype, kept)}"
    wide = "int64" if signed == "int" else "float64"
    copies = ", ".join(f"get({n}).astype({wide!r})" for n in given.split(", "))
    lines += [
        f"{names} = f({given}{tail})",
        f"wanted = want({copies}, {mode!r})",
        f"assert v.shape == {kept} and v.dtype == {dtype!r}",
        near(
            "v",
            dtype,
            "wanted[0]" if needs == "i" else "wanted",
            30.0 * np.prod([a + b + 1 for b, a in reach]),
        ),
    ]
    return lines + ["np.testing.assert_array_equal(get(i2), wanted[1])"] * (needs == "i")
