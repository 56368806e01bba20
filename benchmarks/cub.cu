// CUB's device functions as C functions, which benchmarks/cub.py compiles, loads and calls:
//
//     function(memory, &bytes, operands..., elements, rows, stream)
//
// As in CUB, it only says how many bytes of temporary memory it needs if `memory` is null. `rows` are
// those that a scan has, segments, or bins. CUDA's error is returned.
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cuda/std/functional>
#include <cuda_fp16.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

typedef long long Number;

// The row of an element, of fewer than 2^31: keys that are neither stored nor read. The quotient is a
// product (T. Granlund and P. L. Montgomery, "Division by invariant integers using multiplication").
struct RowOf {
  unsigned int factor;
  int shift = 31;

  explicit RowOf(Number length) {
    while (Number(1) << (shift - 31) < length) ++shift;
    factor = static_cast<unsigned int>(((1ull << shift) + length - 1) / length);
  }
  __host__ __device__ unsigned int operator()(Number element) const {
    return static_cast<unsigned int>((1ull * static_cast<unsigned int>(element) * factor) >> shift);
  }
};

// An element of a sparse matrix times that of the vector in its column.
struct Product {
  const float* value;
  const int* column;
  const float* x;
  __host__ __device__ float operator()(Number element) const {
    return value[element] * x[column[element]];
  }
};

template <class Function> auto each(Function function) {
  return thrust::make_transform_iterator(thrust::make_counting_iterator(Number(0)), function);
}

#define SCAN(name, T)                                                                         \
  extern "C" int name(void* memory, size_t* bytes, const T* x, T* y, Number elements, Number, \
                      cudaStream_t stream) {                                                  \
    return cub::DeviceScan::InclusiveSum(memory, *bytes, x, y, elements, stream);             \
  }
SCAN(scan_float32, float)
SCAN(scan_float64, double)

// Halves are added as floats, as kspec adds them.
#define SCAN_ROWS(name, T)                                                                     \
  extern "C" int name(void* memory, size_t* bytes, const T* x, T* y, Number elements,          \
                      Number rows, cudaStream_t stream) {                                      \
    return cub::DeviceScan::InclusiveScanByKey(memory, *bytes, each(RowOf(elements / rows)),   \
                                               x, y, cuda::std::plus<float>(), elements,       \
                                               cuda::std::equal_to<>(), stream);               \
  }
SCAN_ROWS(scan_rows_float32, float)
SCAN_ROWS(scan_rows_float16, __half)

extern "C" int segments_float32(void* memory, size_t* bytes, const float* x, const Number* bounds,
                                float* y, Number, Number rows, cudaStream_t stream) {
  return cub::DeviceSegmentedReduce::Sum(memory, *bytes, x, y, rows, bounds, bounds + 1, stream);
}

extern "C" int csr_float32(void* memory, size_t* bytes, const float* value, const int* column,
                           const float* x, const int* bounds, float* y, Number, Number rows,
                           cudaStream_t stream) {
  return cub::DeviceSegmentedReduce::Sum(memory, *bytes, each(Product{value, column, x}), y, rows,
                                         bounds, bounds + 1, stream);
}
