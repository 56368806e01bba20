// Hardware faults, Ctrl-C and timeouts: a signal inside a kernel becomes a recorded fault.
//
// The handlers change the interrupted program counter so that returning from the signal lands in
// kspec_resume() on the worker's own stack. They are installed only during a launch; signals that
// are not a kernel's go to whoever had them before.
#pragma once

#include <link.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "bounds.h"
#include "memory.h"
#include "operand.h"
#include "report.h"
#include "state.h"

namespace kspec_host {

enum { SIGNAL_STACK_BYTES = 64 * 1024 };

static uintptr_t program_counter(const ucontext_t* context) {
#if defined(__x86_64__)
  return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
  return (uintptr_t)context->uc_mcontext.pc;
#endif
}

static void return_into_main(ucontext_t* context, Worker* worker) {
  worker->aborting = true;
#if defined(__x86_64__)
  context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)kspec_resume;
  context->uc_mcontext.gregs[REG_RDI] = (greg_t)(uintptr_t)worker->main_stack_pointer;
#else
  context->uc_mcontext.pc = (uintptr_t)kspec_resume;
  context->uc_mcontext.regs[0] = (uintptr_t)worker->main_stack_pointer;
#endif
}

static bool writes_memory(const ucontext_t* context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
  (void)context;  // the processor does not say
  return false;
#endif
}

// "write", "read", or "access" where the processor does not say.
static const char* access_name(const ucontext_t* context) {
#if defined(__x86_64__)
  return context->uc_mcontext.gregs[REG_ERR] & 2 ? "write" : "read";
#else
  (void)context;
  return "access";
#endif
}

// The places in the module from which an interrupted function was called: what looks like return
// addresses on the stack. Returns how many there are, of the innermost.
static unsigned calling_places(const ucontext_t* context, const Worker* worker,
                               unsigned long long* places, unsigned most) {
  unsigned count = 0;
  const ModuleText& text = worker->job->text;
  if (worker->overflow_at) places[count++] = worker->overflow_at - 1 - text.load_address;
#if defined(__x86_64__)
  const Fiber* fiber = worker->current;
  uintptr_t stack = (uintptr_t)context->uc_mcontext.gregs[REG_RSP] & ~(uintptr_t)7;
  if (!fiber) return count;
  uintptr_t begin = (uintptr_t)fiber->stack + page_bytes(), end = begin + STACK_BYTES;
  if (stack < begin) stack = begin;  // it has overflown
  for (unsigned i = 0; i < 512 && count < most && stack >= begin && stack < end; i++, stack += 8)
    if (text.holds(*(const uintptr_t*)stack))
      places[count++] = *(const uintptr_t*)stack - 1 - text.load_address;
#else
  (void)context, (void)most;
#endif
  return count;
}

static void set_fault_position(Fault* fault, Worker* worker, const ucontext_t* context) {
  const Job* job = worker->job;
  uintptr_t pc = program_counter(context);
  fault->in_module = job->text.holds(pc);
  fault->pc = fault->in_module ? pc - job->text.load_address : pc;
  fault->caller_count = calling_places(context, worker, fault->callers,
                                       sizeof fault->callers / sizeof *fault->callers);
  worker->entry(WHICH_THREAD, &worker->block);  // threadIdx is a variable of the module
  set_fault_thread(fault, worker, worker->block.thread);
}

// clang computes 1 / x without dividing, so it is told to check divisors. What it executes then is
// `ud1 3(%eax), %eax`: 3 is the number of its handler for divisions.
static bool is_division_trap(const ucontext_t* context) {
#if defined(__x86_64__)
  return !memcmp((const void*)program_counter(context), "\x67\x0f\xb9\x40\x03", 5);
#else
  (void)context;
  return false;
#endif
}

// Whether the next instruction is where no code is: a wild pointer to a function was called.
static bool calls_wildly(const siginfo_t* info, const ucontext_t* context) {
  if (info->si_code == SI_KERNEL) return goes_to_impossible_address(context);
  return (uintptr_t)info->si_addr == program_counter(context);
}

static const char* fault_kind(int number, const siginfo_t* info, bool in_guard,
                              const ucontext_t* context) {
  if (number == SIGFPE) return "integer-division";
  if (number == SIGILL && is_division_trap(context)) return "integer-division";
  if (number == SIGILL) return "trap";
  if (in_guard) return "stack-overflow";
  if (calls_wildly(info, context)) return "illegal-address";
  if (asks_impossible_address(info, context)) return "illegal-address";
  // A general protection fault: no page is involved.
  if (info->si_code == SI_KERNEL) return "misaligned-address";
  return number == SIGBUS && info->si_code == BUS_ADRALN ? "misaligned-address" : "illegal-address";
}

// Shared memory ends at guard pages too. False when the address is elsewhere.
static bool describe_shared(Text* text, const Worker* worker, uintptr_t address) {
  uintptr_t begin = (uintptr_t)worker->dynamic_map, end = begin + worker->dynamic_map_bytes;
  if (address >= begin && address < end) {
    uintptr_t last = (uintptr_t)worker->block.dynamic_shared + worker->dynamic_bytes;
    text->add("%zu bytes past the end of the %zu bytes of dynamic shared memory",
              (size_t)(address - last), worker->dynamic_bytes);
    return true;
  }
  begin = (uintptr_t)worker->arena_map + worker->arena_bytes;
  if (address < begin || address >= begin + page_bytes()) return false;
  text->add("an address past the end of static shared memory");
  return true;
}

static void describe_signal(Text* text, const char* kind, const siginfo_t* info,
                            const Worker* worker, const ucontext_t* context) {
  if (!strcmp(kind, "integer-division")) {
    text->add("integer division by zero (or overflow)");
  } else if (!strcmp(kind, "trap")) {
    text->add("illegal instruction: the kernel ran into code the compiler marked unreachable");
  } else if (!strcmp(kind, "stack-overflow")) {
    text->add("a thread used more than %u KiB of stack", (unsigned)STACK_BYTES / 1024);
  } else if (!strcmp(kind, "misaligned-address")) {
    text->add("vector access to a misaligned address");
  } else if (calls_wildly(info, context)) {
    text->add("call of a function at ");
    uintptr_t address = (uintptr_t)info->si_addr;
    if (info->si_code == SI_KERNEL) {
      text->add("an address that no memory can have");
    } else if (!describe_null(text, address)) {
      text->add("address 0x%zx, where there is none", (size_t)address);
    }
  } else if (asks_impossible_address(info, context)) {
    text->add("access to an address that no memory can have: the index is far out of bounds");
  } else {
    text->add("%s at ", access_name(context));
    uintptr_t address = (uintptr_t)info->si_addr;
    if (worker->job->bounds) {
      describe_bounds(text, worker, address);
    } else if (!describe_shared(text, worker, address)) {
      describe_address(text, address);
    }
  }
}

// ------------------------------------------------------------------------- hardware faults

enum { FAULT_SIGNALS = 4 };
static const int fault_signals[FAULT_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction previous_actions[FAULT_SIGNALS];

static void on_fault(int number, siginfo_t* info, void* raw) {
  uintptr_t address = (uintptr_t)info->si_addr;
  // Memory that no launch has opened: the access asks now, and the answer names it.
  bool asks = number == SIGSEGV && info->si_code > 0 && in_shadow(address);
  if (asks && !writes_memory((const ucontext_t*)raw) && close_stray_page(address)) return;
  Worker* worker = this_worker;
  if (!worker || !worker->running) {
    // Not a kernel's: give the signal back to its owner and let the instruction fault again.
    for (int i = 0; i < FAULT_SIGNALS; i++)
      if (fault_signals[i] == number) sigaction(number, &previous_actions[i], nullptr);
    return;
  }
  ucontext_t* context = (ucontext_t*)raw;
  if (worker->recording) {  // the description met what the kernel has damaged
    end_fault(worker);
    return_into_main(context, worker);
    return;
  }
  const Fiber* fiber = worker->current;
  uintptr_t guard = fiber ? (uintptr_t)fiber->stack : 0;
  bool in_guard = address >= guard && address < guard + page_bytes();
  const char* kind = fault_kind(number, info, in_guard, context);
  if (Fault* fault = begin_fault(worker, kind)) {
    Text text(fault->message, sizeof fault->message);
    describe_signal(&text, kind, info, worker, context);
    set_fault_position(fault, worker, context);
    end_fault(worker);
  }
  return_into_main(context, worker);
}

// ------------------------------------------------------------------------- stopping

static Job* cancellable_job;  // atomic
static Worker* registered_workers[1024];
static unsigned registered_count;

// Ask every worker of the launch to stop.
static void signal_workers() {
  for (unsigned i = 0; i < __atomic_load_n(&registered_count, __ATOMIC_ACQUIRE); i++) {
    Worker* worker = registered_workers[i];
    if (__atomic_load_n(&worker->running, __ATOMIC_RELAXED) &&
        !pthread_equal(worker->thread_id, pthread_self()))
      pthread_kill(worker->thread_id, SIGURG);
  }
}

// Stops a kernel even while it spins. The program counter is changed only inside the module's own
// text, where this thread can not hold a lock of the runtime or of libc; elsewhere the flag is
// enough, because the scheduler and the block loop look at it. Then the lock of the record is only
// tried, because the interrupted thread might hold it.
static void on_cancel(int number, siginfo_t*, void* raw) {
  Job* job = __atomic_load_n(&cancellable_job, __ATOMIC_ACQUIRE);
  if (!job) return;
  if (number == SIGINT) {
    int none = CANCEL_NONE;
    __atomic_compare_exchange_n(&job->cancel, &none, (int)CANCEL_INTERRUPT, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    signal_workers();
  }
  int cancel = __atomic_load_n(&job->cancel, __ATOMIC_RELAXED);
  Worker* worker = this_worker;
  if (!cancel) return;
  ucontext_t* context = (ucontext_t*)raw;
  bool ours = worker && worker->running && worker->job == job && worker->current;
  bool in_text = ours && job->text.holds(program_counter(context));
  const char* kind = cancel == CANCEL_TIMEOUT ? "timeout" : "interrupted";
  if (Fault* fault = ours ? begin_fault(worker, kind, in_text) : nullptr) {
    snprintf(fault->message, sizeof fault->message,
             cancel == CANCEL_TIMEOUT ? "the kernel did not finish in time; it was running"
                                      : "interrupted while running");
    set_fault_position(fault, worker, context);
    end_fault(worker);
  }
  __atomic_store_n(&job->failed, 1, __ATOMIC_RELEASE);
  if (in_text) return_into_main(context, worker);
}

// ------------------------------------------------------------------------- installing

static struct sigaction previous_interrupt, previous_urgent;
static bool faults_handled, cancels_handled, interrupts_handled;
static pthread_mutex_t handlers_mutex = PTHREAD_MUTEX_INITIALIZER;

static void install(int number, void (*handler)(int, siginfo_t*, void*), int flags,
                    struct sigaction* previous) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, previous);
}

static void install_faults() {
  for (int i = 0; i < FAULT_SIGNALS; i++)
    install(fault_signals[i], on_fault, 0, &previous_actions[i]);
  faults_handled = true;
}

// Whatever is installed is ours no longer. The mutex is held.
static void restore_all() {
  __atomic_store_n(&cancellable_job, (Job*)nullptr, __ATOMIC_RELEASE);
  for (int i = 0; i < FAULT_SIGNALS && faults_handled; i++)
    sigaction(fault_signals[i], &previous_actions[i], nullptr);
  if (cancels_handled) sigaction(SIGURG, &previous_urgent, nullptr);
  if (interrupts_handled) sigaction(SIGINT, &previous_interrupt, nullptr);
  faults_handled = cancels_handled = interrupts_handled = false;
}

static void install_fault_handlers() {
  pthread_mutex_lock(&handlers_mutex);
  install_faults();
  pthread_mutex_unlock(&handlers_mutex);
}

static void install_handlers(Job* job, bool take_interrupt) {
  pthread_mutex_lock(&handlers_mutex);
  __atomic_store_n(&cancellable_job, job, __ATOMIC_RELEASE);
  install_faults();
  install(SIGURG, on_cancel, SA_RESTART, &previous_urgent);
  cancels_handled = true;
  if (take_interrupt) install(SIGINT, on_cancel, SA_RESTART, &previous_interrupt);
  interrupts_handled = take_interrupt;
  pthread_mutex_unlock(&handlers_mutex);
}

static void restore_handlers() {
  pthread_mutex_lock(&handlers_mutex);
  restore_all();
  pthread_mutex_unlock(&handlers_mutex);
}

// Find the executable segment that holds an address, to tell a module's code from all other.
static int match_segment(dl_phdr_info* info, size_t, void* argument) {
  ModuleText* text = (ModuleText*)argument;
  uintptr_t wanted = text->begin;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + header.p_vaddr, end = begin + header.p_memsz;
    if (header.p_type != PT_LOAD || !(header.p_flags & PF_X) || wanted < begin || wanted >= end)
      continue;
    *text = {begin, end, info->dlpi_addr};
    return 1;
  }
  return 0;
}

static ModuleText last_text;  // of a module that is loaded

static ModuleText module_text(Entry entry) {
  if (!last_text.holds((uintptr_t)entry)) {
    last_text = {(uintptr_t)entry, 0, 0};
    pthread_mutex_lock(&module_mutex);
    dl_iterate_phdr(match_segment, &last_text);
    pthread_mutex_unlock(&module_mutex);
  }
  return last_text;
}

}  // namespace kspec_host
