"""Calls that are refused, as rows of tables, and what refusing means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice


@dataclass(frozen=True)
class Refusal:
    """One row: a call, the classes of the exception and a part of its message.

    Attributes
    ----------
    case : str
        What is wrong, in words.
    kernel : callable
        What is called.
    arguments : callable
        Makes the positional arguments on a device.
    error : tuple of type
        Classes that the exception has, all of them.
    message : str
        Part of its message, to the letter.
    keywords : callable
        Makes the keyword arguments on a device.
    """

    case: str
    kernel: Callable[..., Any]
    arguments: Callable[[ArrayDevice], tuple[Any, ...]]
    error: tuple[type[Exception], ...]
    message: str
    keywords: Callable[[ArrayDevice], dict[str, Any]] = field(default=lambda place: {})


def rows(table: list[Refusal]) -> pytest.MarkDecorator:
    """Run a test for each row of a table."""
    return pytest.mark.parametrize("row", table, ids=lambda row: row.case)


def check(row: Refusal, place: ArrayDevice, launches: list[str]) -> None:
    """Make the call: it is refused as the row says, nothing runs and no array changes."""
    arguments, keywords = row.arguments(place), row.keywords(place)
    arrays = list(_arrays((*arguments, *keywords.values()), place))
    before = [place.numpy(array) for array in arrays]
    with pytest.raises(row.error[0]) as caught:
        row.kernel(*arguments, **keywords)
    for kind in row.error:
        assert isinstance(caught.value, kind), f"{type(caught.value)} is no {kind}"
    assert row.message in str(caught.value)
    assert launches == []
    for array, content in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(place.numpy(array), content)


def _arrays(values: Any, place: ArrayDevice) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _arrays(value, place)
        elif isinstance(value, place.kind):
            yield value
