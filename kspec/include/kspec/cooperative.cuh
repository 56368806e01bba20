// Threads of a warp or a block that compute something together: reductions, scans, copies. One
// algorithm for all types and all sizes of blocks; operators are associative, and see the values
// in the order of the threads. Reductions combine them in the order of CUB's algorithms, so that
// sums of floating-point numbers have the same bits.
#pragma once

template <class Real> class complex;

namespace kspec {

// NumPy's order of complex numbers, in which the first NaN is the largest and the smallest.
template <class Real>
__device__ inline bool is_less(const complex<Real>& left, const complex<Real>& right) {
  return left.real() < right.real() ||
         (left.real() == right.real() && left.imag() < right.imag());
}

struct Plus {
  template <class T> __device__ inline T operator()(T left, T right) const { return left + right; }
};
struct Larger {
  template <class T> __device__ inline T operator()(T left, T right) const {
    return left < right ? right : left;
  }
  template <class Real>
  __device__ inline complex<Real> operator()(complex<Real> left, complex<Real> right) const {
    if (left != left || right != right) return left != left ? left : right;
    return is_less(left, right) ? right : left;
  }
};
struct Smaller {
  template <class T> __device__ inline T operator()(T left, T right) const {
    return right < left ? right : left;
  }
  template <class Real>
  __device__ inline complex<Real> operator()(complex<Real> left, complex<Real> right) const {
    if (left != left || right != right) return left != left ? left : right;
    return is_less(right, left) ? right : left;
  }
};

__device__ inline unsigned int thread_number() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ inline unsigned int threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

// The lanes that this warp has, and the set of them.
__device__ inline unsigned int lanes_of_warp() {
  const unsigned int first = thread_number() & ~31u, rest = threads_of_block() - first;
  return rest < 32u ? rest : 32u;
}
__device__ inline unsigned int set_of_lanes(unsigned int lanes) {
  return lanes < 32u ? (1u << lanes) - 1 : 0xffffffffu;
}

// A value of any type in words, which warps exchange.
template <class T> union Words {
  enum { count = (sizeof(T) + 3) / 4 };
  unsigned int words[count];
  T value;
  __device__ inline Words() {}
  __device__ inline ~Words() {}
};
template <class T>
__device__ inline T from_lane_above(unsigned int mask, T value, unsigned int delta) {
  Words<T> sent, found;
  sent.words[Words<T>::count - 1] = 0;
  sent.value = value;
#pragma unroll
  for (int k = 0; k < Words<T>::count; ++k)
    found.words[k] = __shfl_down_sync(mask, sent.words[k], delta);
  return found.value;
}
template <class T>
__device__ inline T from_lane_below(unsigned int mask, T value, unsigned int delta) {
  Words<T> sent, found;
  sent.words[Words<T>::count - 1] = 0;
  sent.value = value;
#pragma unroll
  for (int k = 0; k < Words<T>::count; ++k)
    found.words[k] = __shfl_up_sync(mask, sent.words[k], delta);
  return found.value;
}

// Of the first lanes of a warp; the first one has the result.
template <class T, class Op>
__device__ inline T reduce_lanes(T value, unsigned int lanes, unsigned int mask, Op op) {
  const unsigned int lane = thread_number() & 31u;
#pragma unroll
  for (unsigned int delta = 1; delta < 32; delta *= 2) {
    const T other = from_lane_above(mask, value, delta);
    if (lane + delta < lanes) value = op(value, other);
  }
  return value;
}
template <class T, class Op> __device__ inline T warp_reduce(T*, T value, Op op) {
  const unsigned int lanes = lanes_of_warp();
  return reduce_lanes(value, lanes, set_of_lanes(lanes), op);
}
// The first thread of the block has the result. `slots` is one for each warp, in shared memory.
template <class T, class Op> __device__ inline T block_reduce(T* slots, T value, Op op) {
  const unsigned int thread = thread_number(), warps = (threads_of_block() + 31) / 32;
  value = warp_reduce(slots, value, op);
  if (thread % 32 == 0) slots[thread / 32] = value;
  __syncthreads();
  if (thread == 0)
    for (unsigned int warp = 1; warp < warps; ++warp) value = op(value, slots[warp]);
  return value;
}

// What the threads before this one have, and itself.
template <class T, class Op> __device__ inline T block_inclusive_scan(T* slots, T value, Op op) {
  const unsigned int thread = thread_number(), lane = thread % 32, lanes = lanes_of_warp();
  const unsigned int mask = set_of_lanes(lanes);
#pragma unroll
  for (unsigned int delta = 1; delta < 32; delta *= 2) {
    const T other = from_lane_below(mask, value, delta);
    if (lane >= delta) value = op(other, value);
  }
  if (lane + 1 == lanes) slots[thread / 32] = value;
  __syncthreads();
  if (thread >= 32) {
    T before = slots[0];
    for (unsigned int warp = 1; warp < thread / 32; ++warp) before = op(before, slots[warp]);
    value = op(before, value);
  }
  return value;
}
// The same without itself, behind a value that comes first.
template <class T, class Op>
__device__ inline T block_exclusive_scan(T* slots, T value, T initial, Op op) {
  const unsigned int thread = thread_number(), lane = thread % 32, lanes = lanes_of_warp();
  const T inclusive = block_inclusive_scan(slots, value, op);
  T before = from_lane_below(set_of_lanes(lanes), inclusive, 1);
  __syncthreads();  // everybody has read the slots
  if (lane + 1 == lanes) slots[thread / 32] = inclusive;
  __syncthreads();
  if (lane == 0 && thread > 0) before = slots[thread / 32 - 1];
  return thread == 0 ? initial : op(initial, before);
}

// Copies bytes together; whoever waits for the group afterwards sees all of them.
template <class Group>
__device__ inline void copy_by_group(const Group& group, void* to, const void* from, long long size) {
  char* target = static_cast<char*>(to);
  const char* source = static_cast<const char*>(from);
  const bool whole = ((size_t)to | (size_t)from | (size_t)size) % 4 == 0;
  const long long step = group.size(), first = group.thread_rank();
  if (whole) {
    for (long long k = first; k < size / 4; k += step)
      reinterpret_cast<int*>(target)[k] = reinterpret_cast<const int*>(source)[k];
  } else {
    for (long long k = first; k < size; k += step) target[k] = source[k];
  }
}

}  // namespace kspec
