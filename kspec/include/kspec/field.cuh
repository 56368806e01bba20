// What a spec says of a struct of the user's, checked where the struct is defined.
//
// Options of raw kernels define macros before this is read (-DT=float, -Dsize=3), so that names that
// are no member of `kspec` end with an underscore.
#pragma once

namespace kspec {

// The letter of NumPy's kind of a field's type; 0 for what may stand for several of them.
template <class T_>
struct FieldKind {
  enum { value_ = 0 };
};

#define KSPEC_FIELD_KIND(type_, letter_) \
  template <>                            \
  struct FieldKind<type_> {              \
    enum { value_ = letter_ };           \
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

template <class T_>
constexpr bool is_field_kind(int kind_) {
  return FieldKind<T_>::value_ == 0 || FieldKind<T_>::value_ == kind_;
}

}  // namespace kspec

// Where a field is, in bytes, as a constant expression; NVRTC has no offsetof.
#ifdef __CUDACC_RTC__
#define KSPEC_OFFSET(type_, field_) __INTADDR__(&((type_*)0)->field_)
#else
#define KSPEC_OFFSET(type_, field_) __builtin_offsetof(type_, field_)
#endif
