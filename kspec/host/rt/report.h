// Faults: recording the first one of a launch with the block and thread it happened in.
#pragma once

#include <stdarg.h>
#include <string.h>

#include "state.h"
#include "switch.h"

namespace kspec_host {

static inline bool has_failed(const Job* job) {
  return __atomic_load_n(&job->failed, __ATOMIC_RELAXED) != 0;
}

// Append formatted text to a fixed buffer, silently cutting what does not fit.
struct Text {
  char* begin;
  size_t capacity, size;

  Text(char* buffer, size_t bytes) : begin(buffer), capacity(bytes), size(0) { buffer[0] = 0; }

  __attribute__((format(printf, 2, 3))) void add(const char* format, ...) {
    if (size + 1 >= capacity) return;
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(begin + size, capacity - size, format, arguments);
    va_end(arguments);
    if (wanted > 0) size += (size_t)wanted;
    if (size >= capacity) size = capacity - 1;
  }
};

// Begin to record a fault. Returns null when the launch already has one, else the record with the
// job's mutex held: fill it in, then call end_fault(). Null, too, without waiting for the mutex.
static Fault* begin_fault(Worker* worker, const char* kind, bool waits = true) {
  Job* job = worker->job;
  if (waits) {
    pthread_mutex_lock(&job->mutex);
  } else if (pthread_mutex_trylock(&job->mutex)) {
    return nullptr;
  }
  if (has_failed(job)) {
    pthread_mutex_unlock(&job->mutex);
    return nullptr;
  }
  worker->recording = true;
  Fault* fault = &job->fault;
  memset(fault, 0, sizeof *fault);
  snprintf(fault->kind, sizeof fault->kind, "%s", kind);
  memcpy(fault->block, worker->block.index, sizeof fault->block);
  return fault;
}

static void end_fault(Worker* worker) {
  worker->recording = false;
  __atomic_store_n(&worker->job->failed, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&worker->job->mutex);
}

static void set_fault_thread(Fault* fault, const Worker* worker, unsigned thread) {
  unsigned width = worker->block.block[0], height = worker->block.block[1];
  fault->has_thread = true;
  fault->thread[0] = thread % width;
  fault->thread[1] = thread / width % height;
  fault->thread[2] = thread / (width * height);
}

static void set_fault_site(Fault* fault, Site site) {
  snprintf(fault->file, sizeof fault->file, "%s", site.file);
  fault->line = site.line;
}

// The end of the stack must not come while a service holds a lock, or records a fault: it comes at
// once, and the handler of signals has a stack of its own. `pc` is where the service was asked for.
static inline void require_stack(Worker* worker, const void* pc) {
  volatile char* guard = worker->current->stack;
  if ((uintptr_t)__builtin_frame_address(0) - (uintptr_t)guard >= page_bytes() + SERVICE_STACK_BYTES)
    return;
  worker->overflow_at = (uintptr_t)pc;
  *guard = 0;
}

// Leave the block for good: the stacks of its threads are abandoned where they are.
[[noreturn]] static void abort_block(Worker* worker) {
  worker->aborting = true;
  kspec_resume(worker->main_stack_pointer);
}

// Record a fault of one CUDA thread at a known source position, then leave the block.
[[noreturn]] __attribute__((format(printf, 5, 6))) static void fail_thread(
    Worker* worker, unsigned thread, Site site, const char* kind, const char* format, ...) {
  if (Fault* fault = begin_fault(worker, kind)) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->message, sizeof fault->message, format, arguments);
    va_end(arguments);
    set_fault_thread(fault, worker, thread);
    set_fault_site(fault, site);
    end_fault(worker);
  }
  abort_block(worker);
}

}  // namespace kspec_host
