"""Power, allocation and label of a window: explanation that never takes part in a verdict."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.heartbeat import heartbeat
from agent.observe import Latest, Reporter, fold
from agent.reading import GpuReading
from agent.record import Record
from agent.verdicts import RuleSettings, judge_sweep
from tests import build
from tests.agent.build_readings import GOOD_VIEW, compute, idle_gpu, sweep_of
from tests.agent.build_samples import NOON, closed, held, idle, process, sample, window
from tests.build import EPOCH
from wire.messages import Allocation, AllocationState, Verdict
from wire.reasons import Reason, ReasonCode

FREE = Allocation(AllocationState.FREE)
BLIND = Allocation(AllocationState.UNREADABLE, "no answer")
GIVEN = Allocation(AllocationState.ALLOCATED, "pod ml/a")
LATER = Allocation(AllocationState.ALLOCATED, "pod ml/b")


@pytest.mark.parametrize(
    ("milliwatts", "watts"),
    [((70_000, 90_000, None), 80.0), ((None, None, None), None), ((0, 0, 0), 0.0), ((33_333, 33_333, 33_400), 33.4)],
)
def test_the_power_of_a_window_is_the_mean_of_the_samples_that_read_it(
    milliwatts: tuple[int | None, ...], watts: float | None
) -> None:
    samples = [sample(replace(idle(), power_milliwatts=value)) for value in milliwatts]
    assert fold(closed(*samples))[0].power_mean_watts == watts


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((None, None), None),
        ((FREE, FREE), FREE),
        ((FREE, None), FREE),
        ((FREE, BLIND, FREE), BLIND),
        ((BLIND, GIVEN, FREE), GIVEN),
        ((GIVEN, LATER, FREE), LATER),
    ],
)
def test_a_window_is_allocated_when_any_of_its_samples_was(
    seen: tuple[Allocation | None, ...], expected: Allocation | None
) -> None:
    samples = [sample(replace(idle(), allocation=allocation)) for allocation in seen]
    (gpu,) = fold(closed(*samples, expected=len(samples)))
    assert (gpu.allocation, gpu.verdict) == (expected, Verdict.CANDIDATE)


@pytest.mark.parametrize(
    ("samples", "only_canary"),
    [
        ([(5, True), (0, False)], True),
        ([(5, True), (3, False)], False),
        ([(5, True), (None, False)], False),
        ([(5, True)], False),
        ([(0, True), (0, False)], False),
        ([(0, False)], False),
    ],
    ids=["ours alone", "somebody's too", "not read", "nothing else seen", "quiet", "no canary"],
)
def test_a_window_tells_whether_only_our_own_canary_kept_the_gpu_busy(
    samples: list[tuple[int | None, bool]], only_canary: bool
) -> None:
    taken = [sample(replace(held(), utilization_percent=busy, beside_canary=ours)) for busy, ours in samples]
    (gpu,) = fold(closed(*taken, expected=len(taken)))
    assert gpu.only_canary_busy is only_canary
    assert gpu.verdict is Verdict.HELD


@pytest.mark.parametrize("gpu", [idle_gpu(0), idle_gpu(0, compute=compute(7)), idle_gpu(0, mig_enabled=True)])
def test_power_has_no_part_in_a_verdict(gpu: GpuReading) -> None:
    def judged(milliwatts: int | None) -> Verdict:
        sweep = sweep_of(replace(gpu, power_milliwatts=milliwatts))
        return judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings()).gpus[0].verdict

    assert len({judged(None), judged(0), judged(700_000)}) == 1


def test_a_heartbeat_carries_the_allocation_and_leaves_out_where_a_process_lives() -> None:
    busy = held(
        0, processes=(process(7, user="alice", container="docker:0123", pod="ml/a", job="9"),), allocation=GIVEN
    )
    latest = Latest(sample(busy), 100.0)
    beat = heartbeat(
        Reporter("gpu-01", "0.1.0", "nvml"),
        window(),
        latest,
        spool_epoch=EPOCH,
        last_seq=1,
        now_seconds=101.0,
        sent_at=NOON,
    )
    assert beat.gpus[0].allocation == GIVEN
    assert beat.gpus[0].processes == [process(7, user="alice")]


def test_the_record_has_label_power_and_allocation_of_every_window(tmp_path: Path) -> None:
    gpu = build.gpu_window(
        Verdict.HELD,
        reasons=[Reason(ReasonCode.MEMORY_HELD, "4194304")],
        memory_max_bytes=4194304,
        processes=[],
        power_mean_watts=61.5,
        allocation=FREE,
    )
    Record(tmp_path, 10_000, 3).write(build.observation(gpus=[gpu, build.gpu_window(index=1)]))
    quiet, free = map(json.loads, (tmp_path / "windows.jsonl").read_text().splitlines())
    assert (quiet["label"], quiet["power_mean_watts"], quiet["allocation"]) == (
        "baseline_only",
        61.5,
        {"state": "free"},
    )
    assert "label" not in free
