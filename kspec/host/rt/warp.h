// Warp collectives: lanes wait until all that the mask names have arrived; the last one, or the
// scheduler when the missing lanes have returned, completes the operation for everybody.
#pragma once

#include <string.h>

#include "check.h"
#include "report.h"
#include "state.h"

// As in scheduler.h.
#pragma GCC push_options
#pragma GCC optimize("O2")

namespace kspec_host {

static inline void push_runnable(Worker* worker, Fiber* fiber) {
  fiber->next = nullptr;
  fiber->wait = WAIT_NONE;
  if (worker->queue_tail) {
    worker->queue_tail->next = fiber;
  } else {
    worker->queue_head = fiber;
  }
  worker->queue_tail = fiber;
}

// Lanes of a warp that exist: the last warp of a block may be partial.
static inline unsigned existing_lanes(const Worker* worker, unsigned warp) {
  unsigned left = worker->thread_count - warp * WARP_SIZE;
  return left >= WARP_SIZE ? 0xffffffffu : (1u << left) - 1;
}

static inline int take_lowest(unsigned* lanes) {
  int lane = __builtin_ctz(*lanes);
  *lanes &= *lanes - 1;
  return lane;
}

// memcpy with the usual sizes inlined.
static inline void copy_value(void* out, const void* in, unsigned size) {
  if (size == 4) {
    memcpy(out, in, 4);
  } else if (size == 8) {
    memcpy(out, in, 8);
  } else {
    memcpy(out, in, size);
  }
}

static void complete_shuffle(Warp* warp, unsigned lanes) {
  for (unsigned left = lanes; left;) {
    WarpCall* call = warp->lane[take_lowest(&left)]->call;
    int source = call->argument & (WARP_SIZE - 1);
    // Reading an inactive lane is undefined in CUDA; here the caller keeps its own value.
    if (lanes >> source & 1) copy_value(call->out, warp->lane[source]->call->in, call->size);
  }
}

static void complete_ballot(Warp* warp, unsigned lanes) {
  unsigned votes = 0;
  for (unsigned left = lanes; left;) {
    int lane = take_lowest(&left);
    if (warp->lane[lane]->call->argument) votes |= 1u << lane;
  }
  for (unsigned left = lanes; left;) *(unsigned*)warp->lane[take_lowest(&left)]->call->out = votes;
}

static void complete_gather(Warp* warp, unsigned lanes) {
  for (unsigned left = lanes; left;) {
    WarpCall* call = warp->lane[take_lowest(&left)]->call;
    for (unsigned others = lanes; others;) {
      int other = take_lowest(&others);
      memcpy((char*)call->out + other * call->size, warp->lane[other]->call->in, call->size);
    }
  }
  for (unsigned left = lanes; left;) warp->lane[take_lowest(&left)]->call->mask = lanes;
}

static void complete_group(Worker* worker, Warp* warp, unsigned index) {
  WarpGroup group = warp->groups[index];
  warp->groups[index] = warp->groups[--warp->group_count];
  unsigned lanes = group.arrived;
  if (group.kind != WARP_ACTIVE) race_warp(worker, (unsigned)(warp - worker->warps), lanes);
  switch (group.kind) {
    case WARP_SHUFFLE: complete_shuffle(warp, lanes); break;
    case WARP_BALLOT: complete_ballot(warp, lanes); break;
    case WARP_GATHER: complete_gather(warp, lanes); break;
    case WARP_ACTIVE:
      for (unsigned left = lanes; left;)
        *(unsigned*)warp->lane[take_lowest(&left)]->call->out = lanes;
      break;
  }
  for (unsigned left = lanes; left;) {
    int lane = take_lowest(&left);
    worker->suspended--;
    push_runnable(worker, warp->lane[lane]);
    warp->lane[lane] = nullptr;
  }
}

// __syncwarp pairs by mask alone, everything else also by call site: two shuffles in different
// branches are different operations.
static bool belongs_to(const WarpGroup& group, const WarpCall* call, unsigned lane) {
  if (group.kind != call->kind || group.mask != call->mask || (group.arrived >> lane & 1))
    return false;
  if (call->kind == WARP_SYNC) return true;
  return group.site.line == call->site.line && !strcmp(group.site.file, call->site.file);
}

static unsigned find_group(Worker* worker, Warp* warp, const WarpCall* call, unsigned thread) {
  unsigned lane = thread % WARP_SIZE, index = 0;
  while (index < warp->group_count && !belongs_to(warp->groups[index], call, lane)) index++;
  if (index == warp->group_count) {
    // Each group holds a waiting lane, so 32 is never exceeded; the check is for our own bugs.
    if (index == MAX_WARP_GROUPS)
      fail_thread(worker, thread, call->site, "internal-error", "too many groups in one warp");
    warp->groups[warp->group_count++] = {call->kind, call->mask, 0, call->site};
  }
  return index;
}

// Enter a warp operation; the caller then gives the processor away.
static void arrive_at_warp(Worker* worker, Fiber* fiber, unsigned thread, WarpCall* call) {
  unsigned lane = thread % WARP_SIZE, number = thread / WARP_SIZE;
  if (call->kind != WARP_ACTIVE && !(call->mask >> lane & 1))
    fail_thread(worker, thread, call->site, "warp-mask",
                "%s: the calling lane %u is not in its mask 0x%08x", call->name, lane, call->mask);
  Warp* warp = &worker->warps[number];
  unsigned index = find_group(worker, warp, call, thread);
  WarpGroup* group = &warp->groups[index];
  group->arrived |= 1u << lane;
  warp->lane[lane] = fiber;
  fiber->call = call;
  fiber->thread = thread;
  fiber->wait = WAIT_WARP;
  worker->suspended++;
  if (call->kind != WARP_ACTIVE && group->arrived == (group->mask & existing_lanes(worker, number)))
    complete_group(worker, warp, index);
}

}  // namespace kspec_host

#pragma GCC pop_options
