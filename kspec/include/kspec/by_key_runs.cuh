// Reductions by key that keep the order of elements, so the user's operation need not be commutative,
// and equal calls give equal bits.
//
// Few keys: each warp has accumulators of its own, and elements that follow each other; those of
// warps, and then of tiles, are joined in their order. Many keys: rows are sorted by key, some at a
// time, and reduced as segments of equal keys.
#pragma once

#include "kspec/carry.cuh"
#include "kspec/key_sort.cuh"

namespace kspec {

// ---------------------------------------------------------------------- few keys

template <class Op> struct OwnCells {
  typedef typename Op::_Acc Acc;
  typedef Counted<Acc, unsigned int> Cell;

  const Op& op;
  Cell* cells;  // of this warp

  // Join elements of all lanes, in their order. All lanes come here.
  __device__ inline void put(ptrdiff_t slot, const Acc& value) const {
    const unsigned int peers = peers_of(slot);
    const Acc total = join_peers(op, peers, value);
    if (is_first(peers)) add(slot, total, __popc(peers));
    __syncwarp();
  }
  template <int N> __device__ inline void put(const KeyedBatch<Op, N>& batch) const {
    if constexpr (Op::_JOINS != OTHER && N > 1) {
      // Known operations may take elements in another order, if it is always the same.
      const ptrdiff_t slot = __shfl_sync(0xffffffffu, (long long)batch.slot[0], 0);
      bool same = slot >= 0;
#pragma unroll
      for (int k = 0; k < N; ++k) same = same && batch.slot[k] == slot;
      if (__all_sync(0xffffffffu, same)) {
        Acc total = batch.value[0];
#pragma unroll
        for (int k = 1; k < N; ++k) total = op._reduce(total, batch.value[k]);
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
          const Acc other = shuffle_down(total, by);
          if (threadIdx.x % 32 + by < 32) total = op._reduce(total, other);
        }
        if (threadIdx.x % 32 == 0) add(slot, total, 32 * N);
        __syncwarp();
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) put(batch.slot[k], batch.value[k]);
  }

 private:
  __device__ inline void add(ptrdiff_t slot, const Acc& value, unsigned int elements) const {
    cells[slot].append(op, Cell{value, elements});
  }
};

// Take elements that follow each other, N of each lane at once.
template <int N, class Op, int AXES, int I, int O>
__device__ inline void order_some(const Op& op, const KeyPlan<AXES, I, O>& plan,
                                  const OwnCells<Op>& own, ptrdiff_t begin, ptrdiff_t end) {
  for (ptrdiff_t n = begin; n < end; n += 32 * N) {
    KeyedBatch<Op, N> batch;
    batch.load(op, plan, n + threadIdx.x % 32, 32, end);
    own.put(batch);
  }
}
template <class Op, int AXES, int I, int O>
__device__ inline void order_few(const Op& op, const KeyPlan<AXES, I, O>& plan, ptrdiff_t tile,
                                 unsigned char* memory) {
  typedef typename OwnCells<Op>::Cell Cell;
  typedef Total<typename Op::_Acc> Part;
  const int slots = (int)plan.slots(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  Cell* cells = reinterpret_cast<Cell*>(memory);
  for (int k = threadIdx.x; k < warps * slots; k += blockDim.x) cells[k].count = 0;
  __syncthreads();
  const Stretch stretch(plan, tile);
  const ptrdiff_t total = stretch.end - stretch.begin;
  const ptrdiff_t each = ((total + warps - 1) / warps + 255) / 256 * 256;
  const ptrdiff_t begin = stretch.begin + warp * each;
  const ptrdiff_t end = begin + each < stretch.end ? begin + each : stretch.end;
  const OwnCells<Op> own{op, cells + warp * slots};
  if (plan.outputs == 1)
    order_some<InFlight<typename Op::_Acc>::value>(op, plan, own, begin, end);
  else
    order_some<1>(op, plan, own, begin, end);
  __syncthreads();
  Part* parts = static_cast<Part*>(plan.cells) + tile * slots;
  for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    Part part;
    for (int w = 0; w < warps; ++w) part.append(op, cells[w * slots + slot]);
    parts[slot] = part;
  }
}

// --------------------------------------------------------------------- many keys

// Sorted rows, in tiles of some columns side by side; a thread has ROWS rows of a column.
template <class Op, class Plan> struct KeySegments {
  typedef typename Op::_Acc Acc;
  typedef Total<Acc> Part;
  enum { ROWS = 16 };  // key_schedule.py agrees

  const Op& op;
  const Plan& plan;
  const KeySort<Plan>& sort;
  int side;          // columns of a tile, a power of two
  int height;        // rows of a tile
  ptrdiff_t across;  // tiles side by side
  ptrdiff_t down;    // tiles below each other
  const unsigned int* keys;
  const unsigned int* numbers;

  __device__ inline KeySegments(const Op& op, const Plan& plan, const KeySort<Plan>& sort)
      : op(op), plan(plan), sort(sort), side(1) {
    while (side < 32 && side < plan.outputs) side *= 2;
    height = blockDim.x / side * ROWS;
    across = (plan.outputs + side - 1) / side;
    down = (plan.chunk + height - 1) / height;
    keys = sort.keys(plan.passes - 1);
    numbers = sort.numbers(plan.passes - 1);
  }
  // What a tile makes of the run that began before it; of the run that begins in it and goes on.
  __device__ inline Part& head(ptrdiff_t tile, ptrdiff_t column) const {
    return static_cast<Part*>(plan.edges)[tile * plan.outputs + column];
  }
  __device__ inline Part& tail(ptrdiff_t tile, ptrdiff_t column) const {
    return head(down + tile, column);
  }
  __device__ inline Part& cell(ptrdiff_t key, ptrdiff_t column) const {
    return static_cast<Part*>(plan.cells)[key * plan.outputs + column];
  }
  __device__ inline bool exists(ptrdiff_t row) const {
    return row < sort.rows && (ptrdiff_t)keys[row] < plan.count;
  }
  __device__ inline bool begins(ptrdiff_t row) const { return row == 0 || keys[row - 1] != keys[row]; }
  __device__ inline bool ends(ptrdiff_t row) const {
    return row + 1 == sort.rows || keys[row + 1] != keys[row];
  }

  // Reduce the runs of a tile: those within it, and its parts of those that cross its edges.
  __device__ inline void reduce_tile(ptrdiff_t tile, unsigned char* memory) const {
    const ptrdiff_t above = tile / across, column = tile % across * side + threadIdx.x % side;
    const ptrdiff_t first = above * height + threadIdx.x / side * ROWS;
    const bool writes = column < plan.outputs;
    Carry<Part> own;
    own.state = NOTHING;
    Part closed;  // of the run that began before these rows and ends here
    ptrdiff_t closing = -1;
    if (writes) read(first, column, own, closed, closing);
    Carry<Part> before, all;
    scan(reinterpret_cast<Carry<Part>*>(memory), own, before, all);
    if (!writes) return;
    if (closing >= 0) {
      Part total = before.state == NOTHING ? Part() : before.value;
      total.append(op, closed);
      if (before.state == BEGUN)
        cell(closing, column).append(op, total);
      else
        head(above, column) = total;
    }
    const ptrdiff_t last = (above + 1) * height - 1;
    if ((int)(threadIdx.x / side) != (int)(blockDim.x / side) - 1) return;
    const bool goes_on = exists(last) && !ends(last);
    if (goes_on && all.state == OPEN) head(above, column) = all.value;
    tail(above, column) = goes_on && all.state == BEGUN ? all.value : Part();
  }
  // Join the parts of the run that begins in a tile and ends in another. A warp comes here.
  __device__ inline void join_run(ptrdiff_t tile, ptrdiff_t column) const {
    if (!tail(tile, column).count) return;
    const int lane = threadIdx.x % 32;
    const ptrdiff_t row = (tile + 1) * height - 1;
    ptrdiff_t low = row + 1, high = sort.rows;  // the end of the run
    while (low < high) {
      const ptrdiff_t middle = low + (high - low) / 2;
      if (keys[middle] == keys[row])
        low = middle + 1;
      else
        high = middle;
    }
    const ptrdiff_t last = (low - 1) / height, each = (last - tile + 31) / 32;
    const ptrdiff_t from = tile + 1 + lane * each, to = from + each - 1 < last ? from + each - 1 : last;
    Part total;
    for (ptrdiff_t k = from; k <= to; ++k) total.append(op, head(k, column));
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const Part other = shuffle_down(total, by);
      if (lane + by < 32) total.append(op, other);
    }
    if (lane) return;
    Part whole = tail(tile, column);
    whole.append(op, total);
    cell(keys[row], column).append(op, whole);
  }

 private:
  __device__ inline void read(ptrdiff_t first, ptrdiff_t column, Carry<Part>& own, Part& closed,
                              ptrdiff_t& closing) const {
    const Offsets<Plan::CAPACITY, Plan::OPERANDS> at(plan.rows, column);
    for (ptrdiff_t row = first; row < first + ROWS && exists(row); ++row) {
      const ptrdiff_t key = keys[row], number = sort.first + numbers[row];
      if (begins(row))
        own.state = BEGUN;
      else if (own.state == NOTHING)
        own.state = OPEN;
      Part element;
      element.value =
          op._map(InRow<Plan::CAPACITY, Plan::OPERANDS>{at, plan.steps, number}, number, key);
      element.count = 1;
      own.value.append(op, element);
      if (!ends(row)) continue;
      if (own.state == BEGUN) {
        cell(key, column).append(op, own.value);
      } else {
        closed = own.value;
        closing = key;
      }
      own.value = Part();
    }
  }
  // What is before these rows in the tile, and what there is behind them.
  __device__ inline void scan(Carry<Part>* shared, const Carry<Part>& own, Carry<Part>& before,
                              Carry<Part>& all) const {
    const CountedOp<Op> joined{op};
    all = own;
    shared[threadIdx.x] = all;
    __syncthreads();
    for (int by = side; by < (int)blockDim.x; by *= 2) {
      Carry<Part> other;
      other.state = NOTHING;
      if ((int)threadIdx.x >= by) other = shared[threadIdx.x - by];
      __syncthreads();
      all.follow(joined, other);
      shared[threadIdx.x] = all;
      __syncthreads();
    }
    before.state = NOTHING;
    if ((int)threadIdx.x >= side) before = shared[threadIdx.x - side];
  }
};

template <class Op, int AXES, int I, int O>
__device__ inline void order_many(const Op& op, const KeyPlan<AXES, I, O>& plan,
                                  unsigned char* memory) {
  typedef KeyPlan<AXES, I, O> Plan;
  typedef Total<typename Op::_Acc> Part;
  enum { SORTS = 3 };  // phases of a pass
  const int steps = SORTS * plan.passes + 2;
  const int chunks = (int)((plan.length + plan.chunk - 1) / plan.chunk);
  const ptrdiff_t slots = plan.slots();
  const int warps = blockDim.x / 32;
  unsigned int* shared = reinterpret_cast<unsigned int*>(memory);
  const KeySort<Plan> any(plan, 0);
  const KeySegments<Op, Plan> sizes(op, plan, any);
  const ptrdiff_t runs = sizes.down * plan.outputs;  // at most, that cross tiles
  const auto tiles_of = [&](int phase) -> ptrdiff_t {
    if (phase == 0 || phase == 1 + steps * chunks) return spans(slots);
    const int step = (phase - 1) % steps, sorting = step % SORTS;
    if (step < SORTS * plan.passes) return sorting == 1 ? DIGITS / warps : any.tiles;
    return step == steps - 2 ? sizes.across * sizes.down : (runs + warps - 1) / warps;
  };
  in_phases(plan.progress, 2 + steps * chunks, tiles_of, [&](int phase, ptrdiff_t tile) {
    Part* cells = static_cast<Part*>(plan.cells);
    if (phase == 0) {
      each_in_span(tile, slots, [&](ptrdiff_t slot) { cells[slot].count = 0; });
      return;
    }
    if (phase == 1 + steps * chunks) {
      each_in_span(tile, slots, [&](ptrdiff_t slot) {
        const Part& part = cells[slot];
        post_slot(op, plan, slot, part.value, (ptrdiff_t)part.count, part.count != 0);
      });
      return;
    }
    const int step = (phase - 1) % steps, pass = step / SORTS;
    const KeySort<Plan> sort(plan, (phase - 1) / steps);
    if (step < SORTS * plan.passes) {
      if (step % SORTS == 0) {
        if (Op::_STRICT && pass == 0) sort.check((int)tile);
        sort.count(pass, (int)tile, shared);
      } else if (step % SORTS == 1) {
        sort.place((int)tile);
      } else {
        sort.scatter(pass, (int)tile, shared);
      }
      return;
    }
    const KeySegments<Op, Plan> segments(op, plan, sort);
    if (step == steps - 2) {
      segments.reduce_tile(tile, memory);
    } else {
      const ptrdiff_t run = tile * warps + threadIdx.x / 32;
      if (run < runs) segments.join_run(run / plan.outputs, run % plan.outputs);
    }
  });
}

template <class Op, int AXES, int I, int O, class... Inputs>
__device__ inline void reduce(const Op& op, const Reduction<KeyRuns<AXES>, I, O>& plan,
                              const Inputs&...) {
  __shared__ __align__(16) unsigned char memory[KEY_SHARED];
  if (!plan.few) {
    order_many(op, static_cast<const KeyPlan<AXES, I, O>&>(plan), memory);
    return;
  }
  const ptrdiff_t slots = plan.slots();
  in_phases(plan.progress, 2, [&](int phase) { return phase ? (slots + 31) / 32 : plan.tiles; },
            [&](int phase, ptrdiff_t tile) {
              if (phase)
                post_few(op, plan, tile, memory);
              else
                order_few(op, plan, tile, memory);
            });
}

}  // namespace kspec
