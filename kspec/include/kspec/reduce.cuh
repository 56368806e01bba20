// Reductions. Reduction<Layout, INPUTS, OUTPUTS> says which elements each output reduces and how
// threads and blocks share them; kspec/runtime/schedules/reductions packs the same
// structures. When there are few outputs, `splits` blocks share each, and the last block to finish
// adds the partial results.
//
// The order of additions depends on the plan alone, so equal calls give equal bits. The user's
// operation must be associative and commutative. Nothing is combined but elements and, once for
// each output, the identity.
#pragma once

#include "kspec/chunked.cuh"
#include "kspec/accumulator.cuh"
#include "kspec/axes.cuh"
#include "kspec/layout.cuh"
#include "kspec/operand.cuh"
#include "kspec/pack.cuh"

namespace kspec {

// Most threads of a block; kspec/runtime/schedules/reductions agrees.
template <class Layout, class Acc> struct MaxThreads { enum { value = 256 }; };
template <class Acc> struct MaxThreads<Lines, Acc> { enum { value = 512 }; };

// How many of these a multiprocessor must have the registers for; 0: as the compiler likes. Left to
// itself it spills some of lines to make room for a third block, which on an H200 costs 6 to 9 percent
// of the speed; short lines are faster so. Columns want many rows in flight: what they keep for the
// end of the kernel may have to wait in memory, but not what they work on.
template <class Layout, class Acc, class... Inputs> struct MinBlocks { enum { value = 0 }; };
template <class Acc, class... Inputs> struct MinBlocks<Lines, Acc, Inputs...> {
  enum { value = 2 };
};
template <class Acc, class... Inputs> struct MinBlocks<Columns, Acc, Inputs...> {
  enum {
    words = 16 * sizeof...(Inputs) + PackSize<Inputs...>::value * (int)((sizeof(Acc) + 3) / 4),
    value = words <= 20 ? 5 : words <= 36 ? 4 : 0
  };
};

template <class Layout, int INPUTS, int OUTPUTS> struct Reduction;

template <int AXES, int INPUTS, int OUTPUTS> struct Reduction<Strided<AXES>, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;                        // number of results
  ptrdiff_t length;                         // elements of each
  ptrdiff_t chunk;                          // elements of one split
  int lanes;                                // threads for each output, a power of two
  int rows;                                 // outputs of a block, a power of two
  int neighbours;                           // 1: neighbouring threads take neighbouring outputs
  int splits;                               // blocks that share an output
  void* partials;                           // [outputs][splits] accumulators
  unsigned int* tickets;                    // one for each tile of outputs, zero
  Axes<AXES, INPUTS + OUTPUTS> kept;
  Axes<AXES, INPUTS> reduced;
};

// Aligned packs along the innermost reduced axis: its elements are neighbours in memory, or all the
// same.
// Fewer than 2^31 outputs.
template <int INPUTS, int OUTPUTS> struct Reduction<Lines, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  ptrdiff_t last;              // pack with which the first thread begins the last of its rounds
  int lanes;                   // 2^lanes threads for each output
  int splits;
  int leader;                  // input whose packs begin at an aligned address; -1: at the first
  int way;                     // how short lines are read: one of ShortWay
  void* partials;              // [outputs][splits] accumulators
  unsigned int* tickets;       // one for each block along x, zero before and after
  Axes<8, INPUTS + OUTPUTS> kept;
  Axes<8, INPUTS> reduced;     // of packs
};
// The same of few elements: two packs for each thread at most; or one by one, from where they are or
// from shared memory, to which a block copies all of its own.
enum ShortWay { IN_PACKS, ONE_BY_ONE, STAGED };
template <int INPUTS, int OUTPUTS>
struct Reduction<ShortLines, INPUTS, OUTPUTS> : Reduction<Lines, INPUTS, OUTPUTS> {};

// Packs along the innermost kept axis; fewer than 2^31 outputs.
template <int INPUTS, int OUTPUTS> struct Reduction<Columns, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  ptrdiff_t columns;           // extent of the innermost kept axis
  ptrdiff_t rows;              // each of `merged` elements of an output
  unsigned long long held;     // bit k: all rows share the elements of input k
  int across;                  // threads of a block side by side
  int down;                    // and below each other
  int span;                    // columns of a block
  int tiles;                   // blocks along the columns
  int splits;
  int group;                   // splits whose results are joined first
  int merged;                  // rows that are read as one
  int leader;                  // input whose packs begin at an aligned address; -1: at the first
  int period;                  // rows after which alignment repeats; divides `down`
  int alone;                   // rows at both ends that do not have others on both sides
  int rest;                    // of the rows, divided by those that all splits take at once
  int pad;
  void* partials;              // [blocks along x][splits][span] accumulators
  unsigned int* tickets;       // of each block along x: for all groups and for each; or just one
  Axes<8, INPUTS + OUTPUTS> kept;
  Axes<8, INPUTS> reduced;     // of rows
};

// What the user's expressions see as `_in_ind` and `_out_ind`.
struct Count {
  ptrdiff_t size_;
  __device__ inline ptrdiff_t size() const { return size_; }
};

// The user's expressions, told how many elements the output has that they make now.
template <class Op> __device__ inline Op counted(const Op& op, ptrdiff_t elements) {
  Op one(op);
  one._in_ind.size_ = elements;
  one._out_ind.size_ = 1;
  return one;
}

// Whether this block is the last of `count` to arrive with a ticket; what the others wrote before
// is visible to it then.
__device__ inline bool is_last_block(unsigned int* ticket, int count) {
  __threadfence();
  __syncthreads();
  bool last = false;
  if (threadIdx.x == 0) {
    last = atomicAdd(ticket, 1u) == (unsigned int)count - 1u;
    if (last) *ticket = 0;  // ready for the next launch on this stream
  }
  last = __syncthreads_or(last);
  if (last) __threadfence();
  return last;
}

}  // namespace kspec

#include "kspec/reduce_strided.cuh"
#ifndef KSPEC_CHUNKED
#include "kspec/reduce_columns.cuh"
#include "kspec/reduce_lines.cuh"
#endif
#include "kspec/aggregates.cuh"
#include "kspec/by_key.cuh"
#include "kspec/rolling.cuh"
#include "kspec/segments.cuh"
