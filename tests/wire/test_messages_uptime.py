"""A heartbeat says the node's time since boot at its sending: what a newer agent sends, in bytes that are settled."""

from msgspec.structs import replace

from tests.wire.test_messages import GOLDEN, HEARTBEAT, NODE, golden
from wire import subjects
from wire.messages import decode_heartbeat, encode


def test_a_heartbeat_with_the_time_since_boot_is_the_bytes_that_were_settled() -> None:
    body = (GOLDEN / "heartbeat-1-uptime.json").read_bytes().rstrip(b"\n")
    beat = replace(HEARTBEAT, uptime_seconds=86400.25)
    assert encode(beat) == body
    assert decode_heartbeat(subjects.heartbeat(NODE), body) == beat


def test_an_agent_from_before_does_not_tell_it() -> None:
    assert decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1.json")).uptime_seconds is None
