"""Dataclasses of kspec are as the standard ones, whatever is asked of them first."""

from __future__ import annotations

import abc
import ast
import copy
import dataclasses
import inspect
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar, get_type_hints

import pytest

from kspec.dataclass import dataclass
from tests.projects import ROOT, run_python

T = TypeVar("T")


def make_classes() -> tuple[Any, Any]:
    """Return two new classes, whose methods are still to be written: the second has the first."""

    @dataclass(frozen=True)
    class Base:
        """Has everything that classes of kspec have."""

        x: int
        names: list[str] = field(default_factory=list)
        label: str = field(default="none", repr=False, compare=False)
        later: bool = field(default=True, kw_only=True)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError(f"{self.x} is negative")

        @cached_property
        def doubled(self) -> int:
            return 2 * self.x

    @dataclass(frozen=True)
    class Derived(Base, Generic[T]):
        y: float = 0.5

        def __repr__(self) -> str:
            return f"{super().__repr__()} and {self.y}"

    return Base, Derived


def make_derived() -> Any:
    return make_classes()[1]


def make_other() -> Any:
    """Return a class without fields of its own, of a dataclass that is not written."""
    base, _ = make_classes()
    return type("Other", (base,), {})


@pytest.mark.parametrize("make", [make_derived, make_other])
class TestFirstUse:
    """Each of these is the first that is asked of a class."""

    def test_a_call(self, make: Callable[[], Any]) -> None:
        one = make()(3, ["a"], later=False)
        assert (one.x, one.names, one.label, one.later) == (3, ["a"], "none", False)
        assert one.doubled == 6

    def test_fields(self, make: Callable[[], Any]) -> None:
        names = [one.name for one in dataclasses.fields(make())]
        assert names[:4] == ["x", "names", "label", "later"]

    def test_is_one(self, make: Callable[[], Any]) -> None:
        assert dataclasses.is_dataclass(make())

    def test_positions_of_a_pattern(self, make: Callable[[], Any]) -> None:
        assert make().__match_args__[:3] == ("x", "names", "label")

    def test_a_copy_without_a_call(self, make: Callable[[], Any]) -> None:
        cls = make()
        one, other = object.__new__(cls), object.__new__(cls)
        for made in (one, other):
            vars(made).update(x=1, names=[], label="", later=True, y=2.0)
        assert one == other
        assert repr(one).startswith(f"{cls.__qualname__}(x=1, names=[], later=True")

    def test_parameters(self, make: Callable[[], Any]) -> None:
        assert make().__dataclass_params__.frozen

    def test_a_changed_copy_without_a_call(self, make: Callable[[], Any]) -> None:
        one = object.__new__(make())
        vars(one).update(x=1, names=[], label="", later=True, y=2.0)
        assert dataclasses.replace(one, x=4).x == 4

    @pytest.mark.skipif(sys.version_info < (3, 13), reason="new in Python 3.13")
    def test_copy_replaces(self, make: Callable[[], Any]) -> None:
        one = object.__new__(make())
        vars(one).update(x=1, names=[], label="", later=True, y=2.0)
        assert copy.replace(one, x=4).x == 4

    def test_a_dataclass_that_is_derived_from_it(self, make: Callable[[], Any]) -> None:
        derived = dataclasses.make_dataclass("Last", [("z", int, 7)], bases=(make(),), frozen=True)
        assert derived(1).z == 7

    def test_setting_is_refused(self, make: Callable[[], Any]) -> None:
        one = make()(1)
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            one.x = 2
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
            del one.x


def test_values_are_equal_if_their_fields_are() -> None:
    base, derived = make_classes()
    assert base(1) == base(1, label="other") != base(2)
    assert base(1) != derived(1)
    assert dataclasses.replace(base(1), x=5) == base(5)
    assert dataclasses.asdict(base(1)) == {"x": 1, "names": [], "label": "none", "later": True}
    assert copy.copy(base(1)) == base(1)


def test_each_instance_has_its_own_default() -> None:
    base, _ = make_classes()
    base(1).names.append("a")
    assert base(2).names == []
    assert not hasattr(base, "names")


def test_checks_of_values_run() -> None:
    base, _ = make_classes()
    with pytest.raises(ValueError, match="-1 is negative"):
        base(-1)


def test_own_methods_stay() -> None:
    base, derived = make_classes()
    assert repr(derived(1)) == f"{derived.__qualname__}(x=1, names=[], later=True) and 0.5"
    assert base.__doc__ == "Has everything that classes of kspec have."


def test_what_is_set_before_the_first_use_stays() -> None:
    base, _ = make_classes()
    base.__repr__ = lambda self: "mine"
    assert repr(base(1)) == "mine"
    base, _ = make_classes()
    base.names = 7
    assert base(1).names == [] and base.names == 7


def test_abstract_classes_keep_their_registrations() -> None:
    @dataclass(frozen=True)
    class Shape(abc.ABC):
        sides: int

        @abc.abstractmethod
        def area(self) -> float: ...

    Shape.register(float)

    class Square(Shape):
        def area(self) -> float:
            return float(self.sides)

    assert isinstance(1.0, Shape) and Square(4).area() == 4.0
    assert isinstance(1.0, Shape)
    with pytest.raises(TypeError, match="abstract"):
        Shape(4)  # type: ignore[abstract]


def test_a_frozen_class_cannot_set_attributes_in_a_way_of_its_own() -> None:
    message = "Odd is frozen, and has a __setattr__ of its own"
    with pytest.raises(TypeError, match=message):

        @dataclass(frozen=True)
        class Odd:
            x: int

            def __setattr__(self, name: str, value: object) -> None: ...


def test_hashes_are_of_values_or_of_identity() -> None:
    @dataclass(frozen=True)
    class Value:
        x: int

    @dataclass(frozen=True, eq=False)
    class Thing:
        x: int

    @dataclass(frozen=True)
    class OwnEquality:
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality) and self.x % 10 == other.x % 10

    @dataclass(frozen=True)
    class Unhashable:
        x: int
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(TypeError, match="unhashable type: 'Unhashable'"):
        hash(Unhashable(1))
    assert hash(Value(1)) == hash(Value(1)) and len({Value(1), Value(1), Value(2)}) == 2
    assert len({Thing(1), Thing(1)}) == 2 and Thing(1) != Thing(1)
    assert OwnEquality(11) == OwnEquality(1) and hash(OwnEquality(1)) == hash(OwnEquality(1))


def test_patterns_see_fields() -> None:
    base, _ = make_classes()
    match base(4, ["b"]):
        case base(x, [name]):
            assert (x, name) == (4, "b")
        case _:
            raise AssertionError("no pattern matched")


def test_threads_make_the_first_instances_at_once() -> None:
    for _ in range(50):
        base, derived = make_classes()
        barrier = threading.Barrier(8)
        made: list[Any] = []

        def make(number: int, barrier: Any = barrier, made: Any = made, cls: Any = derived) -> None:
            barrier.wait()
            made.append(cls(number, later=False))

        threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(one.x for one in made) == list(range(8))
        assert all(one.names == [] and one == derived(one.x, later=False) for one in made)
        assert dataclasses.is_dataclass(base)


def test_a_value_from_another_process_compares() -> None:
    from kspec.model.tuning import TuningCase  # of which this file makes no instance

    fields = [one.name for one in dataclasses.fields(TuningCase)]
    text = pickle.dumps(TuningCase(*range(len(fields))))  # type: ignore[arg-type]
    code = f"import pickle; a, b = (pickle.loads({text!r}) for _ in range(2)); print(a == b, a)"
    assert run_python(code, {}, ROOT).startswith("True TuningCase(")


def decorators(path: Path) -> Iterator[tuple[int, str, set[str | None]]]:
    """Yield the line, the name and the options of each decorator of a file that is called."""
    for node in ast.walk(ast.parse(path.read_text())):
        for one in getattr(node, "decorator_list", ()):
            if isinstance(one, ast.Call):
                yield one.lineno, ast.unparse(one.func), {key.arg for key in one.keywords}


def imports_standard(path: Path) -> bool:
    """Whether a file has the standard decorator by its name alone."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "dataclasses"
        and any(one.name == "dataclass" for one in node.names)
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_frozen_dataclasses_of_kspec_are_of_this_kind() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / "kspec").rglob("*.py")
        if imports_standard(path)
        for line, name, options in decorators(path)
        if name == "dataclass" and "frozen" in options and options <= {"frozen", "eq"}
    ]
    assert not found


class TestPlainFields:
    """Of these classes the constructor and the fields are made without the methods."""

    def make(self) -> tuple[Any, Any]:
        """Return a class of kspec's and one of the standard library's, made of the same body."""

        def body() -> Any:
            class Plain(Generic[T]):
                x: int
                y: tuple[str, ...] = ("a",)
                first: Path | None = None
                names: list[str] = field(default_factory=list, compare=False)
                later: bool = field(default=True, kw_only=True)

                @property
                def doubled(self) -> int:
                    return 2 * self.x

            return Plain

        return dataclass(frozen=True)(body()), dataclasses.dataclass(frozen=True)(body())

    def test_the_signature_is_the_standard_one(self) -> None:
        ours, theirs = self.make()
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert ours.__init__.__qualname__ == theirs.__init__.__qualname__
        assert get_type_hints(ours.__init__) == get_type_hints(theirs.__init__)

    def test_fields_are_the_standard_ones(self) -> None:
        ours, theirs = self.make()
        assert repr(dataclasses.fields(ours)) == repr(dataclasses.fields(theirs))
        assert dataclasses.asdict(ours(1)) == dataclasses.asdict(theirs(1))

    def test_instances_are_made_before_methods(self) -> None:
        ours, _ = self.make()
        one = ours(1, first=Path("a"))
        assert (one.x, one.y, one.first, one.doubled) == (1, ("a",), Path("a"), 2)
        assert dataclasses.replace(one, x=2) == ours(2, first=Path("a")) != one
        assert {one: 1}[ours(1, ("a",), Path("a"))] == 1
        shown = f"Plain(x=1, y=('a',), first={Path('a')!r}, names=[], later=True)"
        assert repr(one).endswith(shown)
        assert not hasattr(ours, "names") and ours.later is True
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            one.x = 2

    def test_a_class_that_has_the_fields_of_another(self) -> None:
        made = []
        for decorate, base in zip(
            (dataclass(frozen=True), dataclasses.dataclass(frozen=True)), self.make(), strict=True
        ):

            class Derived(base):  # type: ignore[misc, valid-type]
                x: int = 3
                last: str = "z"

            made.append(decorate(Derived))
        ours, theirs = made
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert dataclasses.asdict(ours(later=False)) == dataclasses.asdict(theirs(later=False))
        assert ours() == ours(3) != ours(4)

    def test_wrong_calls(self) -> None:
        ours, _ = self.make()
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            ours()

    def test_no_fields(self) -> None:
        empty = dataclass(frozen=True)(type("Empty", (), {"__module__": __name__}))
        assert empty() == empty()

    def test_mistakes_are_the_standard_ones(self) -> None:
        @dataclass(frozen=True)
        class Shared:
            x: list[int] = []  # noqa: RUF012  that is the mistake

        @dataclass(frozen=True)
        class Unordered:
            x: int = 1
            y: int  # type: ignore[misc]

        with pytest.raises(ValueError, match="mutable default"):
            Shared()
        with pytest.raises(TypeError, match="non-default argument 'y'"):
            Unordered()  # type: ignore[call-arg]
