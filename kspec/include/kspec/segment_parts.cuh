// Segments that begin in one stretch of elements and end in another. A block leaves what its stretch
// has of them in memory. CHUNK stretches that follow each other are a chunk: the last of its blocks to
// come joins what they have left, and the last block of all does so with chunks. No block waits for
// another, and the order in which values are joined is always the same.
#pragma once

#include "kspec/carry.cuh"

namespace kspec {

enum { CHUNK = 32 };  // kspec/runtime/schedules/segment_schedule.py agrees

template <class Acc> struct SegmentPart {
  Carry<Acc> tail;    // what its elements make
  Carry<Acc> head;    // those of a segment that begins before them and ends among them
  ptrdiff_t segment;  // that segment, or -1
};

// Write `part` to `place`; return whether all of `count` blocks have come here, with a counter that is
// zero before and after. A warp comes here.
template <class Acc>
__device__ inline bool leave_last(SegmentPart<Acc>* place, const SegmentPart<Acc>& part,
                                  unsigned long long* counter, ptrdiff_t count) {
  int last = 0;
  if (threadIdx.x % 32 == 0) {
    *place = part;
    __threadfence();
    last = atomicAdd(counter, 1ull) + 1 == (unsigned long long)count;
    if (last) *counter = 0;
    __threadfence();
  }
  return __shfl_sync(0xffffffffu, last, 0);
}

// Join parts that follow each other, and call `post(segment, value)` for the segments that begin in one
// and end in another. Return what is left of all of them. A warp comes here.
template <class Op, class Acc, class Post>
__device__ inline SegmentPart<Acc> join_parts(const Op& op, const SegmentPart<Acc>* parts,
                                              ptrdiff_t count, const Post& post) {
  typedef SegmentPart<Acc> Part;
  const int lane = threadIdx.x % 32;
  const auto read = [&](ptrdiff_t k) {
    Part part;
    part.tail.state = part.head.state = NOTHING;
    part.segment = -1;
    return k < count ? read_written(parts + k) : part;
  };
  Part next = read(lane), whole = read(count);
#pragma unroll 1
  for (ptrdiff_t k = lane; k - lane < count; k += 32) {
    Part part = next;
    next = read(k + 32);
    const Carry<Acc> sum = up_to_lane<32>(op, part.tail);
    Carry<Acc> before = shuffle_up(sum, 1);
    if (lane == 0) before.state = NOTHING;
    before.follow(op, whole.tail);
    const bool is_open = part.segment >= 0 && before.state != BEGUN;
    if (part.segment >= 0) part.head.follow(op, before);
    if (part.segment >= 0 && !is_open) post(part.segment, part.head.value);
    const unsigned int open = __ballot_sync(0xffffffffu, is_open);
    const Part first = shuffle_from(part, open ? __ffs(open) - 1 : 0);
    Carry<Acc> tail = shuffle_from(sum, 31);
    tail.follow(op, whole.tail);
    if (open) whole = first;
    whole.tail = tail;
  }
  return whole;
}

// Leave what stretch number `number` has, and join what is there. A warp comes here.
template <class Op, class Plan, class Acc, class Post>
__device__ inline void leave_part(const Op& op, const Plan& plan, ptrdiff_t number,
                                  SegmentPart<Acc> part, const Post& post) {
  SegmentPart<Acc>* parts = static_cast<SegmentPart<Acc>*>(plan.carries);
  const ptrdiff_t chunk = number / CHUNK, first = chunk * CHUNK;
  const ptrdiff_t chunks = (plan.tiles + CHUNK - 1) / CHUNK;
  ptrdiff_t count = first + CHUNK < plan.tiles ? CHUNK : plan.tiles - first;
  // How many blocks of each chunk have come, and behind them how many chunks are joined.
  unsigned long long* const joined = plan.tickets + chunks;
  unsigned long long* counter = plan.tickets + chunk;
  parts += first;
  // Once for a stretch, and, as the last one, for its chunk.
#pragma unroll 1
  for (ptrdiff_t own = number - first; leave_last(parts + own, part, counter, count); own = chunk) {
    part = join_parts(op, parts, count, post);
    if (counter == joined || chunks == 1) return;
    parts = static_cast<SegmentPart<Acc>*>(plan.carries) + plan.tiles;
    count = chunks;
    counter = joined;
  }
}

}  // namespace kspec
