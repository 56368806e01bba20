// The order in which threads of a block and blocks of a grid run (`order=`). CUDA promises none: a
// kernel whose result depends on it lacks a barrier.
#pragma once

#include <stdlib.h>

#include "state.h"

namespace kspec_host {

enum Order { ORDER_FORWARD, ORDER_REVERSE, ORDER_RANDOM };

// A small generator (SplitMix64): equal seeds give equal orders on every machine.
static inline uint64_t next_random(uint64_t* state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15ull;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

template <class T> static inline void shuffle(T* values, unsigned count, uint64_t* state) {
  for (unsigned i = count; i > 1; i--) {
    unsigned j = (unsigned)(next_random(state) % i);
    T value = values[i - 1];
    values[i - 1] = values[j];
    values[j] = value;
  }
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

// a * b % modulus without overflow; 128-bit division would need a library.
static uint64_t multiply_modulo(uint64_t a, uint64_t b, uint64_t modulus) {
  uint64_t result = 0;
  for (a %= modulus; b; b >>= 1) {
    if (b & 1) result = (result + a) % modulus;
    a = (a + a) % modulus;
  }
  return result;
}

// The block that runs as the `turn`th: for random orders n * step + start modulo the count, which
// visits every block once and needs no table.
static unsigned long long block_of_turn(const Job* job, unsigned long long turn) {
  uint64_t count = job->block_count;
  if (job->order == ORDER_FORWARD || count == 1) return turn;
  if (job->order == ORDER_REVERSE) return count - 1 - turn;
  uint64_t state = job->seed, start = next_random(&state) % count;
  uint64_t step = next_random(&state) % count;
  while (common_divisor(step, count) != 1) step++;
  return (multiply_modulo(turn, step, count) + start) % count;
}

static bool prepare_order(Worker* worker, const Job* job) {
  worker->block.order = nullptr;
  if (job->order == ORDER_FORWARD) return true;
  worker->random = job->seed;
  if (!worker->order) worker->order = (unsigned*)malloc(MAX_BLOCK_THREADS * sizeof(unsigned));
  worker->block.order = worker->order;
  return worker->order != nullptr;
}

// Choose the order of the threads of the next block.
static void order_threads(Worker* worker) {
  if (!worker->block.order) return;
  unsigned count = worker->thread_count;
  bool reverse = worker->job->order == ORDER_REVERSE;
  for (unsigned i = 0; i < count; i++) worker->order[i] = reverse ? count - 1 - i : i;
  if (!reverse) shuffle(worker->order, count, &worker->random);
}

// Threads that a barrier releases need not go on in the order they came.
static void order_released(Worker* worker, Fiber** fibers, unsigned count) {
  if (worker->job->order == ORDER_RANDOM) shuffle(fibers, count, &worker->random);
}

}  // namespace kspec_host
