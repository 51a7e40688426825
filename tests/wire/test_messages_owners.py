"""Who holds a GPU, and to whom a scheduler gave it: fields that newer agents send, and that are cut first."""

import json

import pytest
from msgspec.structs import replace

from tests import build
from tests.wire.test_messages import AT, GOLDEN, HEARTBEAT, NODE, OBSERVATION
from wire import subjects
from wire.messages import (
    MAX_MESSAGE_BYTES,
    Allocation,
    AllocationState,
    Observation,
    Process,
    Verdict,
    decode_heartbeat,
    decode_observation,
    encode,
    fit,
)

PROCESS = Process(
    4321, started_at=AT, user="alice", command="python", container="containerd:0123456789ab", pod="ml/train-0", job="77"
)
GIVEN = Allocation(AllocationState.ALLOCATED, "pod ml/train-0")


def with_owners(observation: Observation) -> Observation:
    first, second, third = observation.gpus
    return replace(
        observation,
        gpus=[
            replace(first, allocation=GIVEN, power_mean_watts=70.5),
            replace(second, processes=[PROCESS], allocation=Allocation(AllocationState.FREE)),
            replace(third, allocation=Allocation(AllocationState.UNREADABLE, "kubelet does not answer")),
        ],
    )


def test_owners_and_allocations_are_the_bytes_that_were_settled() -> None:
    golden = (GOLDEN / "observation-1-owners.json").read_bytes().rstrip(b"\n")
    assert encode(with_owners(OBSERVATION)) == golden
    assert decode_observation(subjects.observations(NODE), golden) == with_owners(OBSERVATION)


def test_a_heartbeat_with_allocations_is_the_bytes_that_were_settled() -> None:
    golden = (GOLDEN / "heartbeat-1-owners.json").read_bytes().rstrip(b"\n")
    first, *others = HEARTBEAT.gpus
    beat = replace(HEARTBEAT, gpus=[replace(first, allocation=GIVEN), *others])
    assert encode(beat) == golden
    assert decode_heartbeat(subjects.heartbeat(NODE), golden) == beat


def test_an_agent_from_before_says_nothing_of_allocation() -> None:
    assert [gpu.allocation for gpu in OBSERVATION.gpus] == [None] * 3


def test_a_state_of_allocation_that_this_version_does_not_know_allows_nothing() -> None:
    body = json.loads(encode(with_owners(OBSERVATION)))
    body["gpus"][1]["allocation"]["state"] = "lent"
    seen = decode_observation(subjects.observations(NODE), json.dumps(body).encode())
    assert seen.gpus[1].allocation == Allocation(AllocationState.UNREADABLE)


@pytest.mark.parametrize("processes", [48, 64])
def test_containers_pods_and_jobs_go_before_commands_and_users(processes: int) -> None:
    everybody = [replace(PROCESS, pid=pid) for pid in range(1000, 1000 + processes)]
    report = build.observation(
        gpus=[build.gpu_window(Verdict.HELD, index, processes=everybody, allocation=GIVEN) for index in range(8)]
    )
    assert len(encode(report)) > MAX_MESSAGE_BYTES
    cut = fit(report)
    assert len(encode(cut)) <= MAX_MESSAGE_BYTES
    kept = cut.gpus[0].processes[0]
    assert (kept.container, kept.pod, kept.job) == (None, None, None)
    assert (kept.command, kept.user) == ("python", "alice")
    assert all(gpu.allocation == GIVEN for gpu in cut.gpus)
