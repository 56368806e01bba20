from __future__ import annotations

import dataclasses

import pytest

from kspec.model.signature import CParam, Param, Signature

SIGNATURE = Signature(
    (Param("T", "x"), Param("float32", "y", raw=True), Param("U", "z", True, True), Param("T", "w"))
)


def test_printing() -> None:
    assert str(SIGNATURE) == "T x, raw float32 y, raw _non_const U z, T w"
    assert str(Signature()) == ""


def test_names_and_placeholders() -> None:
    assert SIGNATURE.names == ("x", "y", "z", "w")
    assert SIGNATURE.placeholders == ("T", "U")
    assert len(SIGNATURE) == 4
    assert [param.is_placeholder for param in SIGNATURE] == [True, False, True, True]


def test_c_params_print_as_c() -> None:
    assert str(CParam("float", "x", pointer=True, const=True)) == "const float* x"
    assert str(CParam("int", "n")) == "int n"
    assert str(CParam("T", "x", pointer=True, nullable=True)) == "T* x = nullptr"


def test_frozen_and_hashable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SIGNATURE.params = ()  # type: ignore[misc]
    assert hash(SIGNATURE) == hash(Signature(SIGNATURE.params))
