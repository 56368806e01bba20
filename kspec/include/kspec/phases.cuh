// Phases of one launch: what one has written, the next ones read.
//
// Blocks take tiles in the order of their numbers, those of one phase after those of the one
// before, and wait for all of the phase before. So each block waits for blocks that run, however
// many there are, and no launch has to be cooperative.
#pragma once

namespace kspec {

#if KSPEC_HOST_REVIEW
// Blocks run one after the other there, and the first takes all tiles: reviews look at some of those.
template <class Tiles> struct ReviewedTiles {
  unsigned long long count;

  ReviewedTiles(int phases, const Tiles& tiles_of) : count(0) {
    for (int phase = 0; phase < phases; ++phase) count += tiles_of(phase);
  }
  void begin(unsigned long long number) const { kspec_host::review_tile(number, count); }
};
#else
template <class Tiles> struct ReviewedTiles {
  __device__ inline ReviewedTiles(int, const Tiles&) {}
  __device__ inline void begin(unsigned long long) const {}
};
#endif

// Call `work(phase, tile)` with all threads for each of the `tiles_of(phase)` tiles of each phase.
// `progress`: tiles that have been taken, and tiles that are done. Both are zero before and after a
// launch: the last block to ask for a tile knows that no block has one.
template <class Tiles, class Work>
__device__ inline void in_phases(unsigned long long* progress, int phases, const Tiles& tiles_of,
                                 const Work& work) {
  typedef unsigned long long Word;
  // In shared memory, for `work` needs the registers: the first thread's numbers, and what it says.
  __shared__ Word before, tiles, taken;  // tiles of the phases before, and of this one; the block's
  __shared__ int phase;
  const ReviewedTiles<Tiles> reviewed(phases, tiles_of);
  if (threadIdx.x == 0) {
    phase = 0;
    before = 0;
    tiles = tiles_of(0);
  }
  for (;;) {
    if (threadIdx.x == 0) {
      const Word number = atomicAdd(progress, 1ull);
      reviewed.begin(number);
      while (phase < phases && number >= before + tiles) {
        before += tiles;
        if (++phase < phases) tiles = tiles_of(phase);
      }
      taken = number - before;
      if (phase < phases && before) {
        while (static_cast<const volatile Word*>(progress)[1] < before) __nanosleep(64);
        __threadfence();
      } else if (phase == phases && taken == gridDim.x - 1) {
        atomicExch(progress, 0ull);
        atomicExch(progress + 1, 0ull);
      }
    }
    __syncthreads();
    if (phase == phases) return;
    work(phase, (ptrdiff_t)taken);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(progress + 1, 1ull);
  }
}

// Call `work(number)` for every number of a tile of so many that this thread has. Each block has a tile
// at most: it takes longer to ask for one than to work on it.
__device__ inline ptrdiff_t spans(ptrdiff_t numbers) {
  const ptrdiff_t most = (numbers + 1023) / 1024;
  return most < gridDim.x ? most : gridDim.x;
}
template <class Work>
__device__ inline void each_in_span(ptrdiff_t tile, ptrdiff_t numbers, const Work& work) {
  const ptrdiff_t tiles = spans(numbers), each = (numbers + tiles - 1) / tiles;
  const ptrdiff_t end = (tile + 1) * each < numbers ? (tile + 1) * each : numbers;
  for (ptrdiff_t k = tile * each + threadIdx.x; k < end; k += blockDim.x) work(k);
}

}  // namespace kspec
