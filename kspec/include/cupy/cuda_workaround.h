// The parts of the C++ library that CuPy's kernels have from this header, under their own names.
#pragma once

#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
