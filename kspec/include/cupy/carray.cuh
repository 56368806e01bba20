// CuPy's names for arrays, for functions of a user's preamble.
#pragma once

#include "kspec/array.cuh"
#include "kspec/constants.cuh"
#include "kspec/floor_divide.cuh"
#include "kspec/loop.cuh"

using kspec::CArray;
using kspec::CIndexer;

namespace cupy {
namespace type_traits {

template <bool, class Yes, class No> struct conditional { typedef Yes type; };
template <class Yes, class No> struct conditional<false, Yes, No> { typedef No type; };

template <bool, class Type = void> struct enable_if {};
template <class Type> struct enable_if<true, Type> { typedef Type type; };

template <class Left, class Right> struct is_same { static constexpr bool value = false; };
template <class Type> struct is_same<Type, Type> { static constexpr bool value = true; };

}  // namespace type_traits
}  // namespace cupy
