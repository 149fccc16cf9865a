"""Batches of entries, as they stand in the files of a node.

    mark (4 bytes)  length (4)  sequence (8)  checksum (4)  body: MessagePack, the entries

An entry without a value removes the key.

Behind the last batch is an *end mark* with its number, over which the next batch is written: a file
that was cut between two batches has none.
"""

from __future__ import annotations

import struct
import zlib

import msgspec

Entry = tuple[str, bytes | None]
ENTRIES = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])
MARK = b"hbm1"
BATCH_LIMIT = 1 << 30
_HEAD = struct.Struct(">4sIQI")
_END = struct.Struct(">4sQ")
END_SIZE = _END.size
_ENCODER = msgspec.msgpack.Encoder()


def batch_of(sequence: int, entries: list[Entry]) -> bytes:
    body = _ENCODER.encode(entries)
    if len(body) > BATCH_LIMIT:
        raise OSError(f"batch of {len(body)} bytes; the limit is {BATCH_LIMIT}")
    return _HEAD.pack(MARK, len(body), sequence, _checksum(sequence, body)) + body


def batch_at(content: bytes, position: int) -> tuple[int, bytes, int] | None:
    """Return sequence, body and end of the batch that begins here, if it is whole."""
    start = position + _HEAD.size
    if start > len(content):
        return None
    mark, length, sequence, checksum = _HEAD.unpack_from(content, position)
    body = content[start : start + length]
    if mark != MARK or len(body) != length or _checksum(sequence, body) != checksum:
        return None
    return sequence, body, start + length


def end_mark(number: int) -> bytes:
    """Return what follows the last batch of a file, by its number."""
    return _END.pack(b"hbme", number)


def _checksum(sequence: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(struct.pack(">QI", sequence, len(body))))


def apply_entries(table: dict[str, bytes], entries: list[Entry]) -> None:
    """Change a table as the entries say."""
    for key, value in entries:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
