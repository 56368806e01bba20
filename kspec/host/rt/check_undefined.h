// What the compilers' -fsanitize=undefined family reports: the operations of sanitize="undefined",
// and in all modes accesses beside the variable that they are computed from (object-size). Turn the
// compiler's description into a fault.
//
// The layouts are those that every -fsanitize=undefined runtime is called with: a position, then
// one or two types.
#pragma once

#include <string.h>

#include "bounds.h"
#include "check_memory.h"
#include "report.h"

namespace kspec_host {

struct UndefinedPosition {
  const char* file;
  unsigned line, column;
};

struct UndefinedType {
  unsigned short kind, info;  // integer: info is twice the logarithm of its bits, plus signedness
  char name[1];               // in quotes
  bool is_integer() const { return kind == 0; }
  bool is_signed() const { return info & 1; }
  unsigned bits() const { return 1u << (info >> 1); }
};

// Each handler's data starts with a position; what follows depends on the handler.
struct UndefinedData {
  UndefinedPosition position;
  const UndefinedType* type;        // index: the array's; shift: the left operand's
  const UndefinedType* other_type;  // index: the index's; shift: the right operand's
};

struct UndefinedPointerData {
  UndefinedPosition position;
  const UndefinedType* type;
  unsigned char alignment_log;
  unsigned char access;
};

static long long signed_value(const UndefinedType* type, unsigned long value) {
  if (!type || !type->is_integer() || !type->is_signed() || type->bits() >= 64)
    return (long long)value;
  unsigned shift = 64 - type->bits();
  return (long long)((unsigned long long)value << shift) >> shift;
}

static void describe_index(Text* text, const UndefinedData* data, unsigned long index) {
  // Clang: 'kspec_type_s' (aka 'int[8]'), the first being a name the rewriter gave it.
  const char* name = strstr(data->type->name, "(aka ");
  int length = name ? (int)strlen(name) - 6 : (int)strlen(data->type->name);
  text->add("index %lld is out of bounds of an array of type %.*s",
            signed_value(data->other_type, index), length, name ? name + 5 : data->type->name);
}

// An integer operand. Larger ones than a register are given by their address.
static void add_value(Text* text, const UndefinedType* type, unsigned long value) {
  if (type->bits() > 64) {
    text->add("a value");
  } else if (type->is_signed()) {
    text->add("%lld", signed_value(type, value));
  } else {
    text->add("%lu", value);
  }
}

static void describe_shift(Text* text, const UndefinedData* data, unsigned long value,
                           unsigned long amount) {
  text->add("shift of ");
  add_value(text, data->type, value);
  text->add(" of type %s by %lld bits", data->type->name, signed_value(data->other_type, amount));
}

static void describe_arithmetic(Text* text, const UndefinedData* data, const char* sign,
                                unsigned long left, unsigned long right) {
  add_value(text, data->type, left);
  text->add(" %s ", sign);
  add_value(text, data->type, right);
  text->add(" is out of range of type %s", data->type->name);
}

static void describe_division(Text* text, const UndefinedData* data, unsigned long left,
                              unsigned long right) {
  if (!data->type->is_integer()) {
    text->add("division by zero");
  } else if (signed_value(data->type, right)) {
    describe_arithmetic(text, data, "/", left, right);
  } else {
    text->add("integer division by zero: ");
    add_value(text, data->type, left);
    text->add(" / 0");
  }
}

static void describe_conversion(Text* text, const UndefinedData* data, unsigned long from) {
  const UndefinedType* type = data->type;
  double value;
  if (type->kind == 1 && type->info == 32) {
    float narrow;
    memcpy(&narrow, &from, sizeof narrow);
    value = narrow;
  } else if (type->kind == 1 && type->info == 64) {
    memcpy(&value, &from, sizeof value);
  } else {
    text->add("a value of type %s is out of range of type %s", type->name, data->other_type->name);
    return;
  }
  if (value != value) value = __builtin_fabs(value);  // the sign of NaN says nothing
  text->add("%.*g of type %s is out of range of type %s", type->info == 32 ? 9 : 17, value,
            type->name, data->other_type->name);
}

static void describe_pointer(Text* text, const UndefinedPointerData* data, unsigned long address) {
  static const char* const ACCESSES[] = {"load of", "store to", "reference to", "access within"};
  const char* access = data->access < 4 ? ACCESSES[data->access] : "use of";
  if (!address) {
    text->add("%s a null pointer of type %s", access, data->type->name);
  } else {
    text->add("%s misaligned address 0x%lx for type %s, which needs %u bytes of alignment", access,
              address, data->type->name, 1u << data->alignment_log);
  }
}

static void describe_undefined(Text* text, int kind, const void* raw, unsigned long first,
                               unsigned long second) {
  const UndefinedData* data = (const UndefinedData*)raw;
  switch (kind) {
    case UNDEFINED_INDEX:
      if (second) {
        text->add("an index is out of bounds of a local array");
      } else {
        describe_index(text, data, first);
      }
      break;
    case UNDEFINED_SHIFT: describe_shift(text, data, first, second); break;
    case UNDEFINED_SUM: describe_arithmetic(text, data, "+", first, second); break;
    case UNDEFINED_DIFFERENCE: describe_arithmetic(text, data, "-", first, second); break;
    case UNDEFINED_PRODUCT: describe_arithmetic(text, data, "*", first, second); break;
    case UNDEFINED_NEGATION:
      text->add("-(");
      add_value(text, data->type, first);
      text->add(") is out of range of type %s", data->type->name);
      break;
    case UNDEFINED_DIVISION: describe_division(text, data, first, second); break;
    case UNDEFINED_CONVERSION: describe_conversion(text, data, first); break;
    case UNDEFINED_POINTER:
      describe_pointer(text, (const UndefinedPointerData*)raw, first);
      break;
    case UNDEFINED_VALUE:
      text->add("%lu is no value of type %s", first, data->type->name);
      break;
    case UNDEFINED_RETURN:
      text->add(first ? "code marked unreachable was reached"
                      : "a function that has a result ended without return");
      break;
    case UNDEFINED_LENGTH: text->add("array length %lld is not positive", (long long)first); break;
    default: text->add("undefined operation");
  }
}

// The handler of pointers is also that of object-size: whatever is neither null nor misaligned.
static bool is_beside_object(int kind, const void* raw, unsigned long address) {
  if (kind != UNDEFINED_POINTER || !address) return false;
  unsigned char alignment_log = ((const UndefinedPointerData*)raw)->alignment_log;
  return !(address & ((1ul << alignment_log) - 1));
}

static void describe_beside(Text* text, const Worker* worker, const UndefinedPointerData* data,
                            unsigned long address) {
  text->add("%s of %s at ", data->access == 1 ? "write" : "read", data->type->name);
  if (worker->job->bounds && !is_somewhere(worker, address)) {
    describe_bounds(text, worker, address);
  } else {
    text->add("address 0x%lx, outside of the variable that it is computed from", address);
  }
}

[[noreturn]] static void fail_copy(Caller caller, int kind, const void* pc, unsigned long address,
                                   unsigned long size) {
  if (Fault* fault = begin_access_fault(caller.worker, caller.thread, pc, "illegal-address")) {
    snprintf(fault->message, sizeof fault->message,
             "%s of %lu bytes at address 0x%lx, more than the variable has",
             kind == UNDEFINED_WRITE ? "write" : "read", size, address);
    end_fault(caller.worker);
  }
  abort_block(caller.worker);
}

static void service_undefined(Caller caller, int kind, const void* data, unsigned long first,
                              unsigned long second) {
  if (kind == UNDEFINED_READ || kind == UNDEFINED_WRITE)
    fail_copy(caller, kind, data, first, second);
  const UndefinedPosition* position = (const UndefinedPosition*)data;
  bool beside = is_beside_object(kind, data, first);
  char message[512];
  Text text(message, sizeof message);
  if (beside) {
    describe_beside(&text, caller.worker, (const UndefinedPointerData*)data, first);
  } else {
    describe_undefined(&text, kind, data, first, second);
  }
  Site site = {position->file ? position->file : "?", (int)position->line};
  fail_thread(caller.worker, caller.thread, site,
              beside ? "illegal-address" : "undefined-behaviour", "%s", message);
}

}  // namespace kspec_host
