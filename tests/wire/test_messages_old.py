"""Older and newer programs understand each other's messages: what they share means the same to both."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from tests.build import START, heartbeat, observation
from tests.build_ticks import hung
from tests.old import golden
from tests.old.version_057697a import messages as old
from wire import subjects
from wire.messages import (
    Allocation,
    AllocationState,
    Process,
    ProcessKind,
    Verdict,
    decode_heartbeat,
    decode_observation,
    encode,
)
from wire.orders import Action
from wire.remedies import JournalEntry, NodeRemedies, OrderState

C, H, U = Verdict.CANDIDATE, Verdict.HELD, Verdict.UNKNOWN
NODE = "gpu-01"
REPORTS = [
    (version, file.stem) for version in golden.VERSIONS for file in sorted((golden.CASES / version).glob("*.json"))
]


@pytest.mark.parametrize(("version", "name"), REPORTS)
def test_a_report_of_an_older_agent_is_read_with_everything_that_it_says(version, name):
    said = golden.golden(version, name)
    body = json.dumps(said).encode()
    node = said["node"]
    if name.startswith("observation"):
        read = decode_observation(subjects.observations(node), body)
    else:
        read = decode_heartbeat(subjects.heartbeat(node), body)
    assert_holds(msgspec.to_builtins(read), said)


def assert_holds(read, said):
    """Every value that was said is there; what is new has its default."""
    if isinstance(said, dict):
        for name, value in said.items():
            assert_holds(read.get(name, _DEFAULTS.get(name)), value)
    elif isinstance(said, list):
        assert len(read) == len(said)
        for one, value in zip(read, said, strict=True):
            assert_holds(one, value)
    else:
        assert read == said or str(said).endswith("Z")


_DEFAULTS = {"age_s": 0.0}


def newest_observation():
    """With every field that there is."""
    place = {"container": "docker:0123", "pod": "ml/train-0", "job": "77"}
    process = Process(4321, ProcessKind.GRAPHICS, 1024, START, "alice", "python", **place)
    one = observation(verdicts=(C, H, U), ticks=[hung(5)])
    gpus = [
        replace(gpu, processes=[process], power_mean_watts=70.5, allocation=Allocation(AllocationState.FREE, "x"))
        for gpu in one.gpus
    ]
    return replace(one, gpus=gpus)


def newest_heartbeat():
    remedies = NodeRemedies(
        order_versions=[1, 2],
        challenge="c" * 32,
        highest_fence=3,
        journal=[JournalEntry("0123456789abcdef", Action.REBOOT_NODE, OrderState.DONE, START, "b0")],
        restart_runner={"chat": "systemd unit vllm.service"},
        reboot_node="systemctl reboot",
    )
    return replace(
        heartbeat(1003, (C, H)),
        runners=[hung(5)],
        remedies=remedies,
        order_key="0123456789abcdef",
        uptime_seconds=60.5,
        collector="nvml",
    )


def test_a_report_of_a_newer_agent_is_read_by_an_older_bot_as_it_is_meant():
    sent = newest_observation()
    read = old.decode_observation(subjects.observations(NODE), encode(sent))
    assert [str(gpu.verdict) for gpu in read.gpus] == [str(gpu.verdict) for gpu in sent.gpus]
    assert (read.window_number, read.seq, read.window_seconds) == (sent.window_number, sent.seq, sent.window_seconds)
    assert [tick.no_progress_seconds for tick in read.ticks] == [tick.no_progress_seconds for tick in sent.ticks]
    assert_holds(msgspec.to_builtins(sent), msgspec.to_builtins(read))


def test_a_heartbeat_of_a_newer_agent_is_read_by_an_older_bot_as_it_is_meant():
    sent = newest_heartbeat()
    read = old.decode_heartbeat(subjects.heartbeat(NODE), encode(sent))
    assert [str(gpu.verdict) for gpu in read.gpus] == [str(gpu.verdict) for gpu in sent.gpus]
    assert_holds(msgspec.to_builtins(sent), msgspec.to_builtins(read))


NEWER_WORDS = {
    b'"verdict":"candidate"': b'"verdict":"surely_free"',
    b'"code":"all_idle"': b'"code":"idle_in_a_new_way"',
    b'"state":"free"': b'"state":"lent"',
    b'"kind":"graphics"': b'"kind":"video"',
}


def test_a_word_that_only_a_newer_agent_knows_allows_nothing():
    body = encode(newest_observation())
    for known, newer in NEWER_WORDS.items():
        assert known in body
        body = body.replace(known, newer)
    for decode in (decode_observation, old.decode_observation):
        read = decode(subjects.observations(NODE), body)
        assert "candidate" not in {str(gpu.verdict) for gpu in read.gpus}
        assert {str(gpu.allocation.state) for gpu in read.gpus} == {"unreadable"}


def test_an_older_heartbeat_announces_no_version_of_orders_and_no_key():
    """So that nothing is ordered of it, and no key is told to it."""
    read = decode_heartbeat(
        subjects.heartbeat(NODE), json.dumps(golden.golden(golden.VERSIONS[0], "heartbeat-idle")).encode()
    )
    assert (read.remedies, read.order_key) == (None, "")
