"""A heartbeat says the node's time since boot at its sending, and where its sample comes from: newer agents' fields."""

from msgspec.structs import replace

from tests.wire.test_messages import GOLDEN, HEARTBEAT, NODE, golden
from wire import subjects
from wire.messages import decode_heartbeat, encode


def test_a_heartbeat_with_the_time_since_boot_is_the_bytes_that_were_settled() -> None:
    body = (GOLDEN / "heartbeat-1-uptime.json").read_bytes().rstrip(b"\n")
    beat = replace(HEARTBEAT, uptime_seconds=86400.25)
    assert encode(beat) == body
    assert decode_heartbeat(subjects.heartbeat(NODE), body) == beat


def test_a_heartbeat_with_its_collector_is_the_bytes_that_were_settled() -> None:
    body = (GOLDEN / "heartbeat-1-collector.json").read_bytes().rstrip(b"\n")
    beat = replace(HEARTBEAT, uptime_seconds=86400.25, collector="nvidia-smi")
    assert encode(beat) == body
    assert decode_heartbeat(subjects.heartbeat(NODE), body) == beat


def test_an_agent_from_before_tells_neither() -> None:
    beat = decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1.json"))
    assert (beat.uptime_seconds, beat.collector) == (None, "")
