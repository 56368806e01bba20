// Reviews: the compiler's -fsanitize-coverage=trace-pc puts a call at the beginning of every basic
// block, which tells the runtime (rt/review.h) the way that each thread takes.
#pragma once

#include "hooks.h"

KSPEC_HOOK void __sanitizer_cov_trace_pc() {
  const kspec_host::Block* block = kspec_context.block;
  if (block) kspec_runtime->arrive(block->worker, kspec_host::thread_rank(), KSPEC_HOOK_CALLER);
}
