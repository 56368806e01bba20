// How the elements of a loop lie in memory; each layout is a kernel of its own, chosen at the call
// by kspec/runtime/schedules/elementwise_schedule.py, for reductions by kspec/runtime/schedules/reduction_schedule.py.
#pragma once

namespace kspec {

struct Flat {};                         // every operand contiguous alike, or a single element
struct Rows {};                         // whole aligned packs along the innermost axis
struct Packs {};                        // packs along the innermost axis, broadcast or cropped
struct Tiles {};                        // some operand runs along another axis than the output
template <int AXES> struct Strided {};  // anything, up to so many axes

// Some operand has core dimensions; the others are looped over, by up to so many axes.
template <int AXES> struct Items {};

// The same with a group of THREADS for each item.
template <int AXES, int THREADS> struct Groups {};

// Some operand is read at offsets along its last AXES axes; others are looped over before these.
template <int AXES, int OUTER> struct Windows { enum { is_chosen = 0 }; };
// The same with another boundary than the first of a window: the kernel knows it at the call.
template <int AXES, int OUTER> struct ChosenBoundary { enum { is_chosen = 1 }; };

struct Lines {};       // reductions along contiguous elements: a group of threads for each output
struct ShortLines {};  // the same for few elements: two outputs for each group
// The same for pairs: some inputs are the same for all elements of an output, the others, those of the
// bits of SWEPT, the same for all outputs.
template <int SWEPT> struct Sweep {};
struct Columns {};     // neighbouring outputs are neighbours in memory: packs of outputs

// Scans, which make an output of each element and all before it, with up to so many axes beside theirs.
template <int AXES> struct ScanLines {};    // tiles of elements that follow each other
template <int AXES> struct ScanColumns {};  // neighbouring threads scan neighbouring rows
template <int AXES> struct ScanWalks {};    // the same by blocks that have all elements of their rows
template <int AXES> struct ScanWaves {};    // such tiles by blocks that stay, of contiguous operands

// Reductions of segments of the first axis, likewise.
template <int AXES> struct SegmentLines {};    // of one column
template <int AXES> struct SegmentColumns {};  // neighbouring threads take neighbouring columns

// Reductions by key, of the first axis, likewise.
template <int AXES> struct KeyCells {};  // all threads update the accumulators of keys
template <int AXES> struct KeyRuns {};   // elements keep their order, and keys are few
template <int AXES> struct KeyGroups {};  // elements keep their order, and rows are grouped by key
template <int AXES> struct KeySorted {};  // elements keep their order, and rows are sorted by key
template <int AXES> struct KeyBins {};   // each thread has accumulators of all keys

// Reductions of windows that slide along W axes, with up to AXES axes of outputs.
template <int AXES, int W> struct Rolling {};

// Reductions of an array that is in several places (kspec/aggregates.cuh).
template <class Layout> struct ToAggregates {};  // to accumulators, not yet to outputs
template <class Layout> struct FromAggregates {};  // of accumulators
template <class Layout> struct Continued {};  // scans that go on from accumulators
template <class Layout> struct Counting {};  // of accumulators that count their elements

}  // namespace kspec
