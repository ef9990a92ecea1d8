"""What a bucket remembers: when each of its subscriptions was last notified, packed into bytes.

The first byte is the number of the layout, so that a later Recado can read what this one wrote, and an earlier one says
that it cannot. The rest is MessagePack. With an entry stands the instant until which it matters, its period later: from
then on it can be forgotten. Instants are microseconds since 1970.
"""

from __future__ import annotations

import msgspec

from recado.pipeline.errors import PipelineError

LAYOUT = 1


class Memory(msgspec.Struct, array_like=True):
    """``notified`` maps a subscription to its last notification and the end of the period after it."""

    buckets: int
    notified: dict[str, tuple[int, int]] = {}

    def notify(self, subscription: str, time: int, period: int) -> None:
        """Remember a notification; a late one, made while no frequency held, does not hide a later one."""
        last = max(time, self.notified.get(subscription, (time, 0))[0])
        self.notified[subscription] = (last, last + period)

    def forget(self, watermark: int) -> bool:
        """Drop what no event at or after the watermark asks for; was there any?"""
        kept = {id: entry for id, entry in self.notified.items() if entry[1] > watermark}
        dropped = len(kept) < len(self.notified)
        self.notified = kept
        return dropped


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Memory).decode


def pack_memory(memory: Memory) -> bytes:
    return bytes((LAYOUT,)) + _encode(memory)


def unpack_memory(packed: bytes | None, buckets: int) -> Memory:
    """The memory of a bucket, new if there is none yet."""
    if packed is None:
        return Memory(buckets)
    if packed[0] != LAYOUT:
        raise PipelineError(
            f"the checkpoint remembers notifications in layout {packed[0]}, and this Recado reads layout {LAYOUT}; "
            "continue with the Recado that wrote it, or begin a new checkpoint"
        )
    memory = _decode(packed[1:])
    if memory.buckets != buckets:
        raise PipelineError(
            f"the checkpoint was begun with {memory.buckets} buckets, and {buckets} were asked for; "
            "a stream keeps its number of buckets"
        )
    return memory
