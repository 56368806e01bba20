// The default check of every access: is it to memory that the launch may touch?
//
// Kernels compiled for it (include/kspec_host/check_bounds.h) look at the shadow (shadow.h) and
// call service_bounds() for what is not plainly open. Here is the exact answer: the arrays of the
// call, shared memory, stacks, the device's heap, the module's variables, and buffers. Blocks run
// on all workers, so what is found here is only read during a launch, or locked.
#pragma once

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "check_memory.h"
#include "locals.h"
#include "memory.h"
#include "report.h"
#include "shadow.h"

namespace kspec_host {

// ------------------------------------------------------------------------- arrays

struct Span {
  uintptr_t begin, end;
};

struct Spans {
  Span* items;
  unsigned count, capacity;
};

// The memory of the last launch's arrays. It stays open for the next launch, which often has the
// same; whatever that launch lacks is closed before it starts.
static Spans open_spans, wanted_spans;
static unsigned span_generation;

static bool add_span(Spans* spans, Span span) {
  if (spans->count == spans->capacity) {
    unsigned capacity = 2 * spans->capacity + 16;
    void* grown = realloc(spans->items, capacity * sizeof(Span));
    if (!grown) return false;
    spans->items = (Span*)grown;
    spans->capacity = capacity;
  }
  spans->items[spans->count++] = span;
  return true;
}

static int compare_spans(const void* a, const void* b) {
  uintptr_t x = ((const Span*)a)->begin, y = ((const Span*)b)->begin;
  return x < y ? -1 : x > y;
}

// The union of all regions, sorted. What does not fit in memory stays closed, which is only slow.
static void collect_spans(Spans* spans, const Region* regions, unsigned count) {
  spans->count = 0;
  for (unsigned i = 0; i < count; i++)
    if (regions[i].size) add_span(spans, {regions[i].begin, regions[i].begin + regions[i].size});
  if (spans->count > 1) qsort(spans->items, spans->count, sizeof(Span), compare_spans);
  unsigned kept = 0;
  for (unsigned i = 0; i < spans->count; i++) {
    Span* last = kept ? &spans->items[kept - 1] : nullptr;
    if (last && spans->items[i].begin < last->end) {
      if (spans->items[i].end > last->end) last->end = spans->items[i].end;
    } else {
      spans->items[kept++] = spans->items[i];
    }
  }
  spans->count = kept;
}

static bool has_span(const Spans* spans, Span wanted) {
  unsigned low = 0, high = spans->count;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (spans->items[middle].begin < wanted.begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < spans->count && spans->items[low].begin == wanted.begin &&
         spans->items[low].end == wanted.end;
}

// Open the memory of a launch's arrays, and close what only the last launch had.
static void open_regions(const Region* regions, unsigned count) {
  Spans& wanted = wanted_spans;
  renew_shadow();
  if (span_generation != shadow.generation) open_spans.count = 0;
  span_generation = shadow.generation;
  collect_spans(&wanted, regions, count);
  for (unsigned i = 0; i < open_spans.count; i++) {
    Span span = open_spans.items[i];
    if (!has_span(&wanted, span))
      close_memory(span.begin, span.end - span.begin, READ_ONLY_SHADOW);
  }
  for (unsigned i = 0; i < wanted.count; i++) {
    Span span = wanted.items[i];
    if (!has_span(&open_spans, span))
      open_memory(span.begin, span.end - span.begin, READ_ONLY_SHADOW);
  }
  Spans last = open_spans;
  open_spans = wanted;
  wanted = last;
}

// ------------------------------------------------------------------------- modules

enum { MAX_SEGMENTS = 8 };

// Where a module is in memory; found once, kept in its ModuleMemory.
struct ModuleMap {
  Span segments[MAX_SEGMENTS];
  bool writable[MAX_SEGMENTS], code[MAX_SEGMENTS];
  unsigned count;
  uintptr_t context_offset;  // of kspec_context in the thread-local variables
  size_t thread_bytes;
  unsigned generation;  // of the shadow it is open in
  ModuleMap* next;
};

static ModuleMap* module_maps;  // all of them
static pthread_mutex_t module_mutex = PTHREAD_MUTEX_INITIALIZER;

struct ModuleSearch {
  uintptr_t inside, context;
  ModuleMap* map;
};

static int match_module(dl_phdr_info* info, size_t, void* argument) {
  ModuleSearch* search = (ModuleSearch*)argument;
  ModuleMap* map = search->map;
  bool found = false;
  map->count = 0;
  map->thread_bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
    if (header.p_type == PT_TLS && info->dlpi_tls_data) {
      map->thread_bytes = header.p_memsz;
      map->context_offset = search->context - (uintptr_t)info->dlpi_tls_data;
    }
    if (header.p_type != PT_LOAD || map->count == MAX_SEGMENTS) continue;
    found = found || (search->inside >= begin && search->inside < end);
    map->segments[map->count] = {begin, end};
    map->writable[map->count] = header.p_flags & PF_W;
    map->code[map->count++] = header.p_flags & PF_X;
  }
  return found;
}

// The map of a worker's module; null when memory is short.
static ModuleMap* module_map(const Worker* worker) {
  ModuleMemory* memory = worker->block.module;
  if (!memory->map) {
    ModuleMap* map = (ModuleMap*)calloc(1, sizeof(ModuleMap));
    if (!map) return nullptr;
    ModuleSearch search = {(uintptr_t)worker->entry, (uintptr_t)memory->context_of_thread(), map};
    dl_iterate_phdr(match_module, &search);
    map->next = module_maps;
    module_maps = map;
    memory->map = map;
  }
  return (ModuleMap*)memory->map;
}

// The compiler's list of variables, which clang keeps among them.
static Span variable_list(const ModuleMemory* memory) {
  return {(uintptr_t)memory->variables, (uintptr_t)(memory->variables + memory->variable_count)};
}

static bool overlaps(Span span, uintptr_t address, size_t size) {
  return address < span.end && address + size > span.begin;
}

// Close part of an open range, whose middle may be mapped.
static void close_part(Span part, Span whole) {
  if (part.begin >= part.end) return;
  uintptr_t first = shadow_of(part.begin + 7), last = shadow_of(part.end);
  Middle middle = middle_of(whole.begin, whole.end, WRITTEN_SHADOW);
  for (uintptr_t byte = first; byte < last; byte++) {
    if (byte >= middle.begin && byte < middle.end) {
      *(unsigned char*)byte = CLOSED;
    } else {
      write_shadow(byte, byte + 1, CLOSED);
    }
  }
}

// The variables of a module are open, except what the dialect keeps there and the room that the
// compiler left between variables.
static void open_module(const ModuleMemory* memory, ModuleMap* map) {
  if (map->generation == shadow.generation) return;
  for (unsigned i = 0; i < map->count; i++) {
    Span segment = map->segments[i];
    if (map->code[i]) continue;
    open_memory(segment.begin, segment.end - segment.begin, WRITTEN_SHADOW);
    pthread_mutex_lock(&shadow.mutex);
    Span own = {(uintptr_t)memory->own_begin, (uintptr_t)memory->own_end};
    if (own.begin >= segment.begin && own.end <= segment.end) close_part(own, segment);
    Span list = variable_list(memory);
    if (list.begin >= segment.begin && list.end <= segment.end) close_part(list, segment);
    for (unsigned long k = 0; k < memory->variable_count; k++) {
      const Variable& one = memory->variables[k];
      uintptr_t begin = (uintptr_t)one.address;
      if (begin < segment.begin || begin >= segment.end) continue;
      if (one.size % 8) {
        uintptr_t partial = begin + one.size;
        Middle middle = middle_of(segment.begin, segment.end, WRITTEN_SHADOW);
        uintptr_t byte = shadow_of(partial);
        if (byte < middle.begin || byte >= middle.end) own_page(page_of(byte));
        *(unsigned char*)byte = (unsigned char)(one.size % 8);
      }
      close_part({begin + one.size, begin + one.room}, segment);
    }
    pthread_mutex_unlock(&shadow.mutex);
  }
  map->generation = shadow.generation;
}

// The module whose variables are open: that of the last launch.
static ModuleMap* opened_module;

static void close_module(ModuleMap* map) {
  if (map->generation != shadow.generation) return;
  for (unsigned i = 0; i < map->count; i++)
    if (!map->code[i])
      close_memory(map->segments[i].begin, map->segments[i].end - map->segments[i].begin,
                   WRITTEN_SHADOW);
  map->generation = 0;
}

static void close_other_module(const ModuleMap* map) {
  if (opened_module && opened_module != map) close_module(opened_module);
}

// A module with this address in it is about to be unloaded.
static void forget_module(uintptr_t inside) {
  pthread_mutex_lock(&module_mutex);
  for (ModuleMap** link = &module_maps; *link; link = &(*link)->next) {
    ModuleMap* map = *link;
    bool found = false;
    for (unsigned i = 0; i < map->count; i++)
      found = found || (inside >= map->segments[i].begin && inside < map->segments[i].end);
    if (!found) continue;
    close_module(map);
    if (opened_module == map) opened_module = nullptr;
    *link = map->next;
    free(map);
    break;
  }
  pthread_mutex_unlock(&module_mutex);
}

// The thread-local variables of a module on this thread: threadIdx and the like, and __shared__
// variables outside functions.
static Span thread_variables(const Worker* worker, const ModuleMap* map) {
  uintptr_t begin = (uintptr_t)worker->block.module->context_of_thread() - map->context_offset;
  return {begin, begin + map->thread_bytes};
}

static bool in_module(const Worker* worker, uintptr_t address, size_t size, bool writes) {
  const ModuleMemory* memory = worker->block.module;
  const ModuleMap* map = (const ModuleMap*)memory->map;
  if (!map) return false;
  Span own = {(uintptr_t)memory->own_begin, (uintptr_t)memory->own_end};
  if (writes && (overlaps(own, address, size) || overlaps(variable_list(memory), address, size)))
    return false;
  for (unsigned long k = 0; k < memory->variable_count; k++) {
    const Variable& one = memory->variables[k];
    uintptr_t begin = (uintptr_t)one.address, end = begin + one.size, room = begin + one.room;
    if (address + size > end && address < room && address + size > begin) return false;
  }
  for (unsigned i = 0; i < map->count; i++)
    if (address >= map->segments[i].begin && address + size <= map->segments[i].end)
      return map->writable[i] || !writes;
  Span local = thread_variables(worker, map);
  if (address < local.begin || address + size > local.end) return false;
  return !writes || address >= (uintptr_t)memory->context_of_thread() + memory->context_bytes ||
         address + size <= (uintptr_t)memory->context_of_thread();
}

// ------------------------------------------------------------------------- workers

static void open_stack(Fiber* fiber) {
  if (fiber->generation == shadow.generation) return;
  open_memory((uintptr_t)fiber->stack + page_bytes(), STACK_BYTES, WRITTEN_SHADOW);
  fiber->generation = shadow.generation;
  fiber->frames = (uintptr_t)fiber->stack + page_bytes() + STACK_BYTES;
}

static void close_stack(Fiber* fiber) {
  abandon_frames(fiber);
  if (fiber->generation != shadow.generation) return;
  close_memory((uintptr_t)fiber->stack + page_bytes(), STACK_BYTES, WRITTEN_SHADOW);
  fiber->generation = 0;
}

// A new block begins: its __shared__ variables have no place yet.
static void begin_bounded_block(Worker* worker) {
  worker->place_count = 0;
  if (!worker->block.static_used) return;
  uintptr_t begin = (uintptr_t)worker->block.static_shared;
  memset((void*)shadow_of(begin), CLOSED, worker->block.static_used / 8 + 1);
}

// Let the running kernel of this worker at its shared memory and its module's variables.
static bool prepare_bounds(Worker* worker) {
  // What the last block opened; the module forgets how much that was.
  if (worker->shared_generation == shadow.generation) begin_bounded_block(worker);
  worker->entry(BEGIN_BLOCK, &worker->block);  // creates the module's thread-local variables
  pthread_mutex_lock(&module_mutex);
  ModuleMap* map = module_map(worker);
  if (map) {
    close_other_module(map);
    open_module(worker->block.module, map);
    opened_module = map;
  }
  pthread_mutex_unlock(&module_mutex);
  if (!map) return false;
  Span local = thread_variables(worker, map);
  open_memory(local.begin, local.end - local.begin, READ_ONLY_SHADOW);
  uintptr_t context = (uintptr_t)worker->block.module->context_of_thread();
  close_memory(context, worker->block.module->context_bytes, READ_ONLY_SHADOW);
  if (worker->shared_generation != shadow.generation) {
    // The kernel opens its variables in the arena itself, when it places them.
    close_memory((uintptr_t)worker->arena_map, worker->arena_bytes, NEVER_MAPPED);
    open_memory((uintptr_t)worker->block.dynamic_shared, worker->dynamic_bytes, NEVER_MAPPED);
    worker->shared_generation = shadow.generation;
  }
  return true;
}

// The launch is over. The thread may end, and its variables with it.
static void end_bounds(Worker* worker) {
  const ModuleMap* map = (const ModuleMap*)worker->block.module->map;
  if (!map) return;
  Span local = thread_variables(worker, map);
  close_memory(local.begin, local.end - local.begin, READ_ONLY_SHADOW);
}

// Before the memory that a worker shares among its threads moves.
static void close_shared(Worker* worker) {
  if (worker->shared_generation != shadow.generation) return;
  close_memory((uintptr_t)worker->arena_map, worker->arena_bytes, NEVER_MAPPED);
  if (worker->dynamic_bytes)
    close_memory((uintptr_t)worker->block.dynamic_shared, worker->dynamic_bytes, NEVER_MAPPED);
  worker->shared_generation = 0;
}

// ------------------------------------------------------------------------- one access

static bool shadow_allows(uintptr_t address, size_t size) {
  uintptr_t end = address + size;
  while (address < end) {
    unsigned char value = *(const unsigned char*)shadow_of(address);
    uintptr_t next = (address | 7) + 1, last = next < end ? next : end;
    if (value > 8 || (value && ((last - 1) & 7) >= value)) return false;
    address = next;
  }
  return true;
}

static bool in_regions(const Job* job, uintptr_t address, size_t size) {
  for (unsigned i = 0; i < job->region_count; i++) {
    const Region& one = job->regions[i];
    if (address >= one.begin && size <= one.size && address - one.begin <= one.size - size)
      return true;
  }
  return false;
}

static bool in_buffers(uintptr_t address, size_t size) {
  bool found = false;
  pthread_mutex_lock(&buffers_mutex);
  for (const Buffer* one = all_buffers; one && !found; one = one->next)
    found = address >= (uintptr_t)one->begin && size <= one->size &&
            address - (uintptr_t)one->begin <= one->size - size;
  pthread_mutex_unlock(&buffers_mutex);
  return found;
}

// What the compilers write in front of the arrays of a function.
enum : unsigned char { FRAME_MARK = 0xF1 };

// Whether an address is on a stack of a worker: the shadow is exact there.
static const Fiber* stack_at(const Worker* worker, uintptr_t address) {
  for (unsigned i = 0; i < worker->fiber_count; i++) {
    uintptr_t stack = (uintptr_t)worker->fibers[i]->stack;
    if (address - stack < STACK_BYTES + page_bytes()) return worker->fibers[i];
  }
  return nullptr;
}

static bool may_access(const Worker* worker, uintptr_t address, size_t size, bool writes) {
  if (in_regions(worker->job, address, size)) return true;
  if (in_module(worker, address, size, writes)) return true;
  if (open_in_heap(address, size)) return true;
  uintptr_t services = worker->job->services;
  if (!writes && address - services < sizeof(Runtime)) return true;
  if (!writes && address - (uintptr_t)&worker->block < sizeof(Block)) return true;
  if (!writes && address - worker->job->storage < worker->job->storage_bytes) return true;
  return in_buffers(address, size);
}

// ------------------------------------------------------------------------- messages

// What an address is in, or nearest to, so far.
struct Nearest {
  uintptr_t address, distance, begin;
  size_t size;
  char name[160];
};

// A wrong index reaches any address; further off than this, nothing is "past the end" of anything.
enum : uintptr_t { FAR_OFF = (uintptr_t)1 << 42 };

// What is small is not what a far index meant.
enum : uintptr_t { NEAR_BY = (uintptr_t)1 << 16 };

__attribute__((format(printf, 5, 6))) static void consider(Nearest* nearest, uintptr_t begin,
                                                           size_t size, uintptr_t reach,
                                                           const char* format, ...) {
  uintptr_t distance = distance_of(nearest->address, begin, size);
  if (distance >= nearest->distance || distance >= reach) return;
  nearest->distance = distance;
  nearest->begin = begin;
  nearest->size = size;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(nearest->name, sizeof nearest->name, format, arguments);
  va_end(arguments);
}

// The compiler describes the arrays of a frame in front of them: "2 32 4 1 i 48 40 3 sum:7".
static void consider_frame(Nearest* nearest, uintptr_t place) {
  const uintptr_t* frame = (const uintptr_t*)place;
  if (frame[0] != 0x41B58AB3) return;
  const char* text = (const char*)frame[1];
  char* next;
  long count = strtol(text, &next, 10);
  for (long i = 0; i < count; i++) {
    unsigned long offset = strtoul(next, &next, 10), size = strtoul(next, &next, 10);
    unsigned long length = strtoul(next, &next, 10);
    const char* name = ++next;
    next += length;
    for (unsigned long k = 0; k < length; k++)
      if (name[k] == ':' || name[k] == '.') length = k;  // a line; clang's mark of inlining
    consider(nearest, place + offset, size, NEAR_BY, "local variable %.*s", (int)length, name);
  }
}

static void consider_stack(Nearest* nearest, const Fiber* fiber) {
  uintptr_t lowest = (uintptr_t)fiber->stack + page_bytes(), place = nearest->address & ~(uintptr_t)7;
  while (place > lowest && *(const unsigned char*)shadow_of(place) != FRAME_MARK) place -= 8;
  while (place > lowest && *(const unsigned char*)shadow_of(place - 8) == FRAME_MARK) place -= 8;
  if (place > lowest) consider_frame(nearest, place);
}

// The arrays of the functions that the running thread is in.
static void consider_locals(Nearest* nearest, const Fiber* fiber) {
  for (unsigned i = 0; fiber && i <= fiber->slab; i++) {
    const LocalSlab* slab = &fiber->slabs[i];
    if (slab->generation != shadow.generation) continue;
    for (unsigned k = 0; k < slab->frame_count; k++) {
      const LocalFrame* frame = frame_of(slab, k);
      uintptr_t begin = (uintptr_t)frame->begin, end = (uintptr_t)frame->end;
      // It may begin later, at a round address. One that has returned left another mark.
      while (begin < end && *(const unsigned char*)shadow_of(begin) != FRAME_MARK) begin += 8;
      if (begin < end) consider_frame(nearest, begin);
    }
  }
}

static void consider_all(Nearest* nearest, const Worker* worker) {
  const Job* job = worker->job;
  for (unsigned i = 0; i < job->region_count; i++)
    consider(nearest, job->regions[i].begin, job->regions[i].size, FAR_OFF, "%s", job->regions[i].name);
  for (unsigned i = 0; i < worker->place_count; i++)
    consider(nearest, (uintptr_t)worker->block.static_shared + worker->places[i].offset,
             worker->places[i].size, NEAR_BY, "__shared__ %s", worker->places[i].name);
  // Without shared_mem= there are 0 bytes of it, and a kernel that uses it must hear that.
  consider(nearest, (uintptr_t)worker->block.dynamic_shared, worker->dynamic_bytes, NEAR_BY,
           "dynamic shared memory");
  const ModuleMemory* memory = worker->block.module;
  for (unsigned long k = 0; memory && k < memory->variable_count; k++)
    if (memory->variables[k].name[0] != '*')
      consider(nearest, (uintptr_t)memory->variables[k].address, memory->variables[k].size,
               NEAR_BY, "variable %s", memory->variables[k].name);
  HeapBlock block;
  if (nearest_heap_block(nearest->address, NEAR_BY, &block))
    consider(nearest, block.begin, block.size, NEAR_BY, "%s", name_of(block));
  pthread_mutex_lock(&buffers_mutex);
  for (const Buffer* one = all_buffers; one; one = one->next)
    consider(nearest, (uintptr_t)one->begin, one->size, FAR_OFF, "buffer #%u", one->number);
  pthread_mutex_unlock(&buffers_mutex);
}

static Nearest nearest_to(const Worker* worker, uintptr_t address, const Fiber* fiber) {
  Nearest nearest = {address, FAR_OFF, 0, 0, ""};
  consider_locals(&nearest, worker->current);
  if (fiber) {
    consider_stack(&nearest, fiber);
  } else {
    consider_all(&nearest, worker);
  }
  return nearest;
}

static void describe_bounds(Text* text, const Worker* worker, uintptr_t address) {
  if (describe_null(text, address)) return;
  const Fiber* fiber = stack_at(worker, address);
  const Nearest nearest = nearest_to(worker, address, fiber);
  if (nearest.distance == FAR_OFF) {
    const bool impossible = (uintptr_t)((intptr_t)(address << 16) >> 16) != address;
    text->add(fiber        ? "address 0x%zx, on the stack of a thread"
              : impossible ? "address 0x%zx, which no memory can have: the index is far out of bounds"
                           : "address 0x%zx, which is in no array argument",
              (size_t)address);
    return;
  }
  describe_offset(text, address, nearest.begin, nearest.size);
  text->add("%s (%zu bytes)", nearest.name, nearest.size);
}

// Whether an address is in something that has a name.
static bool is_somewhere(const Worker* worker, uintptr_t address) {
  const Nearest nearest = nearest_to(worker, address, stack_at(worker, address));
  return address - nearest.begin < nearest.size;
}

// Memory that a kernel's loops need not check: they may write it all.
static bool service_reaches(Worker* worker, const void* address, unsigned long size) {
  return in_regions(worker->job, (uintptr_t)address, size) || in_buffers((uintptr_t)address, size);
}

[[noreturn]] static void fail_bounds(Worker* worker, unsigned thread, uintptr_t address,
                                     size_t size, unsigned kind, const void* pc) {
  if (Fault* fault = begin_access_fault(worker, thread, pc, "illegal-address")) {
    Text text(fault->message, sizeof fault->message);
    text.add("%s of %zu bytes at ", kind_name(kind), size);
    describe_bounds(&text, worker, address);
    end_fault(worker);
  }
  abort_block(worker);
}

// A kernel has come back with other registers than it was called with.
static void service_overrun(Worker* worker, unsigned thread, const void* kernel) {
  if (Fault* fault = begin_access_fault(worker, thread, (const char*)kernel + 1, "illegal-address")) {
    snprintf(fault->message, sizeof fault->message,
             "the kernel wrote past a local array, over the registers that it saved,");
    end_fault(worker);
  }
  abort_block(worker);
}

// A wrong index into a local array must not reach the frames that called the kernel.
static void service_close_frames(Worker* worker, void* frame) {
  Fiber* fiber = worker->current;
  if (!worker->job->bounds || fiber->generation != shadow.generation) return;
  uintptr_t from = (uintptr_t)frame & ~(uintptr_t)7;
  if (from < fiber->frames) {
    memset((void*)shadow_of(from), CLOSED, shadow_of(fiber->frames) - shadow_of(from));
  } else {
    memset((void*)shadow_of(fiber->frames), OPEN, shadow_of(from) - shadow_of(fiber->frames));
  }
  fiber->frames = from;
}

// Until the next call of that function.
static void open_frames(Worker* worker) {
  service_close_frames(worker, worker->current->stack + page_bytes() + STACK_BYTES);
}

static void service_bounds(Worker* worker, unsigned thread, const void* pointer,
                           unsigned long size, unsigned kind, const void* pc) {
  uintptr_t address = (uintptr_t)pointer;
  if (!worker->running || !worker->job->bounds || !size) return;
  if (has_failed(worker->job)) abort_block(worker);  // cancelled: we may never be in the module
  require_stack(worker, pc);
  require_alignment(worker, thread, address, size, kind, pc);
  if (in_regions(worker->job, address, size)) return;
  // Outside of what the shadow covers is nothing. A size may wrap around to what it covers.
  if (address + size > address && in_shadow(shadow_of(address)) &&
      in_shadow(shadow_of(address + size))) {
    if (shadow_allows(address, size)) return;
    if (!stack_at(worker, address) && may_access(worker, address, size, kind & ACCESS_WRITE))
      return;
  }
  fail_bounds(worker, thread, address, size, kind, pc);
}

}  // namespace kspec_host
