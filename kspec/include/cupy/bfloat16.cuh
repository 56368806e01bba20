// bfloat16 and CUDA's own, each made of the other.
#pragma once

#include <cuda_bf16.h>

#include "cupy/carray.cuh"
#include "kspec/half.cuh"

namespace kspec {

template <> struct NativeHalf<__nv_bfloat16> { typedef __nv_bfloat16 type; };

}  // namespace kspec
