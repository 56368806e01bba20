// How functions are written that compilers and linkers put in the place of others: the hooks of
// instrumentation, and what stands for a function of the C library (-Wl,--wrap).
#pragma once

#define KSPEC_HOOK \
  extern "C" KSPEC_HOST_UNCHECKED __attribute__((visibility("hidden"), used, noinline))
#define KSPEC_HOOK_CALLER __builtin_return_address(0)

// LLVM's linker replaces only names that the module mentions, so this does.
#define KSPEC_WRAPPED(RESULT, NAME, PARAMETERS)                                          \
  asm(".pushsection .data.rel.kspec,\"aw\"\n.balign 8\n.quad " #NAME "\n.popsection"); \
  extern "C" RESULT __real_##NAME PARAMETERS;                                            \
  KSPEC_HOOK RESULT __wrap_##NAME PARAMETERS
