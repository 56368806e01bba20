"""Places of a preprocessed text in what the user wrote."""

import time

import pytest

from kspec.compiler.host.positions import Positions, SourcePosition
from kspec.cpp.call_sites import call_site
from kspec.model.stages import CudaSource

WRITTEN = """\
#define TWICE(v) (2 * (v))
int x = TWICE(y) /* two */ + zz;
int w =   zz + TWICE(TWICE(zz));
CALL(a,
     b,
     TWICE(c) + d);
int last;
"""
# As g++ and clang print it: arguments on several lines come on the first.
PREPROCESSED = """\
# 1 "k.cu"

int x = (2 * (y)) + zz;
int w = zz + (2 * ((2 * (zz))));
f(a, b, (2 * (c)) + d);


int last;
"""


@pytest.mark.parametrize(
    ("line", "word", "nth", "place"),
    [
        (1, "y", 0, (2, 15)),
        (1, "zz", 0, (2, 30)),
        (1, "2", 0, (2, 9)),  # out of the macro: where its name is
        (2, "zz", 0, (3, 11)),
        (2, "zz", 1, (3, 28)),
        (3, "a", 0, (4, 6)),
        (3, "b", 0, (5, 6)),
        (3, "c", 0, (6, 12)),
        (3, "d", 0, (6, 17)),
        (6, "last", 0, (7, 5)),
    ],
)
def test_original(line, word, nth, place):
    start = sum(len(one) + 1 for one in PREPROCESSED.splitlines()[: line + 1])
    line_start = PREPROCESSED.splitlines()[line + 1]
    offset = start - 1
    for _ in range(nth + 1):
        offset = PREPROCESSED.index(word, offset + 1)
    assert word in line_start
    found = Positions(PREPROCESSED, CudaSource("k.cu", WRITTEN)).original(offset)
    assert found == SourcePosition("k.cu", *place)


def test_logs():
    positions = Positions(PREPROCESSED, CudaSource("k.cu", WRITTEN))
    log = "k.cu:4:21: error: no d\nother.h:3:4: error: x\nk.cu:99:1: note: y"
    assert positions.in_log(log) == (
        "k.cu:6:17: error: no d\nother.h:3:4: error: x\nk.cu:99:1: note: y"
    )


def test_several_calls_on_a_line():
    source = CudaSource("k.cu", "f(); sync(); g(); sync(); h(x);\nend;\n")
    first, second = call_site("k.cu", 6, 1), call_site("k.cu", 19, 2)
    text = f'# 1 "k.cu"\nf(); \n# 1 "{first}"\nsync(); g(); \n# 1 "{second}"\nsync(); h(x);\n# 2 "k.cu"\nend;\n'
    positions = Positions(text, source)
    assert positions.in_log(f"{second}:1:11: error: x") == "k.cu:1:29: error: x"
    assert positions.in_log(f"{first}:1:9: error: g") == "k.cu:1:14: error: g"
    assert positions.in_log("k.cu:2:1: error: end") == "k.cu:2:1: error: end"


def test_columns_count_bytes_in_logs():
    source = CudaSource("k.cu", 'auto s = "äöü"; y = A(x);\n')
    positions = Positions('# 1 "k.cu"\nauto s = "äöü"; y = (x);\n', source)
    column = len('auto s = "äöü"; y = ('.encode()) + 1
    assert positions.in_log(f"k.cu:1:{column}: error: x") == f"k.cu:1:{column + 1}: error: x"


def test_long_lines_take_no_time():
    """A kernel may be one macro of a thousand calls."""
    written = "f(); " + "R " * 5000 + "last;"
    text = '# 1 "k.cu"\nf(); ' + "x = g(x); sync(); " * 5000 + "last;\n"
    positions = Positions(text, CudaSource("k.cu", written))
    offsets = [text.index("f("), text.index("sync", len(text) // 2), text.index("last")]
    start = time.process_time()
    places = [positions.original(offset) for offset in offsets]
    assert time.process_time() - start < 5
    assert [place.column for place in places] == [1, 6, written.index("last") + 1]
