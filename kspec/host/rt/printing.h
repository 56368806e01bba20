// printf() of kernels: what a launch prints, up to a size.
//
// CUDA documents its buffer as circular: when it is full, new output takes the place of the oldest.
#pragma once

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

namespace kspec_host {

static size_t printed_limit = 1 << 20;  // cudaLimitPrintfFifoSize

// Room for so many bytes more, or for as many as there may be. False when memory is short.
static bool grow_printed(Job* job, size_t size) {
  size_t needed = job->printed_size + size;
  if (needed > printed_limit) needed = printed_limit;
  if (needed <= job->printed_capacity) return true;
  size_t capacity = 2 * needed + 4096;
  if (capacity > printed_limit) capacity = printed_limit;
  char* grown = (char*)realloc(job->printed, capacity);
  if (!grown) return false;
  job->printed = grown;
  job->printed_capacity = capacity;
  return true;
}

// Add text behind all other; `printed_size` counts what was ever added. The job's mutex is held.
static void add_printed(Job* job, const char* text, size_t size) {
  if (size > printed_limit) {
    text += size - printed_limit;
    size = printed_limit;
  }
  if (!size || !grow_printed(job, size)) return;
  size_t at = job->printed_size % printed_limit, first = printed_limit - at;
  if (first > size) first = size;
  memcpy(job->printed + at, text, first);
  memcpy(job->printed, text + first, size - first);
  job->printed_size += size;
}

// The launch is over: put what is left in order, from the first whole line on.
static void straighten_printed(Job* job) {
  size_t size = job->printed_size;
  if (size <= printed_limit) return;
  size_t at = size % printed_limit;
  char* straight = (char*)malloc(printed_limit);
  if (!straight) return;
  memcpy(straight, job->printed + at, printed_limit - at);
  memcpy(straight + printed_limit - at, job->printed, at);
  const char* end = (const char*)memchr(straight, '\n', printed_limit - 1);
  size_t cut = end ? (size_t)(end - straight) + 1 : 0;
  memmove(straight, straight + cut, printed_limit - cut);
  free(job->printed);
  job->printed = straight;
  job->printed_size = printed_limit - cut;
}

}  // namespace kspec_host
