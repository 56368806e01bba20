// Checks of shared memory: bounds of each variable (sanitize="memory") and reads of what nobody
// wrote (sanitize="init").
#pragma once

#include <stdlib.h>
#include <string.h>

#include "check_memory.h"
#include "check_state.h"

namespace kspec_host {

static bool prepare_shared_state(SharedState* state, size_t arena_bytes, size_t dynamic_bytes) {
  void* placed = realloc(state->placed, arena_bytes);
  if (placed) state->placed = (unsigned char*)placed;
  void* dynamic = realloc(state->dynamic, dynamic_bytes + 1);
  if (dynamic) state->dynamic = (unsigned char*)dynamic;
  return placed && dynamic;
}

// A new block begins: nothing is placed, nothing is written.
static void reset_shared_state(Worker* worker) {
  SharedState* state = &worker->job->check->shared;
  state->variable_count = 0;
  memset(state->placed, 0, worker->block.static_capacity);
  memset(state->dynamic, BYTE_PLACED, worker->dynamic_bytes);
}

static void service_place(Worker* worker, unsigned offset, unsigned size, const char* name) {
  Check* check = worker->job->check;
  if (!check) {
    if (worker->place_count < worker->slot_capacity)
      worker->places[worker->place_count++] = {offset, size, name};
    return;
  }
  SharedState* state = &check->shared;
  memset(state->placed + offset, BYTE_PLACED, size);
  if (state->variable_count == state->variable_capacity) {
    unsigned capacity = 2 * state->variable_capacity + 16;
    void* grown = realloc(state->variables, capacity * sizeof(SharedVariable));
    if (!grown) return;
    state->variables = (SharedVariable*)grown;
    state->variable_capacity = capacity;
  }
  state->variables[state->variable_count++] = {offset, size, name};
}

// Name the variable that is nearest to an offset in the arena.
static void describe_variable(Text* text, const SharedState* state, size_t offset) {
  const SharedVariable* nearest = nullptr;
  size_t best = (size_t)-1;
  for (unsigned i = 0; i < state->variable_count; i++) {
    const SharedVariable& one = state->variables[i];
    size_t end = one.offset + one.size;
    size_t distance = offset < one.offset ? one.offset - offset : offset >= end ? offset - end : 0;
    if (distance < best) {
      best = distance;
      nearest = &one;
    }
  }
  if (!nearest) {
    text->add("offset %zu of static shared memory", offset);
    return;
  }
  describe_offset(text, offset, nearest->offset, nearest->size);
  text->add("__shared__ %s (%u bytes)", nearest->name, nearest->size);
}

// Say which shared memory an address is in, or nearest to.
static void describe_shared_address(Text* text, const Worker* worker, uintptr_t address) {
  uintptr_t arena = (uintptr_t)worker->block.static_shared;
  if (address - arena < worker->block.static_capacity) {
    describe_variable(text, &worker->job->check->shared, address - arena);
    return;
  }
  describe_offset(text, address, (uintptr_t)worker->block.dynamic_shared, worker->dynamic_bytes);
  text->add("dynamic shared memory (%zu bytes)", worker->dynamic_bytes);
}

[[noreturn]] static void fail_shared(Worker* worker, unsigned thread, uintptr_t address,
                                     size_t size, unsigned kind, const void* pc, bool unwritten) {
  const char* name = unwritten ? "uninitialized-read" : "illegal-address";
  if (Fault* fault = begin_access_fault(worker, thread, pc, name)) {
    Text text(fault->message, sizeof fault->message);
    text.add(unwritten ? "%s of %zu unwritten bytes at " : "%s of %zu bytes at ",
             kind_name(kind), size);
    describe_shared_address(&text, worker, address);
    end_fault(worker);
  }
  abort_block(worker);
}

// The state bytes of an access to shared memory; null when it is outside of it. `known` says
// whether the address is in shared memory's mapping at all.
static unsigned char* shared_bytes(Worker* worker, uintptr_t address, size_t size, bool* known) {
  SharedState* state = &worker->job->check->shared;
  size_t offset = address - (uintptr_t)worker->block.static_shared;
  if (offset < worker->block.static_capacity) {
    *known = true;
    if (size > worker->block.static_capacity - offset) return nullptr;
    for (size_t i = 0; i < size; i++)
      if (!state->placed[offset + i]) return nullptr;
    return state->placed + offset;
  }
  *known = address - (uintptr_t)worker->dynamic_map < worker->dynamic_map_bytes;
  offset = address - (uintptr_t)worker->block.dynamic_shared;
  return *known && offset < worker->dynamic_bytes && size <= worker->dynamic_bytes - offset
             ? state->dynamic + offset
             : nullptr;
}

// Only what is entirely unwritten is reported: copying a struct reads its padding too.
static bool nothing_written(const unsigned char* bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (bytes[i] & BYTE_WRITTEN) return false;
  return size > 0;
}

// Check an access if it is one to shared memory; returns whether it is.
static bool check_shared(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                         unsigned kind, const void* pc) {
  bool known = false;
  unsigned modes = worker->job->check->modes;
  unsigned char* bytes = shared_bytes(worker, address, size, &known);
  if (!known) return false;
  if (!bytes) {
    fail_shared(worker, thread, address, size, kind, pc, false);
  }
  if (!(modes & CHECK_INIT)) return true;
  if (kind & ACCESS_READ && nothing_written(bytes, size))
    fail_shared(worker, thread, address, size, kind, pc, true);
  if (kind & ACCESS_WRITE) memset(bytes, BYTE_PLACED | BYTE_WRITTEN, size);
  return true;
}

}  // namespace kspec_host
