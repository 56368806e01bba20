// Reviews: the compiler's -fsanitize-coverage=trace-pc puts a call at the beginning of every basic
// block, and -fsanitize=thread one at the beginning and the end of every function. They tell the
// runtime (rt/review.h) the way that each thread takes.
#pragma once

#include "hooks.h"

namespace kspec_host {

static inline KSPEC_HOST_UNCHECKED __attribute__((always_inline)) void report_step(int step,
                                                                                   const void* pc) {
  const Block* block = kspec_context.block;
  if (block) kspec_runtime->arrive(block->worker, thread_rank(), step, pc);
}

// A block of tiles that blocks take by number (kspec/phases.cuh) begins one of them.
static inline KSPEC_HOST_UNCHECKED void review_tile(unsigned long long number,
                                                    unsigned long long count) {
  kspec_runtime->tile(kspec_context.block->worker, number, count);
}

}  // namespace kspec_host

KSPEC_HOOK void __sanitizer_cov_trace_pc() {
  kspec_host::report_step(kspec_host::STEP_BLOCK, KSPEC_HOOK_CALLER);
}
KSPEC_HOOK void __tsan_func_entry(void* caller) {
  kspec_host::report_step(kspec_host::STEP_CALL, caller);
}
KSPEC_HOOK void __tsan_func_exit() {
  kspec_host::report_step(kspec_host::STEP_RETURN, KSPEC_HOOK_CALLER);
}
