"""What a simulated node sends: real messages, made once and filled in, so that sending costs the simulator little."""

import itertools
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from tests.build import EPOCH, heartbeat, observation
from wire import subjects
from wire.messages import Verdict, encode

GPUS = 8
FIRST_WINDOW = 1000
IDLE, BUSY = [Verdict.CANDIDATE] * GPUS, [Verdict.HELD] * GPUS
_NODE, _NUMBER, _SEQ = "scale-node-mark", 98_765, 87_654  # found nowhere else in the messages
_AT = datetime(2099, 1, 1, tzinfo=UTC)


class _Form:
    """Encoded bytes with holes, in the order in which they stand there."""

    def __init__(self, body: bytes, marks: Sequence[bytes]) -> None:
        self._parts, self._marks = [body], [b""]
        for mark in marks:
            pieces = [part.split(mark) for part in self._parts]
            marks_after = [
                [mark] * (len(piece) - 1) + [after] for piece, after in zip(pieces, self._marks, strict=True)
            ]
            self._parts = list(itertools.chain.from_iterable(pieces))
            self._marks = list(itertools.chain.from_iterable(marks_after))

    def filled(self, values: dict[bytes, bytes]) -> bytes:
        pairs = zip(self._parts, self._marks, strict=True)
        return b"".join(part + (values[mark] if mark else b"") for part, mark in pairs)


_MARKS = (_NODE.encode(), str(_NUMBER).encode(), str(_SEQ).encode(), b"2099-01-01T00:00:00Z")


def _forms(verdicts: Sequence[Verdict]) -> tuple[_Form, _Form]:
    window = observation(_NUMBER, verdicts, node=_NODE, seq=_SEQ, started_at=_AT, closed_at=_AT)
    beat = heartbeat(_NUMBER, verdicts, node=_NODE, last_seq=_SEQ, sent_at=_AT)
    return _Form(encode(window), _MARKS), _Form(encode(beat), _MARKS)


_FORMS = {True: _forms(IDLE), False: _forms(BUSY)}


def window_body(node: str, seq: int, *, idle: bool, ahead_seconds: float = 0.0) -> bytes:
    """The seq-th window of the node; `seq` counts from 1. Its clock may be ahead of ours."""
    return _FORMS[idle][0].filled(_values(node, seq, ahead_seconds))


def beat_body(node: str, last_seq: int, *, idle: bool, ahead_seconds: float = 0.0) -> bytes:
    """A heartbeat of a node that has closed so many windows."""
    return _FORMS[idle][1].filled(_values(node, last_seq, ahead_seconds))


def message_id(node: str, seq: int) -> str:
    return subjects.message_id(node, EPOCH, seq)


def _values(node: str, seq: int, ahead_seconds: float) -> dict[bytes, bytes]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + ahead_seconds)).encode()
    filling = (node.encode(), str(FIRST_WINDOW + seq - 1).encode(), str(seq).encode(), now)
    return dict(zip(_MARKS, filling, strict=True))
