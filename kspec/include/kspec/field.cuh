// What a spec says of a struct of the user's, checked where the struct is defined.
#pragma once

namespace kspec {

// The letter of NumPy's kind of a field's type; 0 for what may stand for several of them.
template <class T>
struct FieldKind {
  enum { value = 0 };
};

#define KSPEC_FIELD_KIND(type, letter) \
  template <>                          \
  struct FieldKind<type> {             \
    enum { value = letter };           \
  };
KSPEC_FIELD_KIND(bool, 'b')
KSPEC_FIELD_KIND(signed char, 'i')
KSPEC_FIELD_KIND(short, 'i')
KSPEC_FIELD_KIND(int, 'i')
KSPEC_FIELD_KIND(long, 'i')
KSPEC_FIELD_KIND(long long, 'i')
KSPEC_FIELD_KIND(unsigned char, 'u')
KSPEC_FIELD_KIND(unsigned short, 'u')
KSPEC_FIELD_KIND(unsigned int, 'u')
KSPEC_FIELD_KIND(unsigned long, 'u')
KSPEC_FIELD_KIND(unsigned long long, 'u')
KSPEC_FIELD_KIND(float, 'f')
KSPEC_FIELD_KIND(double, 'f')
#undef KSPEC_FIELD_KIND

template <class T>
constexpr bool is_field_kind(int kind) {
  return FieldKind<T>::value == 0 || FieldKind<T>::value == kind;
}

}  // namespace kspec

// Where a field is, in bytes, as a constant expression; NVRTC has no offsetof.
#ifdef __CUDACC_RTC__
#define KSPEC_OFFSET(type, field) __INTADDR__(&((type*)0)->field)
#else
#define KSPEC_OFFSET(type, field) __builtin_offsetof(type, field)
#endif
