"""Orders as bytes: golden files that are never edited, signatures over exact bytes, and all that is refused."""

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import BOOT
from tests.build_orders import ISSUED, KEY, OTHER_KEY, facts, order
from tests.wire.test_messages import HEARTBEAT, NODE
from wire import subjects
from wire.messages import GpuNow, Process, Verdict, decode_heartbeat, encode
from wire.orders import (
    LONGEST_ORDER,
    MOST_PROCESSES,
    AcceptedProcess,
    Action,
    BadOrderError,
    OrderVerdict,
    UnknownVersionError,
    decode_order,
    opened,
    sign_order,
)
from wire.remedies import (
    Answer,
    AutoRemedy,
    BadAnswerError,
    JournalEntry,
    NodeRemedies,
    OrderState,
    Refusal,
    decode_answer,
    encode_answer,
)

CASES = Path(__file__).parents[1] / "cases/orders"
PUBLIC = bytes(KEY.verify_key)
REBOOT = order(
    Action.REBOOT_NODE,
    verdict=OrderVerdict.NONE,
    runner=None,
    incident_id=0,
    processes=[],
    anything_may_run=True,
    accepted_blockers=["processes_unreadable"],
    approvers=["U0123", "host:root"],
)
BY_POLICY = order(approvers=[], policy="bot.groups.0.auto_remedy: restart", reason="")
ORDERS = {"order-1-restart.json": order(), "order-1-reboot.json": REBOOT, "order-1-policy.json": BY_POLICY}
ANSWERS = {
    "answer-1-accepted.json": Answer(1, NODE, order().order_id, accepted=True),
    "answer-1-refused.json": Answer(1, NODE, order().order_id, False, Refusal.EXPIRED, "it ended 3 s ago"),
}
REMEDIES = NodeRemedies(
    order_versions=[1],
    challenge=order().challenge,
    highest_fence=7,
    journal=[
        JournalEntry(
            order().order_id,
            Action.RESTART_RUNNER,
            OrderState.REFUSED,
            ISSUED,
            BOOT,
            "chat",
            Refusal.RECOVERED,
            "a canary was answered: nothing was done",
        ),
        JournalEntry("a1", Action.REBOOT_NODE, OrderState.ACTING, ISSUED, BOOT),
    ],
    restart_runner={"chat": "systemd unit vllm.service"},
    reboot_node="systemd",
    auto_remedy=AutoRemedy.RESTART,
    policy_line="agent.remedies.auto_remedy: restart",
)


def golden(name: str) -> bytes:
    return (CASES / name).read_bytes().rstrip(b"\n")


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(golden("order-1-restart.json")), **changes}).encode()


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_is_the_bytes_that_version_1_settled(name: str) -> None:
    assert msgspec.json.encode(ORDERS[name]) == golden(name)
    assert decode_order(golden(name)) == ORDERS[name]


def test_a_signed_order_is_the_bytes_that_version_1_settled() -> None:
    assert sign_order(KEY, order()).hex() == golden("order-1-restart.signed.hex").decode()


def test_what_was_signed_is_opened_with_any_of_the_keys_and_says_the_same() -> None:
    message = sign_order(KEY, order())
    body = opened([bytes(OTHER_KEY.verify_key), PUBLIC], message)
    assert body is not None
    assert decode_order(body) == order()


def test_no_key_and_another_key_open_nothing() -> None:
    message = sign_order(KEY, order())
    assert opened([], message) is None
    assert opened([bytes(OTHER_KEY.verify_key)], message) is None
    assert opened([b"short"], message) is None


@given(st.data())
def test_a_single_changed_byte_opens_nothing(data: st.DataObject) -> None:
    message = bytearray(sign_order(KEY, order()))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    assert opened([PUBLIC], bytes(message)) is None


@given(st.binary(max_size=300))
def test_no_bytes_at_all_are_opened_or_read_as_an_order(body: bytes) -> None:
    assert opened([PUBLIC], body) is None
    with pytest.raises(BadOrderError):
        decode_order(body)


def test_bytes_that_the_key_signed_for_something_else_open_nothing() -> None:
    """The prefix: a signature over a message of another kind must never make an order."""
    body = msgspec.json.encode(order())
    assert opened([PUBLIC], KEY.sign(body).signature + body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "cannot be read"),
        (b"[" * 40_000, "cannot be read"),
        (b" " * (LONGEST_ORDER + 1), "at most"),
        (golden("order-1-restart.json")[:-1], "cannot be read"),
        (changed(version=2, weather="blue"), "version 2"),
        (changed(weather="blue"), "weather"),
        (changed(action="drain_node"), "not known here"),
        (changed(verdict="sleepy"), "not known here"),
        (changed(verdict="working"), "not known here"),
        (changed(runner=None), "names no runner"),
        (changed(runner={**json.loads(msgspec.json.encode(facts())), "signal_class": "D"}), "class of runners"),
        (changed(runner={**json.loads(msgspec.json.encode(facts())), "mood": "bad"}), "mood"),
        (changed(node="gpu.01"), "names no node"),
        (changed(approvers=[]), "neither an approver nor a policy"),
        (changed(policy="bot.groups.0.auto_remedy: restart"), "or both"),
        (changed(expires="2026-11-30T03:08:01Z"), "longer than 180 s"),
        (changed(expires="2026-11-30T03:05:00Z"), "not at all"),
        (changed(issued="2026-11-30T03:05:00"), "cannot be read"),
        (changed(fence=-1), "cannot be read"),
        (changed(processes=[{"pid": 7, "started": ""}]), "cannot be read"),
        (changed(processes=[{"pid": 7, "started": "1"}] * (MOST_PROCESSES + 1)), "cannot be read"),
    ],
)
def test_an_order_that_is_not_known_in_full_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(BadOrderError, match=why):
        decode_order(body)


def test_an_order_of_another_version_is_refused_as_that() -> None:
    with pytest.raises(UnknownVersionError):
        decode_order(changed(version=2))


def test_an_order_that_no_node_would_take_is_not_signed() -> None:
    with pytest.raises(BadOrderError):
        sign_order(KEY, order(expires=ISSUED + timedelta(hours=1)))


def test_the_largest_order_that_is_allowed_fits() -> None:
    processes = [AcceptedProcess(4_194_304 - number, "9" * 12) for number in range(MOST_PROCESSES)]
    assert len(sign_order(KEY, order(processes=processes))) <= LONGEST_ORDER


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_the_bytes_that_were_settled(name: str) -> None:
    assert encode_answer(ANSWERS[name]) == golden(name)
    assert decode_answer(NODE, golden(name)) == ANSWERS[name]


def test_a_refusal_that_this_version_does_not_know_is_still_a_refusal() -> None:
    body = json.loads(golden("answer-1-refused.json")) | {"refusal": "wrong_moon", "phase": 3}
    assert decode_answer(NODE, json.dumps(body).encode()).refusal is Refusal.UNKNOWN


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", golden("answer-1-refused.json").replace(b"gpu-01", b"gpu-02")])
def test_an_answer_that_is_none_of_this_node_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswerError):
        decode_answer(NODE, body)


def test_a_heartbeat_with_remedies_is_the_bytes_that_were_settled() -> None:
    first = GpuNow(0, HEARTBEAT.gpus[0].uuid, Verdict.HELD, [], 3.5, [Process(4321, started="77")], processes_cut=2)
    beat = msgspec.structs.replace(HEARTBEAT, gpus=[first], remedies=REMEDIES)
    assert encode(beat) == golden("heartbeat-1-remedies.json")
    assert decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1-remedies.json")) == beat


def test_a_node_from_before_offers_no_remedy() -> None:
    assert HEARTBEAT.remedies is None


def test_words_of_a_newer_node_are_unknown_and_allow_nothing() -> None:
    body = json.loads(golden("heartbeat-1-remedies.json"))
    body["remedies"] |= {"auto_remedy": "everything", "mood": 3}
    body["remedies"]["journal"][0] |= {"state": "dreaming", "action": "drain_node", "refusal": "wrong_moon"}
    remedies = decode_heartbeat(subjects.heartbeat(NODE), json.dumps(body).encode()).remedies
    assert remedies is not None
    assert remedies.auto_remedy is AutoRemedy.UNKNOWN
    entry = remedies.journal[0]
    assert (entry.state, entry.action, entry.refusal) == (OrderState.UNKNOWN, Action.UNKNOWN, Refusal.UNKNOWN)
