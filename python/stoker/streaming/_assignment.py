# SPDX-License-Identifier: Apache-2.0
"""Which rows of an epoch's global batches a rank and a DataLoader worker deliver. Pure arithmetic.

Global batch j covers positions [start + j*G, start + (j+1)*G) with G = batch_size * world_size; rank r delivers the
r-th part of its rows (the plan says which positions those are). torch takes batches from its workers in turn, so worker
w builds the batches j = w, w + W, ...: what a rank delivers, and in which order, does not depend on the number of
workers.

With ``pad`` every rank has as many batches, all of them full: what a last short global batch does not give a rank is
filled with repeated rows of it, which a mask marks as not valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_BLOCK = 4096  # positions planned at a time when all of them are wanted


class Slice(NamedTuple):
    """Rows [first, first + rows) of the global batch of the positions [begin, begin + size)."""

    begin: int
    size: int
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """One epoch of one rank.

    Attributes:
        epoch: number of the epoch.
        start: global position of the first sample to deliver (0, or where a saved state stopped).
        batch_size: samples per batch and rank.
        drop_last: leave out the last global batch when it is not full.
        rank, world_size: this rank among all.
        pad: fill up short global batches.
        sizes: samples per batch and rank of each dataset of a mixture, when they differ; batch_size is the largest.
    """

    epoch: int
    start: int = 0
    batch_size: int = 1
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1
    pad: bool = False
    sizes: tuple[int, ...] = ()

    @property
    def global_batch(self) -> int:
        """Samples all ranks deliver together per step."""
        return self.batch_size * self.world_size

    def end(self, total: int) -> int:
        """Return the position after the last sample any rank delivers."""
        if not self.drop_last:
            return total
        return self.start + max(total - self.start, 0) // self.global_batch * self.global_batch

    def num_batches(self, total: int) -> int:
        """Return the batches of this rank."""
        full, tail = divmod(max(total - self.start, 0), self.global_batch)
        has_tail = tail > 0 if self.pad else self._tail_size(tail) > 0
        return full + (has_tail and not self.drop_last)

    def num_samples(self, total: int) -> int:
        """Return the samples of this rank."""
        full, tail = divmod(max(total - self.start, 0), self.global_batch)
        return full * self.batch_size + (0 if self.drop_last else self._tail_size(tail))

    def _tail_size(self, tail: int) -> int:
        """Return this rank's part of a global batch of ``tail`` samples, shared as evenly as can be."""
        return (self.rank + 1) * tail // self.world_size - self.rank * tail // self.world_size

    def batch(self, total: int, number: int) -> Slice:
        """Return what makes up a batch of this rank; with ``pad`` the last one may have fewer rows, or none."""
        begin = self.start + number * self.global_batch
        return self.share(begin, min(self.global_batch, total - begin))

    def share(self, begin: int, size: int) -> Slice:
        """Return this rank's rows of a global batch."""
        return Slice(begin, size, self.rank * size // self.world_size, self._tail_size(size))

    def slices(self, total: int, worker: int, num_workers: int) -> Iterator[Slice]:
        """Yield what one worker of this rank delivers, in order."""
        if num_workers == 1 and self.world_size == 1:
            for begin in range(self.start, self.end(total), _BLOCK):
                count = min(_BLOCK, self.end(total) - begin)
                yield Slice(begin, count, 0, count)
            return
        for number in range(worker, self.num_batches(total), num_workers):
            yield self.batch(total, number)
