// The runtime of the host device: the functions Python calls through ctypes (host/runtime.py).
//
// Written on libc and pthreads alone, without the C++ standard library, so that `zig cc -nostdlib`
// builds it without building a libc++ first. Compiled once per machine; the parts are included
// because they are one program.
#include <dlfcn.h>

#include "fork.h"
#include "memory.h"
#include "runner.h"
#include "services.h"

#define KSPEC_EXPORT extern "C" __attribute__((visibility("default")))

namespace kspec_host {

// What the last launch left behind. Python holds its own lock until it has read it.
static Fault last_fault;
static char* last_printed;
static size_t last_printed_size;

// Python refuses more than 32,764 bytes of parameters; each is aligned here and has a pointer.
enum : unsigned { MAX_PARAMETER_BYTES = 1 << 20 };

enum : unsigned { CHECK_BOUNDS = 8 };  // beside the modes of check_state.h

enum Outcome { OUTCOME_FAULT = 1, OUTCOME_INTERRUPT = 2, OUTCOME_PRINTED = 4, OUTCOME_RUNS = 8 };

// What is to be done about SIGINT during a launch.
enum Interrupts {
  LEAVE_INTERRUPTS,  // it is not for this thread
  TAKE_INTERRUPTS,   // it stops the kernel
  RUN_APART,         // handlers run meanwhile, of this and of other signals
};

// Copies of the arguments, aligned for every type: callers pack them as tightly as they like.
static void** copy_parameters(void** parameters, const unsigned* sizes, void** pointers,
                              char* storage) {
  size_t offset = 0;
  for (unsigned i = 0; sizes[i]; i++) {
    memcpy(storage + offset, parameters[i], sizes[i]);
    pointers[i] = storage + offset;
    offset += round_up(sizes[i], 16);
  }
  return pointers;
}

// Memory for the parameters of a launch; it is used again for the next.
static void* parameter_room(size_t bytes) {
  alignas(16) static char room[MAX_PARAMETER_BYTES];
  return bytes <= sizeof room ? room : nullptr;
}

// The launch whose launch_mutex is held.
struct Launch {
  Job job;
  Watchdog watchdog;
  bool watched;
  bool apart;   // it runs on the runner's thread
  int outcome;  // of the last that ran there
};

static Launch current_launch;
static unsigned long long last_looped;

static int finish(Launch* launch) {
  if (launch->watched) stop_watchdog(&launch->watchdog);
  restore_handlers();
  Job* job = &launch->job;
  end_check(job);
  int outcome = 0, cancel = job->cancel;
  if (has_failed(job) && !job->fault.kind[0]) {
    bool late = cancel == CANCEL_TIMEOUT;
    memset(&job->fault, 0, sizeof job->fault);  // the rest of it is the last launch's
    snprintf(job->fault.kind, sizeof job->fault.kind, late ? "timeout" : "interrupted");
    snprintf(job->fault.message, sizeof job->fault.message,
             late ? "the kernel did not finish in time" : "interrupted");
  }
  bool damaged = !has_failed(job) && all_buffers && find_damage(&job->fault);
  if (has_failed(job) || damaged) {
    last_fault = job->fault;
    outcome |= cancel == CANCEL_INTERRUPT ? OUTCOME_INTERRUPT : OUTCOME_FAULT;
  }
  straighten_printed(job);
  if (job->printed_size) outcome |= OUTCOME_PRINTED;
  last_looped = job->looped;
  free(last_printed);
  last_printed = job->printed;
  last_printed_size = job->printed_size;
  pthread_mutex_destroy(&job->mutex);
  launch->apart = false;
  launch->outcome = outcome;
  pthread_mutex_unlock(&launch_mutex);
  return outcome;
}

// In a forked process, whose parent goes on with the launch.
static void lose_launch() {
  last_printed = nullptr;  // it may have been freed, and not yet replaced
  last_printed_size = 0;
  if (!current_launch.apart) return;
  // A handler of this very thread has forked; it will ask how the launch ended.
  memset(&last_fault, 0, sizeof last_fault);
  snprintf(last_fault.kind, sizeof last_fault.kind, "forked");
  snprintf(last_fault.message, sizeof last_fault.message,
           "this process was forked while the kernel ran: only its parent has the results");
  current_launch.apart = false;
  current_launch.outcome = OUTCOME_FAULT;
}

}  // namespace kspec_host

using namespace kspec_host;

KSPEC_EXPORT unsigned kspec_host_bind(Bind bind) { return bind(&SERVICES, ABI_VERSION); }

// How to run a grid beyond what cuLaunchKernel says.
struct LaunchOptions {
  unsigned modes;  // a set of CheckMode and CHECK_BOUNDS; the module is instrumented for them
  int order;
  uint64_t seed;
  const Region* regions;  // the array arguments, when something is checked
  unsigned region_count;
  bool cooperative;  // all blocks exist at once; at most MAX_COOPERATIVE_BLOCKS
  BlockRange blocks;  // of this launch, in order; 0 and 0: all of the grid
  const BlockRange* runs;  // what a review looks at
  unsigned run_count;
  unsigned first_run;  // the number of the first of them
  uint64_t run_events;  // blocks of a run are skipped once that and earlier runs kept so many
  bool continues;  // the last review goes on
};

// Run a grid. The parameters are those of cuLaunchKernel plus what a module exports about the
// kernel (entry, sizes, slot_count). `timeout` in seconds, 0 for none. Returns a set of Outcome; with
// OUTCOME_RUNS, this thread has to call kspec_host_wait() or kspec_host_cancel() next.
KSPEC_EXPORT int kspec_host_launch(Entry entry, const unsigned* sizes, unsigned slot_count,
                                   unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z,
                                   unsigned dynamic_bytes, void** parameters, unsigned threads,
                                   int interrupts, double timeout,
                                   const LaunchOptions* options) {
  pthread_mutex_lock(&launch_mutex);
  Job& job = current_launch.job;
  memset(&job, 0, offsetof(Job, mutex));
  job.fault.kind[0] = 0;
  job.printed = nullptr;
  job.printed_size = job.printed_capacity = 0;
  pthread_mutex_init(&job.mutex, nullptr);
  size_t count = 0, bytes = 0;
  for (; sizes[count]; count++) bytes += round_up(sizes[count], 16);
  // Not on the stack: a thread may have 64 KiB of it, and a kernel 32 KiB of parameters.
  void** pointers = (void**)parameter_room(round_up((count + 1) * sizeof(void*), 16) + bytes);
  char* storage = (char*)pointers + round_up((count + 1) * sizeof(void*), 16);
  job.storage = (uintptr_t)storage;
  job.storage_bytes = bytes;
  job.block.grid[0] = grid_x, job.block.grid[1] = grid_y, job.block.grid[2] = grid_z;
  job.block.block[0] = block_x, job.block.block[1] = block_y, job.block.block[2] = block_z;
  job.block.parameters = copy_parameters(parameters, sizes, pointers, storage);
  job.entry = entry;
  job.block_count = (unsigned long long)grid_x * grid_y * grid_z;
  job.dynamic_bytes = dynamic_bytes;
  job.slot_count = slot_count;
  job.order = options->order;
  job.block.cooperative = options->cooperative;
  job.seed = options->seed;
  job.bounds = options->modes & CHECK_BOUNDS;
  job.regions = options->regions;
  job.region_count = options->region_count;
  job.services = (uintptr_t)&SERVICES;
  if (job.bounds) {
    open_regions(options->regions, options->region_count);
  } else if (options->modes) {
    begin_check(&job, options->modes, options->regions, options->region_count);
    job.check->runs = options->runs;
    job.check->run_count = options->run_count;
    job.check->first_run = options->first_run;
    job.check->run_events = options->run_events;
    job.check->continues = options->continues;
    // Instrumented code reads the table to call us.
    add_interval(job.check, (uintptr_t)&SERVICES, sizeof SERVICES, INTERVAL_OURS, nullptr, 0);
  }
  job.first_block = job.next = options->blocks.first;
  job.last_block = options->blocks.last ? options->blocks.last : job.block_count;
  unsigned long long own_blocks = job.last_block - job.first_block;
  if (threads > own_blocks) threads = (unsigned)own_blocks;
  job.chunk = own_blocks / (threads * 8ull);
  if (!job.chunk) job.chunk = 1;
  job.text = module_text(entry);
  if (!launching_worker) launching_worker = make_worker();
  install_handlers(&job, interrupts == TAKE_INTERRUPTS);
  current_launch.watched = timeout > 0;
  if (timeout > 0) start_watchdog(&current_launch.watchdog, &job, timeout);
  current_launch.apart = interrupts == RUN_APART && run_apart(&job, threads);
  if (current_launch.apart) return wait_for_runner(1000000) ? finish(&current_launch) : OUTCOME_RUNS;
  run_blocks(launching_worker, &job, threads);
  return finish(&current_launch);
}

// Wait on for the launch of this thread, until it has ended or a signal has come.
KSPEC_EXPORT int kspec_host_wait() {
  if (!current_launch.apart) return current_launch.outcome;
  return wait_for_runner(50000000) ? finish(&current_launch) : OUTCOME_RUNS;
}

// Stop the launch of this thread, if it still runs.
KSPEC_EXPORT void kspec_host_cancel() {
  if (!current_launch.apart) return;
  cancel_runner(&current_launch.job);
  finish(&current_launch);
}

// Whether modules with bounds checks can run in this process.
KSPEC_EXPORT int kspec_host_has_shadow() {
  pthread_mutex_lock(&launch_mutex);
  bool has = reserve_shadow();
  pthread_mutex_unlock(&launch_mutex);
  return has;
}

// Around loading a module with bounds checks: its initialisers look at the shadow too.
KSPEC_EXPORT void kspec_host_begin_load() {
  pthread_mutex_lock(&launch_mutex);
  install_fault_handlers();
}
KSPEC_EXPORT void kspec_host_end_load() {
  restore_handlers();
  pthread_mutex_unlock(&launch_mutex);
}

// Unload a module that no kernel of a later launch is of, given a function of it.
KSPEC_EXPORT void kspec_host_unload(void* library, void* function) {
  pthread_mutex_lock(&launch_mutex);
  forget_module((uintptr_t)function);
  last_text = {};
  dlclose(library);
  pthread_mutex_unlock(&launch_mutex);
}

// Around a fork of the process.
KSPEC_EXPORT void kspec_host_before_fork() { before_fork(); }
KSPEC_EXPORT void kspec_host_after_fork_in_parent() { unlock_after_fork(); }
KSPEC_EXPORT void kspec_host_after_fork_in_child() {
  if (!idle_at_fork) lose_launch();
  after_fork_in_child();
}

KSPEC_EXPORT const Fault* kspec_host_fault() { return &last_fault; }
// How many blocks of the last launch ran as loops over their threads.
KSPEC_EXPORT unsigned long long kspec_host_looped() { return last_looped; }
// What the last launch did, if its module was compiled for reviews.
KSPEC_EXPORT const ReviewSummary* kspec_host_review() { return finished_review(); }
KSPEC_EXPORT void kspec_host_limit_printed(size_t bytes) { printed_limit = bytes; }
KSPEC_EXPORT const char* kspec_host_printed() { return last_printed; }
KSPEC_EXPORT size_t kspec_host_printed_size() { return last_printed_size; }

KSPEC_EXPORT Buffer* kspec_host_allocate(size_t size, size_t alignment) {
  return allocate_buffer(size, alignment);
}
KSPEC_EXPORT void* kspec_host_address(Buffer* buffer) { return buffer->begin; }
KSPEC_EXPORT void kspec_host_free(Buffer* buffer) { free_buffer(buffer); }
KSPEC_EXPORT int kspec_host_check_canaries() { return find_damage(&last_fault); }
