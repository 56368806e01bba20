// Reductions. Reduction<Layout, INPUTS, OUTPUTS> says which elements each output folds and how
// threads and blocks share them; kspec/runtime/fold.py packs the same structures. When there are
// few outputs, `splits` blocks share each, and the last block to finish adds the partial results.
//
// The order of additions depends on the plan alone, so equal calls give equal bits. The user's
// operation must be associative and commutative. Nothing is folded in but elements and, once for
// each output, the identity.
#pragma once

#include "kspec/accumulator.cuh"
#include "kspec/axes.cuh"
#include "kspec/layout.cuh"
#include "kspec/operand.cuh"

namespace kspec {

// Most threads of a block; kspec/runtime/fold.py agrees.
template <class Layout> struct MostThreads { enum { value = 256 }; };
template <> struct MostThreads<Lines> { enum { value = 512 }; };
template <> struct MostThreads<Columns> { enum { value = 512 }; };
// How many of these a multiprocessor must have the registers for; 0: as the compiler likes. Left to
// itself it spills some of lines to make room for a third block, which on an H200 costs 6 to 9 percent
// of the speed; columns and short lines are faster so.
template <class Layout> struct FewestBlocks { enum { value = 0 }; };
template <> struct FewestBlocks<Lines> { enum { value = 2 }; };

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
  ptrdiff_t packs;             // of each output; 0: too few elements for any
  int lanes;                   // 2^lanes threads for each output
  int splits;
  int leader;                  // input whose packs begin at an aligned address; -1: at the first
  int pad;
  void* partials;              // [outputs][splits] accumulators
  unsigned int* tickets;       // one for each block along x, zero before and after
  Axes<8, INPUTS + OUTPUTS> kept;
  Axes<8, INPUTS> reduced;     // of packs
};
// The same, two packs for each thread at most.
template <int INPUTS, int OUTPUTS>
struct Reduction<ShortLines, INPUTS, OUTPUTS> : Reduction<Lines, INPUTS, OUTPUTS> {};

// Packs along the innermost kept axis; fewer than 2^31 outputs.
template <int INPUTS, int OUTPUTS> struct Reduction<Columns, INPUTS, OUTPUTS> {
  ptrdiff_t outputs;
  ptrdiff_t length;
  ptrdiff_t columns;           // extent of the innermost kept axis, at least a pack
  unsigned long long aligned;  // bit k: packs of input k are aligned
  int across;                  // packs of a block side by side
  int tiles;                   // blocks along the columns
  int splits;
  int abreast;                 // 1: all packs of inputs that move are aligned
  ptrdiff_t outmost;           // 2: all other rows lie between the first and the last; else all rows
  void* partials;              // [blocks along x][splits][columns of a block] accumulators
  unsigned int* tickets;
  Axes<8, INPUTS + OUTPUTS> kept;
  Axes<8, INPUTS> reduced;
};

// What the user's expressions see as `_in_ind` and `_out_ind`.
struct Count {
  ptrdiff_t size_;
  __device__ inline ptrdiff_t size() const { return size_; }
};

// Whether this block is the last of its tile to arrive; all partials are visible to it then.
template <class Plan> __device__ inline bool is_last_block(const Plan& plan) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned int ticket = atomicAdd(&plan.tickets[blockIdx.x], 1u);
    last = ticket == (unsigned int)plan.splits - 1u;
    if (last) plan.tickets[blockIdx.x] = 0;  // ready for the next launch on this stream
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

}  // namespace kspec

#include "kspec/reduce_strided.cuh"
#ifndef KSPEC_HOST
#include "kspec/reduce_columns.cuh"
#include "kspec/reduce_lines.cuh"
#endif
