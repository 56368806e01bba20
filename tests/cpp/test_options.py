from __future__ import annotations

import pytest

from kspec.cpp.options import macro_names, split_macros


@pytest.mark.parametrize(
    ("options", "directives"),
    [
        (("-DN=3",), ("#define N 3",)),
        (("-DFAST",), ("#define FAST 1",)),
        (("-DEMPTY=",), ("#define EMPTY",)),
        (("-D", "N=3"), ("#define N 3",)),
        (("-D N=3",), ("#define N 3",)),
        (("--define-macro=N=3",), ("#define N 3",)),
        (("--define-macro", "N"), ("#define N 1",)),
        (("-DEQUAL=a==b",), ("#define EQUAL a==b",)),
        (("-DF(x)=x+1",), ("#define F(x) x+1",)),
        (("-DTYPE=unsigned int",), ("#define TYPE unsigned int",)),
        (("-UN",), ("#undef N",)),
        (("-DN=1", "-UN", "-DN=2"), ("#define N 1", "#undef N", "#define N 2")),
    ],
)
def test_macro_options_become_directives(
    options: tuple[str, ...], directives: tuple[str, ...]
) -> None:
    assert split_macros(options) == (directives, ())


@pytest.mark.parametrize(
    "options",
    [
        ("-lineinfo", "-I", "folder", "--std=c++14"),
        ("--device-debug",),
        ("-D",),
        ("-D=3",),
        ("-D", "3"),
    ],
)
def test_other_options_stay(options: tuple[str, ...]) -> None:
    assert split_macros(options) == ((), options)


def test_names() -> None:
    directives, _ = split_macros(("-DN=3", "-DF(x)=x", "-UM", "-DN=4"))
    assert macro_names(directives) == ("N", "F")
