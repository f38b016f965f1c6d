#!/usr/bin/env python3
"""Measures collectives of Gloo, through PyTorch, as the perf binaries measure Tutti's single calls.

    gloo_collectives.py FOLDER RANK RANKS COLLECTIVE BYTES...     rank 0 prints "bytes p05 p50" in microseconds

Every rank touches its buffers (rewrites its input, reads its output), all begin the call at the same moment, and it took
until the last has ended. Bytes are those of the larger side. FOLDER is where the ranks meet: empty, the same for all. What Gloo cannot do
is answered with "unsupported: reason". perf/compare starts it with a Python that has torch.
"""

import mmap
import os
import pathlib
import sys
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist


class Start:
    """Lets all ranks begin at the same moment of their clock. They agree on it in shared memory: Gloo's own barrier would
    leave them further apart than a call takes. Without a processor for each, ranks begin as they come."""

    LINE = 16  # words
    AHEAD_NS = 30000

    def __init__(self, file, rank, ranks):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(descriptor, 8 * self.LINE * ranks)
        self.words = memoryview(mmap.mmap(descriptor, 8 * self.LINE * ranks)).cast("Q")
        os.close(descriptor)
        self.own = rank * self.LINE
        self.all = [r * self.LINE for r in range(ranks)]
        self.turn = 0
        self.spins = ranks <= len(os.sched_getaffinity(0))

    def barrier(self):
        self.turn += 1
        self.words[self.own] = self.turn
        for word in self.all:
            while self.words[word] < self.turn:
                if not self.spins:
                    os.sched_yield()

    def __call__(self):
        """The moment in ns."""
        self.barrier()
        if not self.spins:
            return time.perf_counter_ns()
        self.words[self.own + 1] = time.perf_counter_ns() + self.AHEAD_NS
        self.barrier()
        moment = max(self.words[word + 1] for word in self.all)
        now = time.perf_counter_ns()
        if now > moment:
            return moment  # late: it counts
        while now < moment:
            now = time.perf_counter_ns()
        return now


def iterations(size):
    """A call takes hundreds of microseconds at every size: fewer than the others need."""
    return 100 if size <= 32768 else 60 if size <= 1 << 20 else 20 if size <= 4 << 20 else 8


def prepare(collective, size, rank, ranks):
    """(tensor to rewrite, tensor to read, call)"""
    whole = size // 4
    block = whole // ranks
    full = lambda n: torch.zeros(n, dtype=torch.float32)
    if collective == "all_reduce":  # in place: there is no other form
        values = full(whole)
        return values, values, lambda: dist.all_reduce(values)
    if collective == "broadcast":
        values = full(whole)
        return (values if rank == 0 else full(0)), values, lambda: dist.broadcast(values, 0)
    if collective == "reduce":
        values = full(whole)
        return values, values, lambda: dist.reduce(values, 0)
    if collective == "all_gather":
        one, every = full(block), full(block * ranks)
        return one, every, lambda: dist.all_gather_into_tensor(every, one)
    if collective == "reduce_scatter":
        every, one = full(block * ranks), full(block)
        return every, one, lambda: dist.reduce_scatter_tensor(one, every)
    if collective == "all_to_all":
        there, here = full(block * ranks), full(block * ranks)
        return there, here, lambda: dist.all_to_all_single(here, there)
    if collective == "gather":
        one, every = full(block), full(block * ranks)
        parts = list(every.view(ranks, block)) if rank == 0 else None
        return one, every, lambda: dist.gather(one, parts, 0)
    if collective == "scatter":
        every, one = full(block * ranks), full(block)
        parts = list(every.view(ranks, block)) if rank == 0 else None
        return every, one, lambda: dist.scatter(one, parts, 0)
    if collective == "sendrecv":
        there, here = full(whole), full(whole)
        following, before = (rank + 1) % ranks, (rank - 1) % ranks

        def exchange():
            if rank % 2 == 0:
                dist.send(there, following)
            dist.recv(here, before)
            if rank % 2 != 0:
                dist.send(there, following)

        return there, here, exchange
    nothing = full(0)
    return nothing, nothing, dist.barrier


def measure(collective, size, rank, ranks, start):
    source, result, call = prepare(collective, size, rank, ranks)
    count = iterations(size)
    begins, ends = torch.zeros(count, dtype=torch.int64), torch.zeros(count, dtype=torch.int64)
    for i in range(-count // 5 - 2, count):
        result.sum()
        source.fill_(rank + 1)
        begin = start()
        call()
        end = time.perf_counter_ns()
        if not start.spins:
            start.barrier()
        if i >= 0:
            begins[i], ends[i] = (begin, end) if start.spins else (0, end - begin)
    dist.all_reduce(begins, dist.ReduceOp.MAX)
    dist.all_reduce(ends, dist.ReduceOp.MAX)
    times = sorted(((ends - begins).double() / 1000).tolist())
    if rank == 0:
        print(f"{size} {times[count // 20]:.4f} {times[count // 2]:.4f}", flush=True)


def main():
    folder, rank, ranks, collective = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    start = Start(folder / "start", rank, ranks)
    try:
        for size in sys.argv[5:]:
            measure(collective, int(size), rank, ranks, start)
    except (RuntimeError, NotImplementedError, ValueError) as error:
        # Raised by all ranks before anything is sent.
        if "not support" not in str(error) and "not implemented" not in str(error).lower():
            raise
        if rank == 0:
            print("unsupported: " + str(error).split("\n", maxsplit=1)[0], flush=True)
    dist.destroy_process_group()


main()
