// Switching stacks: the dozen instructions that make fibers.
//
// kspec_switch() saves the callee-saved registers on the current stack, stores its stack pointer
// and continues on another stack; kspec_resume() is its second half and never returns. Hand-written
// because swapcontext() costs a system call for the signal mask (155 ns against 2).
#pragma once

#include <stdint.h>
#include <string.h>

extern "C" void kspec_switch(void** saved_stack_pointer, void* next_stack_pointer);
extern "C" [[noreturn]] void kspec_resume(void* stack_pointer);
extern "C" void kspec_boot();  // first instructions of a new fiber

#if defined(__x86_64__)

asm(R"(
.text
.globl kspec_switch
.hidden kspec_switch
.type kspec_switch,@function
kspec_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rdi
.globl kspec_resume
.hidden kspec_resume
.type kspec_resume,@function
kspec_resume:
  movq %rdi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.globl kspec_boot
.hidden kspec_boot
.type kspec_boot,@function
kspec_boot:
  movq %r12,%rdi
  xorl %ebp,%ebp
  call *%r13
  ud2
)");

namespace kspec_host {

// Make a fresh stack look as if kspec_switch() had saved it just before `function(argument)`.
static inline void* prime_stack(char* top, void (*function)(void*), void* argument) {
  void** slot = (void**)((uintptr_t)top & ~(uintptr_t)15);
  *--slot = nullptr;
  *--slot = nullptr;  // keeps the stack pointer 16-aligned at the call in kspec_boot
  *--slot = (void*)kspec_boot;
  *--slot = nullptr;  // rbp
  *--slot = nullptr;  // rbx
  *--slot = argument;  // r12
  *--slot = (void*)function;  // r13
  *--slot = nullptr;  // r14
  *--slot = nullptr;  // r15
  return slot;
}

}  // namespace kspec_host

#elif defined(__aarch64__)

asm(R"(
.text
.globl kspec_switch
.hidden kspec_switch
.type kspec_switch,@function
kspec_switch:
  sub sp,sp,#176
  stp x19,x20,[sp,#0]
  stp x21,x22,[sp,#16]
  stp x23,x24,[sp,#32]
  stp x25,x26,[sp,#48]
  stp x27,x28,[sp,#64]
  stp x29,x30,[sp,#80]
  stp d8,d9,[sp,#96]
  stp d10,d11,[sp,#112]
  stp d12,d13,[sp,#128]
  stp d14,d15,[sp,#144]
  mov x9,sp
  str x9,[x0]
  mov x0,x1
.globl kspec_resume
.hidden kspec_resume
.type kspec_resume,@function
kspec_resume:
  mov sp,x0
  ldp x19,x20,[sp,#0]
  ldp x21,x22,[sp,#16]
  ldp x23,x24,[sp,#32]
  ldp x25,x26,[sp,#48]
  ldp x27,x28,[sp,#64]
  ldp x29,x30,[sp,#80]
  ldp d8,d9,[sp,#96]
  ldp d10,d11,[sp,#112]
  ldp d12,d13,[sp,#128]
  ldp d14,d15,[sp,#144]
  add sp,sp,#176
  ret
.globl kspec_boot
.hidden kspec_boot
.type kspec_boot,@function
kspec_boot:
  mov x0,x19
  blr x20
  brk #0
)");

namespace kspec_host {

static inline void* prime_stack(char* top, void (*function)(void*), void* argument) {
  char* frame = (char*)((uintptr_t)top & ~(uintptr_t)15) - 176;
  memset(frame, 0, 176);
  ((void**)frame)[0] = argument;             // x19
  ((void**)frame)[1] = (void*)function;      // x20
  ((void**)frame)[11] = (void*)kspec_boot;   // x30, the return address
  return frame;
}

}  // namespace kspec_host

#else
#error "kspec host device: no context switch for this processor (x86-64 and aarch64 have one)"
#endif
