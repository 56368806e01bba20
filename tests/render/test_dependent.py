"""The words that a C++ template needs in a fragment."""

from __future__ import annotations

import pytest

from kspec.render.dependent import with_dependent_words

# Where a ^ stands, `typename` is to be written.
FRAGMENTS = r"""
using idx = ^decltype(x)::index_t;
^decltype(x)::index_t k = 1
for (^decltype(x)::index_t k = 0; k < 3; ++k) y += x[k]
y = (^T::value_type)x; y = (^T::value_type)3; return (^T::value_type)x
y = static_cast<const ^T::value_type>(x)
typedef ^T::value_type V; V v = 3
const ^T::value_type& r = x; ^T::value_type *p = &r
if (a) { ^T::part const q = 3; }
using V = ^std::conditional<true, T, int>::type; V k
^kspec::Foo<T>::type v; ^Foo<Foo<T>>::template bar<int>::type w
typename T::value_type k = 1; struct T::s v; y = a.T::b c
y = decltype(x)::ndim * 2; y = T::a * b; y = T::a & b; f(T::a * b)
y = std::numeric_limits<T>::max(); y = (T::flag) + 2; y = f<int>(T::a) 3
if (T::flag) y = 3; while (T::flag) f(); y = T::flag ? a : b
y = foo<T>::value and b; y = foo<T>::value or b
cuda::std::complex<T> z; std::size_t n = 2; ns::name z
y = f(T::value); y = x < T::n ? 1 : 2; z = a > T::m; y = T::n
decltype(x; T::; decltype; decltype::; ::; T
"""


@pytest.mark.parametrize("fragment", FRAGMENTS.strip().splitlines())
def test_typename(fragment: str) -> None:
    expected = fragment.replace("^", "typename ")
    assert with_dependent_words(fragment.replace("^", "")) == expected
    assert with_dependent_words(expected) == expected


def test_directives_and_comments_are_left_alone() -> None:
    text = '#define Q T::b c\n// T::b c\ns = "T::b c";\n'
    assert with_dependent_words(text) == text
