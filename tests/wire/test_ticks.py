"""Ticks as bytes: a golden file that is never edited, newer nodes, and values that are refused."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests import build
from wire import subjects
from wire.messages import BadMessageError, decode_heartbeat, encode
from wire.ticks import (
    LONGEST_SENTENCE,
    ApiState,
    CanaryOutcome,
    ProcessState,
    RunnerState,
    SignalClass,
    Tick,
    Witness,
    WitnessKind,
    sentence,
)

GOLDEN = Path(__file__).parents[1] / "cases/ticks/tick-1.json"
FULL = Tick(
    runner="chat",
    preset="vllm",
    signal_class=SignalClass.A,
    at_seconds=123456.7,
    taken_at=datetime(2026, 11, 30, 3, 5, tzinfo=UTC),
    tick_seconds=30.0,
    age_seconds=4.0,
    epoch="b0000000/4321-77/1796400123.45",
    api=ApiState.OK,
    api_milliseconds=4.1,
    process=ProcessState.ALIVE,
    pid=4321,
    process_started="77",
    completed=820.0,
    progress={"generation_tokens": 412000.0, "kv_cache": 0.25, "prompt_tokens": 1200000.0},
    own_demand=0.0,
    state=RunnerState.READY,
    load=123456789.0,
    gpu_utilization_percent=100,
    gpu_power_watts=98.5,
    witnesses=[Witness(WitnessKind.XID, 12.0, "Xid (PCI:0000:3b:00): 79")],
    missing=["/metrics: no answer within 5 s"],
    canary=CanaryOutcome.TIMEOUT,
    canary_seconds_ago=20.0,
    canary_detail="no answer within 75 s",
    canary_outstanding_seconds=12.0,
    waiting_seconds=1020.0,
    no_progress_seconds=1020.0,
    unserved_seconds=1020.0,
    no_completion_seconds=1020.0,
    last_moved_seconds=1320.0,
    ticks=34,
    canary_timeouts=7,
    witness_ticks=3,
    gpu_highest_percent=100,
    power_lowest_watts=97.0,
    gap_p99_seconds=60.0,
    gaps=200,
    usual_per_hour=120.0,
)


def test_a_tick_reads_as_it_always_did():
    assert msgspec.json.decode(GOLDEN.read_bytes(), type=Tick) == FULL
    assert json.loads(msgspec.json.encode(FULL)) == json.loads(GOLDEN.read_bytes())


def test_short_names_are_distinct_and_the_golden_file_has_no_other():
    names = [info.encode_name for info in msgspec.structs.fields(Tick)]
    assert len(names) == len(set(names))
    assert set(json.loads(GOLDEN.read_bytes())) <= set(names)


def test_words_that_are_new_are_unknown_and_fields_that_are_new_are_ignored():
    newer = {
        **json.loads(msgspec.json.encode(FULL)),
        "sig_class": "Z",
        "api": "teapot",
        "state": "dreaming",
        "can": "sang",
        "proc": "cloned",
        "wits": [{"kind": "ghost", "weight": 3}],
        "weather": "fine",
    }
    seen = msgspec.json.decode(json.dumps(newer).encode(), type=Tick)
    words = (seen.signal_class, seen.api, seen.state, seen.canary, seen.process, seen.witnesses[0].kind)
    assert {word.value for word in words} == {"unknown"}


@pytest.mark.parametrize(
    "change",
    [
        {"run": "Chat; drop"},
        {"no_prog_s": -1},
        {"compl": 1e300},
        {"prog": {str(number): 1 for number in range(11)}},
        {"can_why": "x" * 201},
        {"taken_at": "2026-11-30T03:05:00"},
        {"api": 3},
        {"gaps": -1},
    ],
    ids=str,
)
def test_a_tick_out_of_bounds_is_refused(change):
    body = json.dumps({**json.loads(msgspec.json.encode(FULL)), **change}).encode()
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=Tick)


def test_a_heartbeat_that_names_a_runner_twice_is_refused():
    beat = build.heartbeat(1000, runners=[FULL, FULL])
    with pytest.raises(BadMessageError, match="runner twice"):
        decode_heartbeat(subjects.heartbeat("gpu-01"), encode(beat))


def test_foreign_text_is_cut_and_has_no_control_characters():
    assert sentence("a\nb\x1b[31m") == "a b [31m"
    assert len(sentence("x" * 1000)) == LONGEST_SENTENCE
