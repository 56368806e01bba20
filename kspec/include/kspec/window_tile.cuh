// How far operations read, and which elements a thread of a GPU takes for that.
#pragma once

#include "kspec/operand.cuh"
#include "kspec/pack.cuh"

namespace kspec {

// How far an operation reads: elements before and after along each axis, outermost first.
template <int... ENDS> struct Reach {
  // Elements that it may read, up to a number that is large enough.
  static constexpr int volume() {
    const int ends[] = {ENDS...};
    long long found = 1;
    for (int k = 0; k < (int)sizeof...(ENDS) && found < 1000; k += 2)
      found *= 1LL + ends[k] + ends[k + 1];
    return found < 1000 ? (int)found : 1000;
  }
  // Elements before and after along an axis, counted from the innermost, and the more of them.
  static constexpr int before(int axis) { return end(2 * axis + 2); }
  static constexpr int after(int axis) { return end(2 * axis + 1); }
  static constexpr int farthest(int axis) {
    return before(axis) > after(axis) ? before(axis) : after(axis);
  }

 private:
  static constexpr int end(int from_behind) {
    const int ends[] = {ENDS...}, k = (int)sizeof...(ENDS) - from_behind;
    return k < 0 ? 0 : ends[k];
  }
};

constexpr int largest(int one) { return one; }
template <class... Rest> constexpr int largest(int one, Rest... rest) {
  return one > largest(rest...) ? one : largest(rest...);
}

// Elements of a pack of operands of these types.
template <class... T> constexpr int pack_of = PackSize<In<T>...>::value;

// Which elements a thread of a GPU takes: rows() rows of a pack in each of planes() planes, STEPS
// times. Their windows share most of what is loaded. PACK: elements of a pack, where rows are packed.
// The numbers were measured on an H200, those of single elements (V == 1) also on an H100.
// kspec/runtime/schedules/window_schedule.py has the same.
template <int PACK, int W, class... Reaches> struct WindowTile {
  static constexpr int farthest(int axis) { return largest(Reaches::farthest(axis)...); }
  enum {
    VOLUME = largest(Reaches::volume()...),
    HIGH = largest(farthest(1), farthest(2), farthest(3)),
    ELEMENTS = PACK,
    NARROW = farthest(0) <= 1,
    TALL = HIGH > 4,
    LARGE = VOLUME > 64,  // each element costs a copy of the operation's code
    ALONG = W == 2 && HIGH < 1 && VOLUME > 9 && !LARGE,  // rows have nothing in common
    FLAT = ALONG && VOLUME > 16,
    WAITING = ALONG && VOLUME < 48 && (!FLAT || PACK == 4),  // most of the time, for loads
    BYTES = W == 2 && PACK > 8 && VOLUME < 10,               // instructions limit them
    PLAIN = !TALL && !LARGE,
    HEAVY = W == 2 && VOLUME > 36 && HIGH == 3 && PLAIN,  // so do they here
    DEEP = W > 2 && PLAIN,
    SPARSE = DEEP && VOLUME <= 16,
    THREADS = FLAT || BYTES || (DEEP && !SPARSE) ? 128 : 256,
    STEPS = W == 2 && VOLUME > 9 && PLAIN && !HEAVY ? 2 : 1,
    // On a multiprocessor: with fewer of them, a thread has more registers.
    BLOCKS = TALL || LARGE             ? 2
             : HEAVY                   ? 3
             : DEEP                    ? (SPARSE ? 4 : 5)
             : FLAT                    ? (WAITING ? 12 : 10)
             : VOLUME > 16 && HIGH < 1 ? 5
             : BYTES                   ? 6
                                       : 4,
    PREFETCHED = HEAVY || WAITING,
    LAYERED = 0,
    // Edges are a part of the work where there are many, or where they are thick.
    PACKED_EDGES = !LARGE && (W > 2 || TALL),
  };
  // Threads side by side that take packs of V elements: a power of 2, less where rows are short.
  static constexpr int lanes(int V, ptrdiff_t columns) {
    int found = W == 1 ? THREADS : W > 2 ? 32 : (V > 1 || TALL) && !FLAT && !BYTES ? 64 : 128;
    if (W == 2 && V > 1)
      while (found > 32 && columns <= found / 2 * V) found /= 2;
    return found;
  }
  static constexpr int rows(int V) {
    return W == 1 || LARGE ? 1
           : W > 2         ? (V > 8 ? 1 : 2)
           : TALL          ? (V > 4 ? 32 / V : 10)
           : V > 8         ? (BYTES ? 8 : 2)
           : V > 1         ? (HEAVY ? 8 : 4)
           : VOLUME < 10   ? 12
                           : (HIGH > 0 ? 8 : 4);
  }
  // Along an axis without a reach, planes have nothing in common.
  static constexpr int planes(int V) {
    return W > 2 && farthest(2) > 0 && !LARGE && V <= 4 ? (V == 2 ? 3 : 4) : 1;
  }
};

// The same of a sum of layers, see layers.cuh, for windows of two or three axes.
template <int PACK, int W, class OneReach> struct LayeredTile : WindowTile<PACK, W, OneReach> {
  typedef WindowTile<PACK, W, OneReach> Plain;
  typedef OneReach Reach;
  enum {
    VOLUME = Plain::VOLUME,
    MIDDLE = VOLUME > 27 && VOLUME < 65,
    THREADS = W < 3 ? 256 : PACK != 4 ? 128 : MIDDLE ? 256 : 320,
    STEPS = 1,
    BLOCKS = W > 2         ? (PACK == 4 ? 2 : MIDDLE ? 4 : 5)
             : PACK > 8    ? 2
             : VOLUME > 25 ? 3
                           : 4,
    PREFETCHED = W == 2 && VOLUME > 36,
    LAYERED = 1,
  };
  static constexpr int rows(int V) {
    return W > 2   ? (V > 4 || VOLUME > 64 ? 1 : 2)
           : V > 4 ? (V > 8 || VOLUME > 25 ? 4 : 8)
                   : (VOLUME > 81 ? 4 : 8);
  }
  static constexpr int planes(int V) { return W < 3 ? 1 : VOLUME > 64 ? 4 : 6; }
};

// Elements of a block along an axis, at each step.
template <class Tile> constexpr int extent_of(int V, int axis, int lanes) {
  return axis == 0   ? lanes * V
         : axis == 1 ? Tile::THREADS / lanes * Tile::rows(V)
         : axis == 2 ? Tile::planes(V)
                     : 1;
}

}  // namespace kspec
