// The same for many keys: rows are sorted by key, some at a time, and reduced as segments of equal keys.
#pragma once

#include "kspec/carry.cuh"
#include "kspec/key_sort.cuh"

namespace kspec {

// Sorted rows, in tiles of some columns side by side; a thread has ROWS rows of a column.
template <class Op, class Plan> struct KeySegments {
  typedef typename Op::_Acc Acc;
  typedef Total<Acc> Part;
  enum { ROWS = 16 };  // key_schedule.py agrees

  const Op& op;
  const Plan& plan;
  const KeySort<Op, Plan>& sort;
  int side;          // columns of a tile, a power of two
  int height;        // rows of a tile
  ptrdiff_t across;  // tiles side by side
  ptrdiff_t down;    // tiles below each other
  const unsigned int* keys;
  const unsigned int* numbers;

  __device__ inline KeySegments(const Op& op, const Plan& plan, const KeySort<Op, Plan>& sort)
      : op(op), plan(plan), sort(sort), side(1) {
    while (side < 32 && side < plan.outputs) side *= 2;
    height = blockDim.x / side * ROWS;
    across = (plan.outputs + side - 1) / side;
    down = (plan.chunk + height - 1) / height;
    keys = sort.keys(plan.passes);
    numbers = sort.numbers(plan.passes);
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
  __device__ inline bool exists(int row) const {
    return row < sort.rows && (ptrdiff_t)keys[row] < plan.count;
  }
  __device__ inline bool ends(int row) const {
    return row + 1 == sort.rows || keys[row + 1] != keys[row];
  }

  // Reduce the runs of a tile: those within it, and its parts of those that cross its edges.
  __device__ inline void reduce_tile(ptrdiff_t tile, unsigned char* memory) const {
    const ptrdiff_t above = tile / across, column = tile % across * side + threadIdx.x % side;
    const int first = (int)above * height + (int)threadIdx.x / side * ROWS;
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
    const int last = (int)(above + 1) * height - 1;
    if ((int)(threadIdx.x / side) != (int)(blockDim.x / side) - 1) return;
    const bool goes_on = exists(last) && !ends(last);
    if (goes_on && all.state == OPEN) head(above, column) = all.value;
    tail(above, column) = goes_on && all.state == BEGUN ? all.value : Part();
  }
  // Join the parts of the run that begins in a tile and ends in another. A warp comes here.
  __device__ inline void join_run(ptrdiff_t tile, ptrdiff_t column) const {
    if (!tail(tile, column).count) return;
    const int lane = threadIdx.x % 32;
    const int row = (int)(tile + 1) * height - 1;
    int low = row + 1, high = sort.rows;  // the end of the run
    while (low < high) {
      const int middle = low + (high - low) / 2;
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
  __device__ inline void read(int first, ptrdiff_t column, Carry<Part>& own, Part& closed,
                              ptrdiff_t& closing) const {
    // Rows, all of whose loads are in flight at once.
    enum { N = InFlight<Acc>::value > 1 ? InFlight<Acc>::value / 2 : 1 };
    const Offsets<Plan::CAPACITY, Plan::OPERANDS> at(plan.rows, column);
    unsigned int last = first && first < sort.rows ? keys[first - 1] : 0;
#pragma unroll 1
    for (int row = first; row < first + ROWS && row < sort.rows; row += N) {
      unsigned int key[N + 1], payload[N];
      Acc value[N];
#pragma unroll
      for (int n = 0; n <= N; ++n)
        key[n] = row + n < sort.rows ? keys[row + n] : (unsigned int)plan.count;
#pragma unroll
      for (int n = 0; n < N; ++n) payload[n] = row + n < sort.rows ? numbers[row + n] : 0;
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (key[n] < plan.count) value[n] = element(at, key[n], payload[n]);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (key[n] >= plan.count) continue;
        if (row + n == 0 || last != key[n])
          own.state = BEGUN;
        else if (own.state == NOTHING)
          own.state = OPEN;
        last = key[n];
        own.value.append(op, Counted<Acc, unsigned long long>{value[n], 1});
        if (key[n + 1] == key[n]) continue;
        if (own.state == BEGUN) {
          cell(key[n], column).append(op, own.value);
        } else {
          closed = own.value;
          closing = key[n];
        }
        own.value = Part();
      }
    }
  }
  // What a row makes.
  template <class At>
  __device__ inline Acc element(const At& at, ptrdiff_t key, unsigned int payload) const {
    if constexpr (sizeof(Acc) == sizeof(payload)) {
      if (carries_values<Acc>(plan)) {
        Acc value;
        memcpy(&value, &payload, sizeof(value));
        return value;
      }
    }
    const ptrdiff_t number = sort.first + payload;
    return op._map(InRow<Plan::CAPACITY, Plan::OPERANDS>{at, plan.steps, number}, number, key);
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
  const KeySort<Op, Plan> any(op, plan, 0);
  const KeySegments<Op, Plan> sizes(op, plan, any);
  const ptrdiff_t runs = sizes.down * plan.outputs;  // at most, that cross tiles
  const auto tiles_of = [&](int phase) -> ptrdiff_t {
    if (phase == 0 || phase == 1 + steps * chunks) return spans(slots);
    const int step = (phase - 1) % steps, sorting = step % SORTS;
    if (step < SORTS * plan.passes) return sorting == 1 ? (any.digits + warps - 1) / warps : any.tiles;
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
    const KeySort<Op, Plan> sort(op, plan, (phase - 1) / steps);
    if (step < SORTS * plan.passes) {
      if (step % SORTS == 0) {
        sort.count(pass, (int)tile, reinterpret_cast<unsigned int*>(memory));
      } else if (step % SORTS == 1) {
        sort.place((int)tile);
      } else {
        sort.scatter(pass, (int)tile, memory);
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
__device__ inline void reduce(const Op& op, const Reduction<KeySorted<AXES>, I, O>& plan,
                              const Inputs&...) {
  __shared__ __align__(16) unsigned char memory[KEY_SHARED];
  order_many(op, static_cast<const KeyPlan<AXES, I, O>&>(plan), memory);
}

}  // namespace kspec
