// The adjoint of an operation that is linear in a windowed input: where the operation has read an
// element for v, the gradient of v goes back to that element.
//
// With c(q, d) for the coefficient of u(d) in v at q, the gradient of u at p is the sum of
// c(q, d) * grad_v(q) over all q and d for which u(d) at q is the element p. The coefficient is what
// the operation makes of a window that is 1 at d and 0 elsewhere, less what it makes of zeros. Each
// thread gathers, so that every run has the same bits.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/accumulator.cuh"
#include "kspec/windows.cuh"

namespace kspec {

// A window of zeros, but for a one at some offsets.
template <class T, int A> struct UnitWindow {
  ptrdiff_t one[A];  // innermost first
  bool zero;

  template <class... Offset> __device__ inline T read(Offset... offset) const {
    CheckedOffsets<A, Offset...>();
    const ptrdiff_t offsets[A] = {static_cast<ptrdiff_t>(offset)...};
    bool found = !zero;
#pragma unroll
    for (int k = 0; k < A; ++k) found = found && offsets[A - 1 - k] == one[k];
    return static_cast<T>(found ? 1 : 0);
  }
  __device__ inline T center() const {
    bool found = !zero;
#pragma unroll
    for (int k = 0; k < A; ++k) found = found && one[k] == 0;
    return static_cast<T>(found ? 1 : 0);
  }
#ifdef KSPEC_HOST
  template <class... Offset>
  inline T read_checked(const char*, const char*, int, Offset... offset) const {
    return read(offset...);
  }
#endif
};

// Call visit(q) for each index q in [0, length) whose element at offset d is the element p of the
// window's axis k.
template <class T, int A, int B, class Visit>
__device__ inline void for_each_reader(const Window<T, A, B>& window, int k, ptrdiff_t p, ptrdiff_t d,
                                       const Visit& visit) {
  const ptrdiff_t extent = window.extents[k];
  const bool smaller = window.boundary() == VALID;
  const ptrdiff_t length = smaller ? extent - window.before[k] - window.after[k] : extent;
  const ptrdiff_t q = p - window.first[k] - d;
  if (window.boundary() == WRAP) {
    visit(modulo(q, extent));
    return;
  }
  if (q >= 0 && q < length) visit(q);
  if (smaller || window.boundary() == CONSTANT) return;
  // Positions outside that stand for p: before the array or behind it, as the offset points.
  const ptrdiff_t begin = d < 0 ? d : extent, end = d < 0 ? 0 : extent + d;
  for (ptrdiff_t place = begin; place < end; ++place)
    if (place - d >= 0 && place - d < extent && index_outside(place, extent, window.boundary()) == p)
      visit(place - d);
}

// The same along axis K and those outside of it; `q` gets the indices.
template <int K> struct Readers {
  template <class T, int A, int B, class Visit>
  __device__ static inline void visit(const Window<T, A, B>& window, const ptrdiff_t* p,
                                      const ptrdiff_t* d, ptrdiff_t* q, const Visit& visit) {
    for_each_reader(window, K, p[K], d[K], [&](ptrdiff_t index) {
      q[K] = index;
      Readers<K - 1>::visit(window, p, d, q, visit);
    });
  }
};
template <> struct Readers<-1> {
  template <class T, int A, int B, class Visit>
  __device__ static inline void visit(const Window<T, A, B>&, const ptrdiff_t*, const ptrdiff_t*,
                                      ptrdiff_t*, const Visit& visit) {
    visit();
  }
};

// The gradient at one element, which has index p along the windowed axes.
template <class Acc, class T, int A, int B, int W, int OUTER, int N, class Op, class... Args, int... K>
__device__ inline Acc gradient_at(const Elements<Windows<W, OUTER>, N>& loop,
                                  const Window<T, A, B>& window, const Offsets<OUTER, N>& outer,
                                  const ptrdiff_t* p, const Op& op, Numbers<K...>,
                                  const Args&... args) {
  Acc sum = Acc();
  UnitWindow<T, A> unit, zero;
  ptrdiff_t q[W];
#pragma unroll
  for (int k = 0; k < W; ++k) q[k] = p[k];
  zero.zero = true;
  unit.zero = false;
  ptrdiff_t count = 1;
#pragma unroll
  for (int k = 0; k < A; ++k) {
    zero.one[k] = 0;
    count *= window.before[k] + window.after[k] + 1;
  }
  for (ptrdiff_t number = 0; number < count; ++number) {
    ptrdiff_t rest = number;
#pragma unroll
    for (int k = 0; k < A; ++k) {
      const ptrdiff_t reach = window.before[k] + window.after[k] + 1;
      unit.one[k] = rest % reach - window.before[k];
      rest /= reach;
    }
    Readers<A - 1>::visit(window, p, unit.one, q, [&] {
      const auto offset = [&](int k) {
        ptrdiff_t bytes = outer.offset[k];
#pragma unroll
        for (int axis = 0; axis < W; ++axis) bytes += q[axis] * loop.strides[k][axis];
        return bytes;
      };
      sum += op(unit, item_at<Anywhere>(args, loop.strides[K], offset(K), q)...) -
             op(zero, item_at<Anywhere>(args, loop.strides[K], offset(K), q)...);
    });
  }
  return sum;
}

// Call visit(outer, index) for each element of a thread: one on a GPU.
template <int W, int OUTER, int N, class Visit>
__device__ inline void for_each_place(const Elements<Windows<W, OUTER>, N>& loop,
                                      const Visit& visit) {
#ifdef KSPEC_CHUNKED
  const ptrdiff_t begin = chunk_begin(loop.size()), end = chunk_end(loop.size());
#else
  const ptrdiff_t begin = thread_number(), end = begin < loop.size() ? begin + 1 : begin;
#endif
  for (ptrdiff_t i = begin; i < end; ++i) {
    ptrdiff_t index[W], rest = i;
#pragma unroll
    for (int k = 0; k < W; ++k) {
      const ptrdiff_t next = rest / loop.extents[k];
      index[k] = rest - next * loop.extents[k];
      rest = next;
    }
    visit(Offsets<OUTER, N>(loop.outer, rest), index);
  }
}

// Call op(window, x, y, ...) for what the gradient needs of the inputs; it returns the outputs
// multiplied by their gradients. The gradient is the last operand.
template <class Acc, int W, int OUTER, int N, class T, int A, int B, class Op, class Out,
          class... Args>
__device__ inline void for_each_adjoint(const Elements<Windows<W, OUTER>, N>& loop,
                                        const Window<T, A, B>& window, const Op& op, const Out& out,
                                        const Args&... args) {
  for_each_place(loop, [&](const Offsets<OUTER, N>& outer, const ptrdiff_t* index) {
    ptrdiff_t offset = outer.offset[N - 1];
#pragma unroll
    for (int axis = 0; axis < W; ++axis) offset += index[axis] * loop.strides[N - 1][axis];
    out.item(Bytes{offset}) = static_cast<T>(gradient_at<Acc>(
        loop, window, outer, index, op, typename UpTo<N - 1>::type(), args...));
  });
}

}  // namespace kspec
