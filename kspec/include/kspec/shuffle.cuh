// Values of any size between the lanes of a warp, and between blocks: word by word.
#pragma once

namespace kspec {

// A value made of what `move` makes of its 32-bit words.
template <class T, class Move> __device__ inline T moved(const T& from, const Move& move) {
  enum { WORDS = (sizeof(T) + 3) / 4 };
  unsigned int word[WORDS];
  word[WORDS - 1] = 0;
  memcpy(word, &from, sizeof(T));
#pragma unroll
  for (int k = 0; k < WORDS; ++k) word[k] = move(word[k]);
  T to;
  memcpy(&to, word, sizeof(T));
  return to;
}
template <class T> __device__ inline T shuffle_up(const T& from, int by) {
  return moved(from, [&](unsigned int word) { return __shfl_up_sync(0xffffffffu, word, by); });
}
template <class T> __device__ inline T shuffle_down(const T& from, int by) {
  return moved(from, [&](unsigned int word) { return __shfl_down_sync(0xffffffffu, word, by); });
}
template <class T> __device__ inline T shuffle_xor(const T& from, int by) {
  return moved(from, [&](unsigned int word) { return __shfl_xor_sync(0xffffffffu, word, by); });
}
template <class T> __device__ inline T shuffle_from(const T& from, int lane) {
  return moved(from, [&](unsigned int word) { return __shfl_sync(0xffffffffu, word, lane); });
}
// A value that another block has written in this launch.
template <class T> __device__ inline T read_written(const T* from) {
  static_assert(sizeof(T) % 4 == 0, "words");
  const volatile unsigned int* words = reinterpret_cast<const volatile unsigned int*>(from);
  unsigned int word[sizeof(T) / 4];
#pragma unroll
  for (int k = 0; k < (int)(sizeof(T) / 4); ++k) word[k] = words[k];
  T to;
  memcpy(&to, word, sizeof(T));
  return to;
}

}  // namespace kspec
