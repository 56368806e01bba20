// The data of the checking modes (`sanitize=`): memory, race, init.
//
// Instrumented modules call service_access() (check.h) for every load and store. A checked launch
// runs on one operating-system thread, so nothing here is locked and every run is the same.
#pragma once

#include <stdint.h>

#include "state.h"

namespace kspec_host {

// 8 is CHECK_BOUNDS of rt.cc, which has no table here.
enum CheckMode { CHECK_MEMORY = 1, CHECK_RACE = 2, CHECK_INIT = 4, CHECK_REVIEW = 16 };

// Unused bytes before each __shared__ variable, so that an overrun does not land in the next one.
enum : unsigned { SHARED_REDZONE = 64 };

enum IntervalKind { INTERVAL_ARRAY, INTERVAL_BUFFER, INTERVAL_MODULE, INTERVAL_OURS };

// Memory a kernel may touch. Sorted; they may overlap (a view and its buffer).
struct Interval {
  uintptr_t begin, end;
  uintptr_t reach;  // largest end of this and all earlier ones
  IntervalKind kind;
  const char* name;  // INTERVAL_ARRAY
  unsigned number;   // INTERVAL_BUFFER
  bool read_only;    // INTERVAL_ARRAY
};

// State of a byte of shared memory, or of an array that was made for the launch.
enum : unsigned char { BYTE_PLACED = 1, BYTE_WRITTEN = 2 };

// An array that was made for the launch.
struct FreshArray {
  uintptr_t begin;
  size_t size;
  unsigned char* written;  // one for each byte
};

struct SharedState {
  SharedVariable* variables;
  unsigned variable_count, variable_capacity;
  unsigned char* placed;   // of the arena, one for each byte
  unsigned char* dynamic;  // of dynamic shared memory
};

struct Race;    // check_race.h
struct Review;  // review_state.h

struct Check {
  unsigned modes;
  uintptr_t quiet_begin;  // thread-local variables of the module: threadIdx and the like
  size_t quiet_size;
  Interval* intervals;
  unsigned interval_count, interval_capacity;
  const Interval* last;  // the one most accesses are in
  SharedState shared;
  FreshArray* fresh;  // where these are looked for
  unsigned fresh_count;
  Race* race;
  Review* review;  // null: nothing is recorded
  const BlockRange* runs;  // the blocks that it looks at: neighbours share sectors
  unsigned run_count, first_run;
  bool continues;
  uint64_t run_events;
};

}  // namespace kspec_host
