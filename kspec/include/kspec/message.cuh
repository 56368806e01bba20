// Text for the faults of the host device, put together without the C library.
#pragma once

namespace kspec {

struct FaultText {
  char text[256];
  int length = 0;

  FaultText& add(const char* part) {
    for (; *part && length < 255; ++part) text[length++] = *part;
    text[length] = 0;
    return *this;
  }
  FaultText& add(ptrdiff_t number) {
    char digits[24];
    int k = 23;
    digits[k] = 0;
    size_t rest = number < 0 ? 0 - (size_t)number : (size_t)number;
    do digits[--k] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) digits[--k] = '-';
    return add(digits + k);
  }
};

}  // namespace kspec
