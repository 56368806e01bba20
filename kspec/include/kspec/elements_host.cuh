// The loop on the CPU: a thread iterates over one contiguous chunk in runs along the innermost axis,
// so that only a run's first element costs divisions and the compiler can vectorise the others.
#pragma once

#include "kspec/elements.cuh"

#define KSPEC_ELEMENTS(i, elements)                                                            \
  for (auto kspec_run = kspec::first_run(elements); kspec_run.more(); kspec_run.next())        \
    for (ptrdiff_t i = kspec_run.begin; i < kspec_run.end; ++i)
#define KSPEC_AT(i, elements) kspec_run.at(i)

namespace kspec {

// Thread k of m takes [chunk(k), chunk(k + 1)); the first n % m chunks have one element more.
inline ptrdiff_t chunk_start(ptrdiff_t n, ptrdiff_t k, ptrdiff_t m) {
  const ptrdiff_t rest = n % m;
  return n / m * k + (k < rest ? k : rest);
}
inline ptrdiff_t chunk_begin(ptrdiff_t n) {
  return chunk_start(n, (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x,
                     (ptrdiff_t)gridDim.x * blockDim.x);
}
inline ptrdiff_t chunk_end(ptrdiff_t n) {
  return chunk_start(n, (ptrdiff_t)blockIdx.x * blockDim.x + threadIdx.x + 1,
                     (ptrdiff_t)gridDim.x * blockDim.x);
}

// Neighbouring elements [begin, end) of a thread's chunk, which ends at `stop`; `at(i)[k]` is where
// operand k has element i.
template <class Loop> struct Run;

template <int OPERANDS> struct Run<Elements<Flat, OPERANDS>> {
  ptrdiff_t begin, end, stop;

  Run(const Elements<Flat, OPERANDS>&, ptrdiff_t begin, ptrdiff_t stop)
      : begin(begin), end(stop), stop(stop) {}
  bool more() const { return begin < stop; }
  void next() { begin = stop; }

  struct At {
    ptrdiff_t i;
    Nth operator[](int) const { return Nth{i}; }
  };
  At at(ptrdiff_t i) const { return At{i}; }
};

template <int AXES, int OPERANDS> struct Run<Elements<Strided<AXES>, OPERANDS>> {
  const Axes<AXES, OPERANDS>& axes;
  ptrdiff_t begin, end, stop;
  Offsets<AXES, OPERANDS> first;

  Run(const Elements<Strided<AXES>, OPERANDS>& elements, ptrdiff_t begin, ptrdiff_t stop)
      : axes(elements.axes), begin(begin), end(begin), stop(stop), first(axes, begin) {
    reach();
  }
  bool more() const { return begin < stop; }
  void next() {
    begin = end;
    if (!more()) return;
    first = Offsets<AXES, OPERANDS>(axes, begin);
    reach();
  }

  struct At {
    const Run& run;
    ptrdiff_t step;
    Bytes operator[](int k) const {
      return Bytes{run.first.offset[k] + step * run.axes.strides[k][0]};
    }
  };
  At at(ptrdiff_t i) const { return At{*this, i - begin}; }

 private:
  void reach() {
    const ptrdiff_t row = axes.ndim ? axes.extents[0] : 1;
    end = begin - first.inner + row < stop ? begin - first.inner + row : stop;
  }
};

template <class Loop> inline Run<Loop> first_run(const Loop& elements) {
  return Run<Loop>(elements, chunk_begin(elements.size()), chunk_end(elements.size()));
}

template <class Loop, class Op, class... Args, int... K>
inline void each(const Loop& elements, const Op& op, Numbers<K...>, const Args&... args) {
  for (auto run = first_run(elements); run.more(); run.next())
    for (ptrdiff_t i = run.begin; i < run.end; ++i) op(i, args.item(run.at(i)[K])...);
}

}  // namespace kspec
