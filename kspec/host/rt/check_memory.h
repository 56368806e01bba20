// sanitize="memory": what a kernel may touch, and saying what it touched instead.
#pragma once

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "check_state.h"
#include "heap.h"
#include "memory.h"
#include "report.h"

namespace kspec_host {

static void add_interval(Check* check, uintptr_t begin, size_t size, IntervalKind kind,
                         const char* name, unsigned number, bool read_only = false) {
  if (check->interval_count == check->interval_capacity) {
    unsigned capacity = 2 * check->interval_capacity + 32;
    void* grown = realloc(check->intervals, capacity * sizeof(Interval));
    if (!grown) return;
    check->intervals = (Interval*)grown;
    check->interval_capacity = capacity;
  }
  check->intervals[check->interval_count++] = {begin, begin + size, 0, kind, name, number,
                                                read_only};
}

// The data of the module: __device__ and __constant__ variables, tables, string literals, and its
// thread-local variables: threadIdx is one.
static int add_module_segments(dl_phdr_info* info, size_t, void* argument) {
  void** arguments = (void**)argument;
  Check* check = (Check*)arguments[0];
  uintptr_t inside = (uintptr_t)arguments[1];
  bool ours = false;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (info->dlpi_phdr[i].p_type == PT_LOAD)
      ours = ours || (inside >= begin && inside < begin + info->dlpi_phdr[i].p_memsz);
  }
  for (int i = 0; ours && i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD)
      add_interval(check, begin, header.p_memsz, INTERVAL_MODULE, nullptr, 0);
    if (header.p_type == PT_TLS) check->quiet_size = header.p_memsz;
    if (header.p_type == PT_TLS) check->quiet_begin = (uintptr_t)info->dlpi_tls_data;
  }
  return ours;
}

static int compare_intervals(const void* a, const void* b) {
  uintptr_t x = ((const Interval*)a)->begin, y = ((const Interval*)b)->begin;
  return x < y ? -1 : x > y;
}

static void collect_intervals(Check* check, const Region* regions, unsigned region_count) {
  check->interval_count = 0;
  check->last = nullptr;
  for (unsigned i = 0; i < region_count; i++)
    add_interval(check, regions[i].begin, regions[i].size, INTERVAL_ARRAY, regions[i].name, 0,
                 regions[i].read_only);
  pthread_mutex_lock(&buffers_mutex);
  for (const Buffer* buffer = all_buffers; buffer; buffer = buffer->next)
    add_interval(check, (uintptr_t)buffer->begin, buffer->size, INTERVAL_BUFFER, nullptr,
                 buffer->number);
  pthread_mutex_unlock(&buffers_mutex);
}

// Called once the module's thread-local variables exist on this thread.
static void collect_module(Check* check, const void* in_module) {
  const void* arguments[2] = {check, in_module};
  check->quiet_begin = check->quiet_size = 0;
  dl_iterate_phdr(add_module_segments, (void*)arguments);
}

static void sort_intervals(Check* check) {
  qsort(check->intervals, check->interval_count, sizeof(Interval), compare_intervals);
  uintptr_t reach = 0;
  for (unsigned i = 0; i < check->interval_count; i++) {
    if (check->intervals[i].end > reach) reach = check->intervals[i].end;
    check->intervals[i].reach = reach;
  }
}

// The interval that holds all of [address, address + size), or null: a sum may wrap around.
static const Interval* find_interval(Check* check, uintptr_t address, size_t size, bool writes) {
  if (address + size < address) return nullptr;
  const Interval* last = check->last;
  if (last && address >= last->begin && address + size <= last->end && !(writes && last->read_only))
    return last;
  unsigned low = 0, high = check->interval_count;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (check->intervals[middle].begin <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  while (low-- > 0 && check->intervals[low].reach >= address + size)
    if (address + size <= check->intervals[low].end &&
        !(writes && check->intervals[low].read_only))
      return check->last = &check->intervals[low];
  return nullptr;
}

static void describe_offset(Text* text, uintptr_t address, uintptr_t begin, size_t size) {
  if (address < begin) {
    text->add("%zu bytes before ", (size_t)(begin - address));
  } else if (address >= begin + size) {
    text->add("%zu bytes past the end of ", (size_t)(address - begin - size));
  } else {
    text->add("offset %zu of ", (size_t)(address - begin));
  }
}

static bool may_describe(const Interval& interval) {
  return interval.kind == INTERVAL_ARRAY || interval.kind == INTERVAL_BUFFER;
}

// Say where an address lies relative to the nearest array.
static void describe_array(Text* text, const Check* check, uintptr_t address) {
  const Interval* nearest = nullptr;
  uintptr_t best = (uintptr_t)1 << 20;
  for (unsigned i = 0; i < check->interval_count; i++) {
    const Interval& one = check->intervals[i];
    if (!may_describe(one)) continue;
    uintptr_t distance = distance_of(address, one.begin, one.end - one.begin);
    bool named = nearest && distance == best && one.kind == INTERVAL_ARRAY;
    if (distance < best || named) {
      best = distance;
      nearest = &one;
    }
  }
  HeapBlock block;
  if (nearest_heap_block(address, best, &block)) {
    describe_offset(text, address, block.begin, block.size);
    text->add("%s (%zu bytes)", name_of(block), block.size);
    return;
  }
  if (!nearest) {
    if (!describe_null(text, address))
      text->add("address 0x%zx, which is in no array argument", (size_t)address);
    return;
  }
  size_t size = nearest->end - nearest->begin;
  describe_offset(text, address, nearest->begin, size);
  if (nearest->kind == INTERVAL_ARRAY) {
    text->add("%s (%zu bytes)", nearest->name, size);
  } else {
    text->add("buffer #%u (%zu bytes)", nearest->number, size);
  }
}

static const char* kind_name(unsigned kind) {
  if (kind & ACCESS_ATOMIC) return "atomic";
  return kind & ACCESS_WRITE ? "write" : "read";
}

// Record a fault at an access, for the caller to complete. `pc` is the return address of a hook.
static Fault* begin_access_fault(Worker* worker, unsigned thread, const void* pc,
                                 const char* kind) {
  Fault* fault = begin_fault(worker, kind);
  if (!fault) return nullptr;
  const ModuleText& text = worker->job->text;
  fault->in_module = text.holds((uintptr_t)pc);
  fault->pc = fault->in_module ? (uintptr_t)pc - 1 - text.load_address : (uintptr_t)pc;
  set_fault_thread(fault, worker, thread);
  return fault;
}

// A GPU traps where an atomic operation is at an address that is not a multiple of its size.
static void require_alignment(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                              unsigned kind, const void* pc) {
  if (!(kind & ACCESS_ATOMIC) || !size || address % size == 0) return;
  if (Fault* fault = begin_access_fault(worker, thread, pc, "misaligned-address")) {
    snprintf(fault->message, sizeof fault->message,
             "atomic of %zu bytes at address 0x%zx, which is not a multiple of %zu", size,
             (size_t)address, size);
    end_fault(worker);
  }
  abort_block(worker);
}

[[noreturn]] static void fail_array(Worker* worker, unsigned thread, uintptr_t address, size_t size,
                                    unsigned kind, const void* pc, bool unwritten = false) {
  const char* name = unwritten ? "uninitialized-read" : "illegal-address";
  if (Fault* fault = begin_access_fault(worker, thread, pc, name)) {
    Text text(fault->message, sizeof fault->message);
    text.add(unwritten ? "%s of %zu unwritten bytes at " : "%s of %zu bytes at ", kind_name(kind),
             size);
    describe_array(&text, worker->job->check, address);
    if (unwritten) {
      text.add(", which the call allocated; pass out=, or set it first");
    } else if (find_interval(worker->job->check, address, size, false)) {
      text.add(", which is read-only");
    }
    end_fault(worker);
  }
  abort_block(worker);
}

}  // namespace kspec_host
