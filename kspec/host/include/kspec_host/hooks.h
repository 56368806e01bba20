// How functions are written that compilers and linkers put in the place of others: the hooks of
// instrumentation, and what stands for a function of the C library (-Wl,--wrap).
#pragma once

#define KSPEC_HOOK \
  extern "C" KSPEC_HOST_UNCHECKED __attribute__((visibility("hidden"), used, noinline))
#define KSPEC_HOOK_CALLER __builtin_return_address(0)
// Another name of a hook. Every module has all hooks: a name costs nothing, a function a
// millisecond of its compile.
#define KSPEC_HOOK_ALIAS(HOOK, RESULT, NAME, PARAMETERS) \
  extern "C" __attribute__((visibility("hidden"), alias(#HOOK))) RESULT NAME PARAMETERS;

// LLVM's linker replaces only names that the module mentions, so this does.
#define KSPEC_MENTIONED(NAME) \
  asm(".pushsection .data.rel.kspec,\"aw\"\n.balign 8\n.quad " #NAME "\n.popsection");
#define KSPEC_WRAPPED(RESULT, NAME, PARAMETERS) \
  KSPEC_MENTIONED(NAME)                         \
  extern "C" RESULT __real_##NAME PARAMETERS;   \
  KSPEC_HOOK RESULT __wrap_##NAME PARAMETERS
#define KSPEC_WRAPPED_ALIAS(OTHER, RESULT, NAME, PARAMETERS) \
  KSPEC_MENTIONED(NAME)                                      \
  KSPEC_HOOK_ALIAS(__wrap_##OTHER, RESULT, __wrap_##NAME, PARAMETERS)

KSPEC_HOOK void kspec_ignore() {}  // what instrumentation calls and needs no answer
#define KSPEC_IGNORED(NAME, PARAMETERS) KSPEC_HOOK_ALIAS(kspec_ignore, void, NAME, PARAMETERS)
