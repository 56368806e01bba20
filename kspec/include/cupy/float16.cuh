// float16 and CUDA's own half, each made of the other.
#pragma once

#include <cuda_fp16.h>

#include "cupy/carray.cuh"
#include "kspec/half.cuh"

namespace kspec {

template <> struct NativeHalf<__half> { typedef __half type; };

}  // namespace kspec
