"""No message breaks what reads it: it is a value with a meaning, or a refusal with a reason. FUZZ_RUNS sets the size.

What a run found stands in tests/cases/messages; the reports go through the whole of ingest in tests/bot.
"""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from nacl.signing import SigningKey

from tests.build import BOOT, EPOCH, START
from tests.mutate import broken, mutated
from wire import nkey, subjects
from wire.enrolment import BadJoinError, BadTokenError, Token, decode_join, decode_token, encode_token, join_message
from wire.keychange import BadKeyChangeError, decode_key_change, key_change
from wire.orders import (
    AcceptedProcess,
    Action,
    BadOrderError,
    Order,
    OrderVerdict,
    RunnerFacts,
    decode_order,
    opened,
    sign_order,
)
from wire.remedies import Answer, BadAnswerError, Refusal, decode_answer, encode_answer
from wire.ticks import SignalClass

RUNS = int(os.environ.get("FUZZ_RUNS", "6000"))
SEED = int(os.environ.get("FUZZ_SEED", "20261130"))
NODE = "gpu-01"
CASES = Path(__file__).parents[1] / "cases/messages"
KEY, NEXT, STRANGER = (SigningKey(name * 32) for name in (b"k", b"n", b"s"))
JOIN = Token(
    NODE, ["tls://127.0.0.1:4222"], b"", bytes(32), "SUAKYRHVIOREXV7EUZTBHUHL7NUMHPMAS7QMDU3GTIUWEI5LDNOXD43IZY"
)
ORDER = Order(
    version=1,
    order_id="0123456789abcdef",
    action=Action.RESTART_RUNNER,
    node=NODE,
    boot_id=BOOT,
    spool_epoch=EPOCH,
    challenge="c" * 32,
    fence=7,
    incident_id=12,
    verdict=OrderVerdict.STALLED,
    issued=START,
    expires=START + timedelta(seconds=180),
    runner=RunnerFacts("chat", SignalClass.A, "b0000000/4321-77", 4321, "77", 820.0, {"generation_tokens": 412000.0}),
    processes=[AcceptedProcess(4321, "77"), AcceptedProcess(4400, "1234")],
    accepted_blockers=["gpu_working"],
    approvers=["U0ALICE", "host:root"],
    reason="hangs since midnight",
)
ANSWER = Answer(1, NODE, "0123456789abcdef", False, Refusal.RECOVERED, "recovered meanwhile, nothing done")


class Read(NamedTuple):
    """A message and who reads it: `read` raises `refusal` and nothing else."""

    body: bytes
    read: Callable[[bytes], object]
    refusal: type[Exception]


READS = {
    "order": Read(msgspec.json.encode(ORDER), decode_order, BadOrderError),
    "answer": Read(encode_answer(ANSWER), lambda body: decode_answer(NODE, body), BadAnswerError),
    "join": Read(
        join_message(JOIN, nkey.public_key(nkey.generate_seed())),
        lambda body: decode_join(subjects.join(NODE), body),
        BadJoinError,
    ),
    "keychange": Read(key_change(KEY, bytes(NEXT.verify_key)), decode_key_change, BadKeyChangeError),
}


def outcome(read: Read, body: bytes) -> object | None:
    """What it was read as; None for a refusal, which must say something and be a sentence of ours."""
    try:
        return read.read(body)
    except read.refusal as error:
        if not 0 < len(str(error)) < 1000:
            raise AssertionError("a refusal without a sentence") from error
        return None


@pytest.mark.fuzz
@pytest.mark.parametrize("name", READS)
def test_a_mutated_message_is_read_or_refused_in_words(name: str) -> None:
    read = READS[name]
    whole = read.read(read.body)
    readable = 0
    for run in range(SEED, SEED + RUNS):
        rng = random.Random(run)
        body = mutated(read.body, rng)
        try:
            found = outcome(read, body)
        except Exception as error:
            raise AssertionError(f"{name}, seed {run}: {body[:500]!r}") from error
        readable += found is not None
        if name in ("join", "keychange") and found is not None:
            assert found == whole, f"{name}, seed {run}: a signed message with another meaning: {body!r}"
    print(f"{name}: {RUNS} mutated messages, {readable} of them read")


@pytest.mark.fuzz
def test_no_mutated_order_is_opened_with_a_key_that_did_not_sign_these_bytes() -> None:
    """A signature over the exact bytes: no other bytes are even looked at."""
    keys, message = [bytes(KEY.verify_key), bytes(NEXT.verify_key)], sign_order(KEY, ORDER)
    body = opened(keys, message)
    assert body is not None
    assert decode_order(body) == ORDER
    for run in range(SEED, SEED + RUNS // 2):
        rng = random.Random(run)
        changed = broken(message, rng) if rng.random() < 0.5 else message[:64] + mutated(body, rng)
        if changed != message:
            assert opened(keys, changed) is None, f"seed {run}: {changed!r}"
        assert opened([bytes(STRANGER.verify_key)], changed) is None


@pytest.mark.fuzz
def test_a_mutated_token_is_read_or_refused_and_never_shown() -> None:
    whole = encode_token(JOIN)
    for run in range(SEED, SEED + RUNS):
        rng = random.Random(run)
        text = broken(whole.encode(), rng).decode(errors="replace")
        try:
            decode_token(text)
        except BadTokenError as error:
            shown = str(error)
        else:
            shown = ""
        assert whole[20:40] not in shown, f"seed {run}"
        assert JOIN.join_seed not in shown, f"seed {run}"


@pytest.mark.parametrize(
    "file", sorted(file for name in READS for file in CASES.glob(f"{name}-*")), ids=lambda file: file.stem
)
def test_a_message_that_a_run_found_is_refused_in_words(file: Path) -> None:
    assert outcome(READS[file.name.split("-")[0]], file.read_bytes()) is None


def test_a_signed_order_is_read_as_it_was_meant() -> None:
    """Otherwise the runs above could not fail."""
    for read in READS.values():
        assert outcome(read, read.body) is not None
    assert outcome(READS["order"], b"{}") is None
