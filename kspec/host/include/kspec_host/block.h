// The running block and thread: threadIdx and friends are real variables, one set for each
// operating-system thread, so they can be watched in a debugger and clash with no user name.
#pragma once

namespace kspec_host {

struct Context {
  Block* block;
  unsigned next_x, next_y, next_z;  // the next CUDA thread of the block to start
  unsigned spins;
  Context* self;   // where it is, and threadIdx: take_threads() compares them (entry.h)
  uint3* thread;
};

}  // namespace kspec_host

static thread_local kspec_host::Context kspec_context;
KSPEC_HOST_OWN static const kspec_host::Runtime* kspec_runtime = nullptr;

#if KSPEC_HOST_CHECK_BOUNDS
// The section of the dialect's own variables, as linkers delimit it.
extern "C" __attribute__((visibility("hidden"))) char __start_kspec_own[], __stop_kspec_own[];
namespace kspec_host {
static KSPEC_HOST_UNCHECKED void* context_of_thread() { return &kspec_context; }
KSPEC_HOST_OWN static ModuleMemory kspec_module = {
    nullptr, 0, __start_kspec_own, __stop_kspec_own, context_of_thread, sizeof kspec_context,
    nullptr};
}  // namespace kspec_host
#endif

static thread_local uint3 threadIdx, blockIdx;
static thread_local dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace kspec_host {

static inline KSPEC_HOST_UNCHECKED unsigned thread_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

static inline unsigned lane_id() { return thread_rank() % WARP_SIZE; }

static inline KSPEC_HOST_UNCHECKED Caller caller() {
  return {kspec_context.block->worker, thread_rank(), kspec_context.next_z < blockDim.z};
}

// Other CUDA threads run during a wait and set threadIdx: it is put back afterwards. Never inlined,
// so that the compiler can not keep the address of a thread-local variable across the switch.
static KSPEC_HOST_UNCHECKED __attribute__((noinline)) int wait_at_barrier(int kind, int predicate,
                                                                          Site site) {
  uint3 mine = threadIdx;
  int result = kspec_runtime->barrier(caller(), kind, predicate, site);
  threadIdx = mine;
  return result;
}

static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void wait_for_warp(WarpCall* call) {
  uint3 mine = threadIdx;
  kspec_runtime->warp(caller(), call);
  threadIdx = mine;
}

static KSPEC_HOST_UNCHECKED __attribute__((noinline)) void yield() {
  uint3 mine = threadIdx;
  kspec_runtime->yield(caller());
  threadIdx = mine;
}

[[noreturn]] static KSPEC_HOST_UNCHECKED __attribute__((noinline, cold)) void fail(
    const char* kind, const char* message, Site site) {
  kspec_runtime->fail(caller(), kind, message, site);
  __builtin_unreachable();
}

// Threads of a block take turns only when one waits: a thread that spins on an atomic must yield.
static inline KSPEC_HOST_UNCHECKED void count_spin() {
  if (__builtin_expect(++kspec_context.spins > 4096u, 0)) {
    kspec_context.spins = 0;
    yield();
  }
}

// Named so that no macro of the user's can catch what our macros expand to.
[[noreturn]] static inline void kspec_fail(const char* kind, const char* message,
                                           const char* file, int line) {
  fail(kind, message, {file, line});
}

static KSPEC_HOST_UNCHECKED __attribute__((noinline, unused))
int kspec_print(const char* format, ...) {
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  kspec_runtime->print(kspec_context.block->worker, format, arguments, __builtin_return_address(0));
  __builtin_va_end(arguments);
  return 0;
}

}  // namespace kspec_host

#define printf(...) ::kspec_host::kspec_print(__VA_ARGS__)
#undef assert
#define assert(...)                                                   \
  (static_cast<bool>(__VA_ARGS__)                                     \
       ? (void)0                                                      \
       : ::kspec_host::kspec_fail("assert", "assertion failed: " #__VA_ARGS__, \
                                  __FILE__, __LINE__))
#define __trap() \
  ::kspec_host::kspec_fail("trap", "the kernel called __trap()", __FILE__, __LINE__)
#define __brkpt() __builtin_trap()

static inline long long clock64() { return (long long)kspec_runtime->clock(); }
static inline unsigned long long globaltimer() { return kspec_runtime->clock(); }
#if !KSPEC_HOST_STD
typedef long clock_t;
static inline clock_t clock() { return (clock_t)kspec_runtime->clock(); }
#endif
