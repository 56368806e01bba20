"""Records are views, as in NumPy: each kernel is also called as the Python function that it is."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kspec
from kspec import jit
from kspec.errors import JitError
from tests.devices import ArrayDevice

INNER = np.dtype([("c", "f4"), ("d", "i4")], align=True)
RECORD = np.dtype([("a", "f8"), ("b", "i4"), ("inner", INNER), ("v", "f4", 3)], align=True)
# Each draws kernels of its own, and each kernel is compiled.
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]
STATEMENTS = 40
KINDS = (
    *("bind",) * 3,
    *("store",) * 3,
    *("several", "field", "swap", "nested", "loop", "branch", "choice", "call", "result"),
    *("inner", "copy", "augmented"),
)

COUNT = 4
ROWS = 2, 3


def values_of(shape: int | tuple[int, ...]) -> npt.NDArray[Any]:
    """Return records whose fields are small and different."""
    found = np.zeros(shape, RECORD)
    number = np.arange(found.size).reshape(found.shape)
    found["a"], found["b"] = number + 0.5, number * 10
    found["inner"]["c"], found["inner"]["d"] = number - 3, number + 100
    found["v"] = number[..., None] + np.arange(3)
    return found


def set_fields(r, a, b):
    r.a = a
    r.inner.d = b
    return r


def larger(p, q):
    if p.a > q.a:
        return p
    return q


def inner_of(r):
    return r.inner


FUNCTIONS = set_fields, larger, inner_of


class Kernel:
    """Draws the statements of a kernel, one after the other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.records: list[str] = []
        self.inner: list[str] = []
        self.copies = 0

    def index(self, count: int) -> str:
        return self.random.choice(
            [str(self.random.randrange(count)), f"k[{self.random.randrange(2)}]"]
        )

    def place(self) -> str:
        """Return a record in an array."""
        row, column = self.random.randrange(ROWS[0]), self.random.randrange(ROWS[1])
        return self.random.choice(
            [
                f"s[{self.index(COUNT)}]",
                f"m[{row}, {column}]",
                f"m[{row}][{column}]",
                f"rows[{column}]",
            ]
        )

    def record(self) -> str:
        """Return a record, by name or by place."""
        return self.random.choice([self.place(), *self.records, *self.records])

    def nested(self) -> str:
        return self.random.choice([f"{self.record()}.inner", *self.inner])

    def number(self) -> str:
        r = self.record()
        field = self.random.choice([f"{r}.a", f'{r}["b"]', f"{r}.v[1]", f"{self.nested()}.d"])
        return self.random.choice([str(self.random.randrange(50)), field])

    def name(self) -> str:
        found = self.random.choice("pqr")
        if found not in self.records:
            self.records.append(found)
        return found

    def statement(self) -> list[str]:
        return getattr(self, f"draw_{self.random.choice(KINDS)}")()

    def draw_bind(self) -> list[str]:
        value = self.record()
        return [f"{self.name()} = {value}"]

    def draw_several(self) -> list[str]:
        first, second = self.record(), self.record()
        a, b = self.random.sample("pqr", 2)
        self.records += [one for one in (a, b) if one not in self.records]
        return [f"{a}, {b} = {first}, {second}"]

    def draw_store(self) -> list[str]:
        return [f"{self.record()}.a = np.float64({self.number()})"]

    def draw_field(self) -> list[str]:
        r, value = self.record(), self.number()
        return [f"{r}.v[{self.random.randrange(3)}] = np.float32({value})"]

    def draw_augmented(self) -> list[str]:
        return [f"{self.nested()}.d += {self.random.randrange(9)}", f'{self.record()}["b"] += 1']

    def draw_swap(self) -> list[str]:
        a, b = self.place(), self.place()
        return [self.random.choice([f"{a}, {b} = {b}, {a}", f"{a} = {self.record()}"])]

    def draw_nested(self) -> list[str]:
        value = self.nested()
        name = self.random.choice("uw")
        self.inner += [] if name in self.inner else [name]
        return [f"{name} = {value}"]

    def draw_loop(self) -> list[str]:
        name = self.name()
        return [
            f"for j in range({COUNT}):",
            f"    {name} = s[j]",
            f"    {name}.b += j + 1",
        ]

    def draw_branch(self) -> list[str]:
        first, second, test = (self.record() for _ in range(3))
        name = self.name()
        return [f"if {test}.b > 15:", f"    {name} = {first}", "else:", f"    {name} = {second}"]

    def draw_choice(self) -> list[str]:
        first, second, test = (self.record() for _ in range(3))
        return [f"{self.name()} = {first} if {test}.b > 15 else {second}"]

    def draw_call(self) -> list[str]:
        return [f"set_fields({self.record()}, np.float64({self.number()}), 7)"]

    def draw_result(self) -> list[str]:
        first, second = self.record(), self.record()
        return [f"{self.name()} = larger({first}, {second})"]

    def draw_inner(self) -> list[str]:
        return [f"inner_of({self.record()}).c = np.float32({self.number()})"]

    def draw_copy(self) -> list[str]:
        name = f"copy{self.copies}"
        self.copies += 1
        source, other = self.record(), self.record()
        lines = [f"{name} = {source}.copy()", f"{other}.b += 2", f"{name}.b += 3"]
        return [*lines, f"{self.place()} = {name}", f"set_fields({name}, np.float64(1), 2)"]


def drawn(seed: int) -> str:
    kernel = Kernel(seed)
    lines = [line for _ in range(STATEMENTS) for line in kernel.statement()]
    return "\n".join(["def drawn(s, m, k):", "    rows = m[1]", *(f"    {one}" for one in lines)])


def function_of(text: str, name: str, functions: dict[str, Any]) -> Callable[..., None]:
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space = {"np": np, "__name__": "drawn", **functions}
    exec(compile(text, name, "exec"), space)
    return space["drawn"]


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_kernels_do_what_numpy_does(place: ArrayDevice, seed: int) -> None:
    text = drawn(seed)
    plain = {one.__name__: one for one in FUNCTIONS}
    s, m, k = values_of(COUNT), values_of(ROWS), np.array([2, 1])
    function_of(text, f"plain{seed}.py", plain)(s.view(np.recarray), m.view(np.recarray), k)
    ours = {name: jit.rawkernel(device=True)(one) for name, one in plain.items()}
    kernel = jit.rawkernel()(function_of(text, f"drawn{seed}.py", ours))
    given = [place.array(values_of(COUNT)), place.array(values_of(ROWS)), place.array(k)]
    kernel[1, 1](*given)
    assert place.numpy(given[0]).tobytes() == s.tobytes(), text
    assert place.numpy(given[1]).tobytes() == m.tobytes(), text


@jit.rawkernel()
def by_name(s):
    r = s[0]
    r.a = 5.0
    s[1].a = r.a + s[0].b
    for one in (s[2], s[3]):
        one.b = 77
    pair = (s[2], s[3])
    pair[0].a = 9
    s[3], s[2] = pair[0], pair[1]


def test_a_name_is_a_view(place: ArrayDevice) -> None:
    wanted = values_of(COUNT)
    by_name.function(wanted.view(np.recarray))
    s = place.array(values_of(COUNT))
    by_name[1, 1](s)
    assert place.numpy(s).tobytes() == wanted.tobytes()


@jit.rawkernel()
def in_memory(s, o):
    shared = jit.shared_memory(RECORD, (2, 2))
    own = jit.local_array(RECORD, 2)
    i = jit.threadIdx.x
    r = shared[i][1]
    r.a = i + 1
    r.v[2] = 3
    shared[i, 0] = r
    shared[i, 0].inner.d = 4 + i
    p = own[1]
    p.b = 5
    own[0] = p
    q: RECORD = own[0]
    q.b += 1
    jit.syncthreads()
    other = shared[1 - i, 0]
    o[i, 0], o[i, 1], o[i, 2] = other.a, other.v[2], other.inner.d
    o[i, 3], o[i, 4] = own[0].b, own[1].b
    o[i, 5] = shared.size + len(own)
    same = jit.local_array(s.dtype, 1)
    same[0] = s[i]
    o[i, 6] = same[0].a


def test_shared_and_local_records(place: ArrayDevice) -> None:
    s, o = place.array(values_of(2)), place.zeros((2, 7))
    in_memory[1, 2](s, o)
    assert place.numpy(o).tolist() == [[2, 3, 5, 6, 5, 6, 0.5], [1, 3, 4, 6, 5, 6, 1.5]]


@jit.rawkernel()
def carried(s, o):
    last = s[0].copy()
    for i in range(1, 4):
        one = s[i].copy()
        s[i].a = 100
        o[i] = one.a - last.a
        last, one = one.copy(), last.copy()
    o[0] = last.a


def test_copies_are_values(place: ArrayDevice) -> None:
    s, o = place.array(values_of(COUNT)), place.zeros(4)
    carried[1, 1](s, o)
    assert place.numpy(o).tolist() == [3.5, 1, 1, 1]
    assert place.numpy(s)["a"].tolist() == [0.5, 100, 100, 100]


@jit.rawkernel()
def reads_only(s, o):
    r = s[0]
    t = r if r.b > 5 else s[1]
    o[0] = t.a


@jit.rawkernel()
def writes_to_either(s, t, k):
    r = s[0] if k else t[0]
    larger_function(r, s[0]).b = 3
    x = s if k else t
    x[1].b = 4


larger_function = jit.rawkernel(device=True)(larger)


def test_who_is_written_to_is_known() -> None:
    frozen = values_of(2)
    frozen.flags.writeable = False
    o = np.zeros(1)
    reads_only[1, 1](frozen, o)
    assert o[0] == 1.5
    for given in ((frozen, values_of(2), 0), (values_of(2), frozen, 1)):
        with pytest.raises((ValueError, kspec.KspecError), match="read-only"):
            writes_to_either[1, 1](*given)


@jit.rawkernel()
def shares_a_copy(s):
    a = s[0].copy()
    b = a
    b.a = 1


@jit.rawkernel()
def rebinds_a_copy(s):
    a = s[0].copy()
    a = s[1]
    a.a = 1


@jit.rawkernel(device=True)
def own_record():
    own = jit.local_array(RECORD, 1)
    return own[0]


@jit.rawkernel(device=True)
def own_row():
    own = jit.local_array(np.float32, (2, 2))
    row = own[1]
    return row


@jit.rawkernel()
def returns_its_own(s):
    s[0] = own_record()


@jit.rawkernel()
def returns_its_row(s):
    s[0].a = own_row()[0]


@jit.rawkernel()
def stores_in_a_copy(s):
    s[0].copy().a = 1


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (shares_a_copy, "two names cannot share a copy of a record; write .copy() for another one"),
        (rebinds_a_copy, "a is a copy of a record: give it another .copy(), or use another name"),
        (returns_its_own, "own_record returns memory of its own, which ends with it"),
        (returns_its_row, "own_row returns memory of its own, which ends with it"),
        (stores_in_a_copy, "this cannot be assigned to"),
    ],
)
def test_what_cannot_be_a_view_is_refused(kernel: Any, message: str) -> None:
    with pytest.raises(JitError) as caught:
        kernel[1, 1](values_of(2))
    assert message in str(caught.value)
