// What address an instruction of x86-64 asks for: a general protection fault does not say.
//
// Its causes in a kernel are two: no memory can have the address ("not canonical"), or a vector
// instruction wants a rounder one. Only the operand tells them apart.
#pragma once

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

namespace kspec_host {

#if defined(__x86_64__)

// The parts of an instruction that its address depends on.
struct Instruction {
  const unsigned char* opcode;   // the last byte of it; the ModRM byte follows
  unsigned index_bit, base_bit;  // 8 for the registers r8 to r15
  bool plain;                    // an opcode of one byte
  bool vector;                   // encoded as AVX or AVX-512
};

// Intel's manual, volume 2, chapter 2: prefixes, then REX, VEX or EVEX, then the opcode.
static Instruction read_instruction(const unsigned char* code) {
  for (unsigned char byte = *code;
       byte == 0x66 || byte == 0x67 || byte == 0xF0 || byte == 0xF2 || byte == 0xF3 ||
       byte == 0x2E || byte == 0x36 || byte == 0x3E || byte == 0x26 || (byte & 0xFE) == 0x64;)
    byte = *++code;
  // VEX and EVEX store the bits of registers inverted.
  unsigned inverted_index = code[1] & 0x40 ? 0 : 8, inverted_base = code[1] & 0x20 ? 0 : 8;
  if (*code == 0xC5) return {code + 2, 0, 0, false, true};
  if (*code == 0xC4) return {code + 3, inverted_index, inverted_base, false, true};
  if (*code == 0x62) return {code + 4, inverted_index, inverted_base, false, true};
  unsigned index = 0, base = 0;
  if ((*code & 0xF0) == 0x40) {
    index = *code & 2 ? 8 : 0;
    base = *code & 1 ? 8 : 0;
    code++;
  }
  if (*code != 0x0F) return {code, index, base, true, false};
  code++;
  if (*code == 0x38 || *code == 0x3A) code++;
  return {code, index, base, false, false};
}

static uintptr_t register_value(const ucontext_t* context, unsigned number) {
  static const int places[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                 REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                 REG_R12, REG_R13, REG_R14, REG_R15};
  return (uintptr_t)context->uc_mcontext.gregs[places[number]];
}

static bool is_canonical(uintptr_t address) {
  return (uintptr_t)((intptr_t)(address << 16) >> 16) == address;
}

// movs, cmps, stos, lods, scas: no ModRM byte, and every address will do.
static bool is_string_instruction(const Instruction& one) {
  return one.plain && ((*one.opcode >= 0xA4 && *one.opcode <= 0xA7) ||
                       (*one.opcode >= 0xAA && *one.opcode <= 0xAF));
}

// Gathers and scatters take one address for each lane, and every one will do.
static bool is_gather(const Instruction& one) {
  return one.vector && ((*one.opcode >= 0x90 && *one.opcode <= 0x93) ||
                        (*one.opcode >= 0xA0 && *one.opcode <= 0xA3));
}

// The address of the operand in memory. Scaled displacements of AVX-512 are taken as they stand:
// they are short, and whether memory can have the address does not depend on them.
static uintptr_t operand_address(const Instruction& one, const ucontext_t* context) {
  const unsigned char* modrm = one.opcode + 1;
  unsigned mode = *modrm >> 6, low = *modrm & 7;
  const unsigned char* next = modrm + 1;
  uintptr_t address = 0;
  bool based = true;
  if (low == 4) {
    unsigned sib = *next++, index = (sib >> 3 & 7) + one.index_bit;
    low = sib & 7;
    if (index != 4) address = register_value(context, index) << (sib >> 6);
    based = mode != 0 || low != 5;
  } else if (mode == 0 && low == 5) {
    return (uintptr_t)next;  // near the instruction itself
  }
  if (based) address += register_value(context, low + one.base_bit);
  if (mode == 1) return address + (uintptr_t)(intptr_t)(signed char)*next;
  int32_t displacement = 0;
  if (mode == 2 || !based) memcpy(&displacement, next, sizeof displacement);
  return address + (uintptr_t)(intptr_t)displacement;
}

// Whether the interrupted instruction asks for an address that no memory can have. The processor
// names the address of every other one.
static bool asks_impossible_address(const siginfo_t* info, const ucontext_t* context) {
  if (info->si_code != SI_KERNEL && info->si_signo != SIGBUS) return false;
  const Instruction one =
      read_instruction((const unsigned char*)context->uc_mcontext.gregs[REG_RIP]);
  if (is_string_instruction(one) || is_gather(one)) return true;
  if (one.opcode[1] >> 6 == 3) return false;  // its operands are registers
  return !is_canonical(operand_address(one, context));
}

// Whether the interrupted instruction goes on where no memory can be: it calls, jumps or returns.
static bool goes_to_impossible_address(const ucontext_t* context) {
  uintptr_t place = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
  if (!is_canonical(place)) return true;
  const Instruction one = read_instruction((const unsigned char*)place);
  if (!one.plain) return false;
  if (*one.opcode == 0xC3) return true;
  unsigned operation = one.opcode[1] >> 3 & 7;
  return *one.opcode == 0xFF && (operation == 2 || operation == 4) &&
         (one.opcode[1] >> 6 == 3 || is_canonical(operand_address(one, context)));
}

#else

static bool goes_to_impossible_address(const ucontext_t*) { return false; }

// Other processors report such addresses as they report all others.
static bool asks_impossible_address(const siginfo_t*, const ucontext_t*) { return false; }

#endif

}  // namespace kspec_host
