"""Messages between the two processes: pickles, each behind its length in 8 bytes."""

import pickle
from typing import Any, BinaryIO

_LENGTH_BYTES = 8


def write_frame(stream: BinaryIO, message: object) -> None:
    """Write a message and flush.

    Raises
    ------
    OSError
        If the other side is gone.
    """
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(body).to_bytes(_LENGTH_BYTES, "little"))
    stream.write(body)
    stream.flush()


def read_frame(stream: BinaryIO) -> Any:
    """Read a message; None at the end of the stream, also if it ends within a message."""
    head = _read(stream, _LENGTH_BYTES)
    body = _read(stream, int.from_bytes(head, "little"))
    if len(head) < _LENGTH_BYTES or len(body) < int.from_bytes(head, "little"):
        return None
    return pickle.loads(body)


def _read(stream: BinaryIO, length: int) -> bytes:
    """Read that many bytes, fewer at the end of the stream; an unbuffered stream gives them piece by piece."""
    pieces = []
    while length and (piece := stream.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
