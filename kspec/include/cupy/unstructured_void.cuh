// NumPy's V<n>.
#pragma once

#include "kspec/struct.cuh"

namespace cupy {

template <int BYTES> using UnstructuredVoid = kspec::Void<BYTES>;

}  // namespace cupy
