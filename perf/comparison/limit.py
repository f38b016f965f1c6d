"""The physical limit of an all_reduce between two ranks: the bytes that must move at the bandwidth that the machine
shows for such accesses, and the hops. docs/performance.md explains it.

`speeds` is {bytes: {kind: us}}: what memory_speed measured, for that many bytes on each of two threads at once.
"""

SMALLEST_BYTES = 32 << 10  # shorter passes are as long as the clock's own time
SLOT_BYTES = 256 << 10  # slots can stay in any second-level cache
INLINE_BYTES = 96  # what travels in the line that announces it
KINDS = ("read own", "read peer", "write own", "write peer", "copy own to own", "copy own to peer", "copy peer to own",
         "copy peer to peer")


def basis(size):
    """The size whose bandwidths count for buffers of `size`."""
    return max(SMALLEST_BYTES, size)


def needed(sizes):
    """The sizes to measure for the limits of `sizes`."""
    return sorted({basis(size) for size in sizes} | {SLOT_BYTES})


def complete(speeds, size):
    return all(kind in speeds.get(one, {}) for kind in KINDS for one in (basis(size), basis(min(size, SLOT_BYTES))))


def hops(size):
    """Lines that must cross one after the other: one in an exchange of lines, else to say that inputs are there and
    that results are."""
    return 1 if size <= INLINE_BYTES else 2


class Costs:
    """Microseconds for accesses to buffers of one size, and to slots, with ordinary or streaming stores, whichever are
    faster."""

    def __init__(self, speeds, size):
        self.speeds, self.size = speeds, size

    def at(self, measured, kind, share):
        kinds = self.speeds[measured]
        fastest = min(kinds[kind], kinds.get(kind + ", streaming", kinds[kind]))
        return fastest * share * self.size / measured

    def buffers(self, *kinds, share=1.0):
        return sum(self.at(basis(self.size), kind, share) for kind in kinds)

    def slots(self, *kinds, share=1.0):
        return sum(self.at(basis(min(self.size, SLOT_BYTES)), kind, share) for kind in kinds)


def library(speeds, size, hop_ns):
    """Each rank reads half of both inputs and writes half of both outputs: as reads and writes apart or as copies."""
    costs = Costs(speeds, size)
    ways = [("read own", "read peer", "write own", "write peer"), ("copy own to own", "copy peer to peer"),
            ("copy own to peer", "copy peer to own")]
    return min(costs.buffers(*way, share=0.5) for way in ways) + hops(size) * hop_ns / 1000


def two_copies(speeds, size, hop_ns):
    """Private buffers, what cannot be avoided: 2 n read and 2 n written. Half the input is copied to slots while the
    other half is reduced in place; half the output is reduced to while the other half is copied from slots."""
    costs = Costs(speeds, size)
    ways = [costs.buffers("read own", "write own") + costs.slots("write own", "read peer"),
            costs.buffers("copy own to own") + costs.slots("write own", "read peer")]
    if size <= SLOT_BYTES:  # slots are as long as the buffers: a copy into them, a copy out of the peer's
        ways.append(costs.buffers("copy own to own", "copy peer to own"))
    return min(ways) + hops(size) * hop_ns / 1000


def private(speeds, size, hop_ns):
    """Private buffers, all copied in, slices reduced in slots, all copied out: 3 n read, 2.5 n written."""
    costs = Costs(speeds, size)
    return two_copies(speeds, size, hop_ns) + costs.slots("read own") + costs.slots("write own", share=0.5)
