"""What the bus answers to a published message: an acknowledgement, or why there is none."""

from enum import StrEnum

import msgspec

# JetStream's err_code: `discard: new` refuses a message; a message is larger than the stream takes.
_KINDS = {10077: "stream_full", 10054: "too_large"}


class FailureKind(StrEnum):
    NOT_CONNECTED = "not_connected"
    TIMED_OUT = "timed_out"
    NO_RESPONDERS = "no_responders"
    STREAM_FULL = "stream_full"
    TOO_LARGE = "too_large"
    REFUSED = "refused"


class Ack(msgspec.Struct, frozen=True):
    """The stream has the message on disk. `duplicate`: it had one with this id before, and kept that one."""

    stream: str
    seq: int
    duplicate: bool = False


class Failure(msgspec.Struct, frozen=True):
    """Not acknowledged. After TIMED_OUT and NOT_CONNECTED it is unknown whether the stream has the message."""

    kind: FailureKind
    detail: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Refusal | None = None


def read_ack(answer: bytes) -> Ack | Failure:
    """JetStream's answer as a value; anything that is no acknowledgement of a stream is a Failure."""
    try:
        ack = msgspec.json.decode(answer, type=_PubAck)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Failure(FailureKind.REFUSED, f"the answer is no acknowledgement: {error}")
    if ack.error is not None:
        kind = FailureKind(_KINDS.get(ack.error.err_code, "refused"))
        return Failure(kind, f"{ack.error.description} (code {ack.error.err_code})")
    if not ack.stream:
        return Failure(FailureKind.REFUSED, "the answer names no stream")
    return Ack(ack.stream, ack.seq, ack.duplicate)
