"""Memory of kspec's own arrays on CUDA devices: what one array leaves, the next one takes.

>>> pool = kspec.memory_pool("cuda:0")                                       # doctest: +SKIP
>>> x = kspec.empty(1000, device="cuda:0"); del x                            # doctest: +SKIP
>>> pool.used_bytes(), pool.free_bytes()                                     # doctest: +SKIP
(0, 8192)

The driver needs 20 us for an allocation, and waits for the whole device before it frees memory.
Here both take a list's `pop` and `append`, which are atomic, so that they need no lock in any
thread, nor in the garbage collector.

Memory is *at home* on the default stream of its device.  An array's memory is left behind when
the last reference goes, while kernels may still run on it; who takes it then queues work after
theirs.  Memory that was used on another stream, or shown to others, has left home: it goes back
to the driver, which waits.  And before such a stream uses memory for the first time, it waits for
what its last owner may have queued on the default stream (`kspec.runtime.memory.stream_fence`).
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kspec import config
from kspec.errors import ArgumentTypeError, DriverError
from kspec.locks import make_lock
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver.device import Device, parse_device

if TYPE_CHECKING:
    from kspec.runtime.memory.stream_fence import StreamFence

_LEAST_STEP, _LARGEST_STEP = 9, 21  # binary logarithms of the granularity of sizes
_STEPS = 3  # binary logarithm of the number of sizes between a power of two and the next


class _Alone:
    """Records the result of `sys.getrefcount` in the finalizer of an unreferenced object."""

    def __init__(self, noted: list[int]) -> None:
        self.noted = noted

    def __del__(self, references: Callable[[object], int] = sys.getrefcount) -> None:
        self.noted.append(references(self))


def _references_alone() -> int:
    noted: list[int] = []
    _Alone(noted)
    return noted[0]


_ALONE = _references_alone()  # Python's versions count differently


class PooledMemory:
    """Memory of an array and its views, given back with the last reference.

    Attributes
    ----------
    bucket : Bucket
        Where it is from.
    ptr : int
        Its address; 0 if it has no bytes.
    heir : PooledMemory or None
        Who gives the memory back instead; heirs have none.
    """

    __slots__ = ("bucket", "heir", "ptr")

    heir: PooledMemory | None

    def __init__(self, bucket: Bucket, ptr: int) -> None:
        self.bucket = bucket
        self.ptr = ptr

    # Defaults, because names of the module may be gone at the interpreter's exit.
    def __del__(
        self, references: Callable[[object], int] = sys.getrefcount, alone: int = _ALONE
    ) -> None:
        bucket, ptr = self.bucket, self.ptr
        if references(self) > alone and not hasattr(self, "heir"):
            # The garbage collector has found a cycle. Others in it may be finalized after this,
            # and use the memory until then: what refers to the heir goes when they are done.
            self.heir = PooledMemory(bucket, ptr)
            self.heir.heir = None
        elif len(bucket.free) < bucket.most and ptr not in bucket.away:
            bucket.give(ptr)
        else:
            bucket.retire(ptr)

    @property
    def nbytes(self) -> int:
        """Size, at least what was asked for."""
        return self.bucket.size

    def leave(self, stream: int) -> None:
        """Take note that work is going to be queued on a stream that is not the default one."""
        fence = self._fence()
        if fence is not None and fence.precedes(stream):
            self.bucket.away[self.ptr] = None

    def show(self) -> None:
        """Take note that somebody gets the address, and may use the memory on any stream."""
        fence = self._fence()
        if fence is not None:
            fence.wait()
            self.bucket.away[self.ptr] = None

    def _fence(self) -> StreamFence | None:
        """Return the work that must finish before the memory is used elsewhere."""
        away = self.bucket.away
        if self.ptr not in away:
            from kspec.runtime.memory.stream_fence import StreamFence

            return away.setdefault(self.ptr, StreamFence(self.bucket.ordinal))
        return away[self.ptr]


class Bucket:
    """Memory of one size on one device.

    Attributes
    ----------
    size, ordinal : int
        Bytes of each piece, and the device.
    free : list of int
        Addresses of free memory.
    take, give : callable
        Take one of them, or raise `IndexError`; put one there.
    most : int
        How many there may be without asking the pool.
    held : set of int
        Addresses of all memory that the driver has given.
    away : dict of int to StreamFence or None
        Addresses of memory in use on other streams, and the work to wait for before reuse.
    grown : int
        When `most` was last raised.
    """

    __slots__ = (
        "_grant",
        "_make_room",
        "away",
        "free",
        "give",
        "grown",
        "held",
        "most",
        "ordinal",
        "size",
        "take",
    )

    def __init__(
        self,
        ordinal: int,
        size: int,
        grant: Callable[[Bucket], bool],
        make_room: Callable[[], None],
    ) -> None:
        self.ordinal = ordinal
        self.size = size
        self.free: list[int] = []
        self.take, self.give = self.free.pop, self.free.append
        self.most = 0
        self.held: set[int] = set()
        self.away: dict[int, StreamFence | None] = {}
        self.grown = 0
        self._grant = grant
        self._make_room = make_room

    def memory(self) -> PooledMemory:
        """Return memory of undefined contents."""
        try:
            ptr = self.take()
        except IndexError:
            ptr = self.fresh()
        return PooledMemory(self, ptr)

    def fresh(self) -> int:
        """Return the address of memory from the driver."""
        try:
            ptr = driver_memory.allocate(self.ordinal, self.size)
        except DriverError as error:
            if error.name != driver_memory.OUT_OF_MEMORY:
                raise
            self._make_room()
            ptr = driver_memory.allocate(self.ordinal, self.size)
        self.held.add(ptr)
        return ptr

    def retire(self, ptr: int) -> None:
        """Release memory without an owner that cannot simply be kept."""
        if ptr not in self.held:
            return  # a forked process has none of its parent's memory
        if ptr not in self.away and self._grant(self):
            self.give(ptr)
            return
        self.away.pop(ptr, None)
        self.release(ptr)

    def release(self, ptr: int) -> None:
        """Give memory back to the driver, which waits for everything that may use it."""
        # At interpreter exit the driver may be gone already, and the memory with it.
        if driver is not None and not sys.is_finalizing():
            self.held.discard(ptr)
            driver_memory.free(self.ordinal, ptr)

    def drop(self) -> bool:
        """Give the driver one of the free pieces; return whether there was one."""
        try:
            ptr = self.take()
        except IndexError:
            return False
        self.release(ptr)
        return True


class MemoryPool:
    """Device memory that kspec's own arrays have left, for the next ones: see `memory_pool`.

    Arrays of other libraries have pools of their own. When the device has no memory left for an
    array of kspec's, everything kept is given back first.

    Parameters
    ----------
    ordinal : int
        The device.
    limit : int
        Bytes that are kept at most; 0 also makes arrays as large as they say, no larger.
    """

    def __init__(self, ordinal: int, limit: int) -> None:
        self._ordinal = ordinal
        self._limit = limit
        self._exact = limit == 0
        self._buckets: dict[int, Bucket] = {}
        self._lock = threading.Lock()  # a finalizer must not take it twice
        self._clock = itertools.count(1)
        self._parents: list[object] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @property
    def limit(self) -> int:
        """Bytes that are kept at most; setting it gives back all that is kept."""
        return self._limit

    @limit.setter
    def limit(self, nbytes: int) -> None:
        if nbytes < 0:
            raise ValueError(f"the limit is a number of bytes, not {nbytes}")
        self._limit = nbytes
        self.free_all_blocks()

    def free_bytes(self) -> int:
        """Return the bytes kept for future arrays."""
        return sum(len(one.free) * one.size for one in list(self._buckets.values()))

    def total_bytes(self) -> int:
        """Return the bytes of arrays and the bytes kept, together."""
        return sum(len(one.held) * one.size for one in list(self._buckets.values()))

    def used_bytes(self) -> int:
        """Return the bytes of arrays; sizes are rounded up."""
        return self.total_bytes() - self.free_bytes()

    def free_all_blocks(self) -> None:
        """Give the driver all memory that is kept; it waits for the device."""
        for bucket in list(self._buckets.values()):
            bucket.most = 0
            while bucket.drop():
                pass

    def bucket(self, nbytes: int) -> Bucket:
        """Return the bucket for allocations of at least so many bytes."""
        size = nbytes if self._exact else rounded(nbytes)
        found = self._buckets.get(size)
        if found is None:
            made = Bucket(self._ordinal, size, self._grant, self._make_room)
            found = self._buckets.setdefault(size, made)
        return found

    def _make_room(self) -> None:
        """Give back what can be, also of arrays that only the garbage collector can reach."""
        gc.collect()
        self.free_all_blocks()

    def _grant(self, bucket: Bucket) -> bool:
        """Let a bucket keep one more piece, if need be instead of others; return whether it may.

        What buckets may keep is never more than the limit, so that their arrays need not ask.
        Called by finalizers, which may run anywhere, this function included: it never waits.
        """
        if config.per_thread_default_stream() or not self._lock.acquire(blocking=False):
            return False
        try:
            others = [one for one in list(self._buckets.values()) if one is not bucket]
            room = self._limit - (bucket.most + 1) * bucket.size
            if room < 0:
                return False
            if sum(one.most * one.size for one in others) > room:
                _shrink(others, room)
            bucket.most += 1
            bucket.grown = next(self._clock)
            return True
        finally:
            self._lock.release()

    def _forget(self) -> None:
        """Begin anew in a forked process, which has none of its parent's memory."""
        self._lock = threading.Lock()
        for bucket in self._buckets.values():
            self._parents.append(dict(bucket.away))  # whose events are not ours to destroy
            bucket.most = 0
            for one in (bucket.free, bucket.held, bucket.away):
                one.clear()

    def __repr__(self) -> str:
        return (
            f"<MemoryPool cuda:{self._ordinal}: {self.used_bytes()} bytes used, "
            f"{self.free_bytes()} kept, at most {self._limit}>"
        )


def _shrink(buckets: list[Bucket], room: int) -> None:
    """Let buckets keep no more than there is room for; those that grew last shrink last."""
    for bucket in buckets:
        bucket.most = min(bucket.most, len(bucket.free))
    excess = sum(one.most * one.size for one in buckets) - room
    for bucket in sorted(buckets, key=lambda one: one.grown):
        while excess > 0 and bucket.most:
            bucket.most -= 1
            excess -= bucket.size
            bucket.drop()


def rounded(nbytes: int) -> int:
    """Return a size that others round up to as well: at most an eighth more, or 512 bytes."""
    step = 1 << max(_LEAST_STEP, min(_LARGEST_STEP, (nbytes - 1).bit_length() - _STEPS - 1))
    return -(-nbytes // step) * step


_CREATION = make_lock()


def memory_pool(device: Device | str | None = None) -> MemoryPool:
    """Return the pool that the memory of kspec's own arrays on a CUDA device is from.

    Parameters
    ----------
    device : {"cuda", "cuda:N"}, optional
        Default: the current CUDA device.

    Raises
    ------
    ArgumentTypeError
        For the host device, where memory is not pooled.
    ToolNotFoundError
        If there is no CUDA device.
    """
    missing = device is None and driver.why_unavailable()
    place = parse_device("cuda" if missing else device)  # which says why
    if place.is_host:
        raise ArgumentTypeError("memory of the host device is not pooled; name a CUDA device")
    return pool_of(place.ordinal)


def pool_of(ordinal: int) -> MemoryPool:
    """Return the pool of a CUDA device."""
    with _CREATION:  # two threads would make two
        return _pool_of(ordinal)


@functools.cache
def _pool_of(ordinal: int) -> MemoryPool:
    limit = config.pool_limit()
    return MemoryPool(ordinal, driver_memory.total_memory(ordinal) // 4 if limit is None else limit)
