"""Reports as bytes: golden files that are never edited, newer agents, bodies that are refused, and the size limit."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import build
from wire import messages, subjects
from wire.messages import (
    KEPT_PROCESSES,
    MAX_MESSAGE_BYTES,
    BadMessageError,
    GpuNow,
    GpuWindow,
    Heartbeat,
    Observation,
    Process,
    ProcessKind,
    Verdict,
    decode_heartbeat,
    decode_observation,
    encode,
    fit,
)
from wire.reasons import Reason, ReasonCode

GOLDEN = Path(__file__).parent / "golden"
NODE = "gpu-01"
AT = datetime(2026, 11, 30, 3, 5, 0, 250000, tzinfo=UTC)

OBSERVATION = Observation(
    version=1,
    node=NODE,
    boot_id=build.BOOT,
    spool_epoch=build.EPOCH,
    seq=42,
    window_number=1207,
    window_seconds=300.0,
    started_at=datetime(2026, 11, 30, 3, 0, tzinfo=UTC),
    closed_at=AT,
    agent_version="0.1.0",
    collector="nvml",
    gpus=[
        GpuWindow(0, build.gpu_uuid(0), Verdict.CANDIDATE, [Reason(ReasonCode.ALL_IDLE)], 30, 30, "NVIDIA L4", 0, 0),
        GpuWindow(
            index=1,
            uuid=build.gpu_uuid(1),
            verdict=Verdict.HELD,
            reasons=[Reason(ReasonCode.UTILIZATION, "97"), Reason(ReasonCode.COMPUTE_PROCESS, "4321")],
            samples=29,
            expected_samples=30,
            model="NVIDIA L4",
            utilization_max_percent=97,
            memory_max_bytes=4294967296,
            processes=[Process(4321, ProcessKind.GRAPHICS, 1024, AT, "alice", "python")],
            processes_cut=3,
        ),
        GpuWindow(2, build.gpu_uuid(2), Verdict.UNKNOWN, [Reason(ReasonCode.AGENT_RESTARTED)], 0, 30),
    ],
    errors=[Reason(ReasonCode.SAMPLE_ERROR, "no answer within 15 s")],
)
BOB = Process(4321, user="bob")
HEARTBEAT = Heartbeat(
    version=1,
    node=NODE,
    boot_id=build.BOOT,
    spool_epoch=build.EPOCH,
    last_seq=42,
    sent_at=AT,
    agent_version="0.1.0",
    window_seconds=300.0,
    gpus=[
        GpuNow(0, build.gpu_uuid(0), Verdict.CANDIDATE, [Reason(ReasonCode.ALL_IDLE)], 3.5, []),
        GpuNow(
            1,
            build.gpu_uuid(1),
            Verdict.HELD,
            [Reason(ReasonCode.MEMORY_HELD, "1024")],
            3.5,
            [Process(4321, user="bob")],
        ),
        GpuNow(2, build.gpu_uuid(2), Verdict.UNKNOWN, [Reason(ReasonCode.PROCESSES_UNREADABLE, "NO_PERMISSION")], 3.5),
    ],
    last_closed_window=1207,
    errors=[Reason(ReasonCode.GPU_MISSING, "GPU-x")],
)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes().rstrip(b"\n")


def changed(name: str, **changes: object) -> bytes:
    return json.dumps({**json.loads(golden(name)), **changes}).encode()


def test_an_observation_is_the_bytes_that_version_1_settled():
    assert encode(OBSERVATION) == golden("observation-1.json")
    assert decode_observation(subjects.observations(NODE), golden("observation-1.json")) == OBSERVATION


def test_a_heartbeat_is_the_bytes_that_version_1_settled():
    assert encode(HEARTBEAT) == golden("heartbeat-1.json")
    assert decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1.json")) == HEARTBEAT


def test_what_was_not_measured_is_none_and_stays_none():
    unread = decode_observation(subjects.observations(NODE), golden("observation-1.json")).gpus[2]
    assert (unread.utilization_max_percent, unread.memory_max_bytes) == (None, None)
    assert decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1.json")).gpus[2].processes is None
    assert decode_heartbeat(subjects.heartbeat(NODE), golden("heartbeat-1.json")).gpus[0].processes == []


def test_what_a_newer_agent_adds_is_ignored_and_words_that_are_new_are_unknown():
    gpu = {
        "index": 0,
        "uuid": build.gpu_uuid(0),
        "verdict": "lent",
        "reasons": [{"code": "borrowed", "detail": "by bob", "until": 5}],
        "samples": 30,
        "expected_samples": 30,
        "watts": 70,
        "processes": [{"pid": 7, "kind": "quantum", "nice": 3}],
    }
    body = changed("observation-1.json", version=9, gpus=[gpu], weather=[{"sky": "blue"}])
    seen = decode_observation(subjects.observations(NODE), body)
    assert seen.version == 9
    assert seen.gpus[0].verdict is Verdict.UNKNOWN
    assert seen.gpus[0].reasons == [Reason(ReasonCode.UNKNOWN, "by bob")]
    assert seen.gpus[0].processes == [Process(7, ProcessKind.UNKNOWN)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"\xff\xfe",
        b'{"node": "\xff"}',
        b"[" * 100_000,
        golden("heartbeat-1.json"),
        golden("observation-1.json")[:-1],
        changed("observation-1.json", window_number="7"),
        changed("observation-1.json", window_number=-1),
        changed("observation-1.json", window_number=2**63),
        changed("observation-1.json", window_seconds=0),
        changed("observation-1.json", closed_at="2026-11-30T03:05:00"),
        changed("observation-1.json", node="gpu-02"),
        changed("observation-1.json", node="gpu-01 "),
        changed("observation-1.json", gpus=[json.loads(encode(OBSERVATION))["gpus"][0]] * 2),
    ],
)
def test_a_body_that_is_no_observation_of_this_node_is_refused(body):
    with pytest.raises(BadMessageError):
        decode_observation(subjects.observations(NODE), body)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_raise_anything_but_a_bad_message(body):
    for decode in (decode_observation, decode_heartbeat):
        with pytest.raises(BadMessageError):
            decode(subjects.observations(NODE), body)


def crowd(gpus: int, processes: int, command: str = "python train.py --config", user: str = "alice") -> Observation:
    everybody = [Process(pid, user=user, command=command, started_at=AT) for pid in range(1000, 1000 + processes)]
    return build.observation(gpus=[build.gpu_window(Verdict.HELD, i, processes=everybody) for i in range(gpus)])


def test_a_report_that_fits_is_left_alone():
    assert fit(OBSERVATION) == OBSERVATION


def test_of_a_report_that_is_too_large_commands_go_first():
    report = crowd(8, 64, command="x" * 300)
    cut = fit(report)
    assert len(encode(report)) > MAX_MESSAGE_BYTES >= len(encode(cut))
    assert cut.gpus[0].processes[0] == replace(report.gpus[0].processes[0], command=None)
    assert all(len(gpu.processes) == 64 for gpu in cut.gpus)


def test_then_owners_go_and_then_processes_which_are_counted():
    without_owners = fit(crowd(8, 64, user="u" * 64))
    assert without_owners.gpus[0].processes[0].user is None
    assert without_owners.gpus[0].processes_cut == 0
    few = fit(crowd(16, 200))
    assert all(len(gpu.processes) == KEPT_PROCESSES for gpu in few.gpus)
    assert all(gpu.processes_cut == 200 - KEPT_PROCESSES for gpu in few.gpus)
    assert len(encode(few)) <= MAX_MESSAGE_BYTES


@pytest.mark.parametrize("report", [crowd(16, 200), crowd(8, 64), crowd(1, 0)], ids=["huge", "large", "small"])
def test_gpus_verdicts_reasons_and_maxima_are_never_cut(report):
    def kept(observation):
        return [replace(gpu, processes=[], processes_cut=0) for gpu in observation.gpus]

    assert kept(fit(report)) == kept(report)


def test_every_report_type_has_a_golden_file():
    assert {path.name for path in GOLDEN.iterdir()} >= {"observation-1.json", "heartbeat-1.json"}
    assert {msgspec.json.decode(path.read_bytes())["version"] for path in GOLDEN.iterdir()} == {messages.VERSION}
