// Checked builds: the functions that -fsanitize=object-size calls, and -fsanitize=bounds,shift,...
// with sanitize="undefined". They hand the compiler's description of the operation to the runtime
// (rt/check_undefined.h).
#pragma once

#define KSPEC_HANDLER(NAME, KIND, PARAMETERS, FIRST, SECOND)                                    \
  extern "C" __attribute__((visibility("hidden"), used, noinline)) void __ubsan_handle_##NAME   \
      PARAMETERS {                                                                              \
    if (kspec_context.block)                                                                    \
      kspec_runtime->undefined(kspec_host::caller(), kspec_host::KIND, data,                    \
                               (unsigned long)(FIRST), (unsigned long)(SECOND));                \
  }

KSPEC_HANDLER(out_of_bounds, UNDEFINED_INDEX, (void* data, void* index), index, 0)
KSPEC_HANDLER(shift_out_of_bounds, UNDEFINED_SHIFT, (void* data, void* left, void* right), left,
              right)
KSPEC_HANDLER(add_overflow, UNDEFINED_SUM, (void* data, void* left, void* right), left, right)
KSPEC_HANDLER(sub_overflow, UNDEFINED_DIFFERENCE, (void* data, void* left, void* right), left,
              right)
KSPEC_HANDLER(mul_overflow, UNDEFINED_PRODUCT, (void* data, void* left, void* right), left, right)
KSPEC_HANDLER(negate_overflow, UNDEFINED_NEGATION, (void* data, void* value), value, 0)
KSPEC_HANDLER(divrem_overflow, UNDEFINED_DIVISION, (void* data, void* left, void* right), left,
              right)
KSPEC_HANDLER(float_cast_overflow, UNDEFINED_CONVERSION, (void* data, void* from), from, 0)
KSPEC_HANDLER(type_mismatch_v1, UNDEFINED_POINTER, (void* data, void* pointer), pointer, 0)
KSPEC_HANDLER(load_invalid_value, UNDEFINED_VALUE, (void* data, void* value), value, 0)
KSPEC_HANDLER(missing_return, UNDEFINED_RETURN, (void* data), 0, 0)
KSPEC_HANDLER(builtin_unreachable, UNDEFINED_RETURN, (void* data), 1, 0)
KSPEC_HANDLER(vla_bound_not_positive, UNDEFINED_LENGTH, (void* data, void* bound), bound, 0)
KSPEC_HANDLER(local_out_of_bounds, UNDEFINED_INDEX, (void* data), ~0ul, 1)

#undef KSPEC_HANDLER
