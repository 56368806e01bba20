"""Values as TOML: the standard library reads the same back."""

from __future__ import annotations

import tomllib

import pytest

from kspec.toml import toml_key, toml_value


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        'quotes " and \\',
        "\x7f\x00\u2028\u00e9",
        "two\nlines",
        "two\nlines'",
        "'''\n",
        "carriage\r\nreturn",
        True,
        -3,
        2.5,
        float("inf"),
        [],
        ["a", ["b"]],
        {"T": ["int8"], "a key": {"x": "y\nz"}},
    ],
)
def test_it_is_read_back(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}\n") == {"value": value}


@pytest.mark.parametrize("key", ["plain", "with-dash_1", "a b", "", "\u00e9", 'q"'])
def test_keys(key: str) -> None:
    assert tomllib.loads(f"{toml_key(key)} = 1\n") == {key: 1}
