"""Allocation of every GPU, whatever schedulers run on the node, and never a part of the verdict."""

import asyncio
import logging
import os
import threading
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from agent.allocation import host
from agent.allocation.allocations import Allocations, allocations_of
from agent.allocation.given import Given, NodeGpus, allocations
from agent.allocation.kubelet import Kubelet
from agent.collectors.replay import FixtureCollector, ReplayCollector
from agent.config import AgentConfig, Schedulers
from agent.read_sample import take_sample
from agent.reading import ProcessView, Sweep
from agent.verdicts import RuleSettings, Sample
from tests.agent.build_readings import compute, idle_gpu, sweep_of, uuid_of
from tests.agent.command import write_recording
from tests.fake_kubelet import FakeKubelet, device, pod
from wire.messages import Allocation, AllocationState, Verdict

FREE = Allocation(AllocationState.FREE)
UUIDS = (uuid_of(0), uuid_of(1))


def allocated(detail: str) -> Allocation:
    return Allocation(AllocationState.ALLOCATED, detail)


def unreadable(detail: str) -> Allocation:
    return Allocation(AllocationState.UNREADABLE, detail)


TABLE: list[tuple[list[Given], dict[str, Allocation]]] = [
    ([], {}),
    ([Given()], {UUIDS[0]: FREE, UUIDS[1]: FREE}),
    ([Given({UUIDS[0]: "pod a"})], {UUIDS[0]: allocated("pod a"), UUIDS[1]: FREE}),
    ([Given({UUIDS[0]: "pod a"}, "x")], {UUIDS[0]: allocated("pod a"), UUIDS[1]: unreadable("x")}),
    ([Given({UUIDS[0]: "a"}), Given(error="x")], {UUIDS[0]: allocated("a"), UUIDS[1]: unreadable("x")}),
    ([Given({UUIDS[0]: "a"}), Given({UUIDS[0]: "b"})], {UUIDS[0]: allocated("a, b"), UUIDS[1]: FREE}),
    ([Given(error="x"), Given(error="y")], {UUIDS[0]: unreadable("x; y"), UUIDS[1]: unreadable("x; y")}),
]


@pytest.mark.parametrize(("given", "expected"), TABLE)
def test_a_gpu_is_free_only_when_every_scheduler_says_so(given: list[Given], expected: dict[str, Allocation]) -> None:
    assert allocations(UUIDS, given) == expected


class Scheduler:
    """Says what it is told to; waits for `go` where it is given."""

    name = "test"

    def __init__(self, *answers: Given | None, go: threading.Event | None = None) -> None:
        self.answers, self.go, self.asked = list(answers), go, 0

    def read(self, gpus: NodeGpus, daemons: frozenset[str]) -> Given | None:
        self.asked += 1
        if self.go is not None:
            self.go.wait(20)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Live:
    """A collector of readings that are of now."""

    name = "live"

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    async def sweep(self) -> Sweep:
        return self._sweep

    async def let_go(self) -> str | None:
        return None

    async def close(self) -> None:
        """Nothing is held open."""


async def sampled(sweep: Sweep, *answers: Given | None) -> Sample:
    return await take_sample(
        Live(sweep), None, RuleSettings(), allocations=Allocations([Scheduler(*answers)]), read_view=good_view
    )


def good_view(_pids: Iterable[int]) -> ProcessView:
    return ProcessView()


SWEEP = sweep_of(idle_gpu(0), idle_gpu(1, compute=compute(7)))


@pytest.mark.parametrize("given", [None, Given(), Given(error="x"), Given({uuid_of(0): "pod a", uuid_of(1): "pod a"})])
async def test_allocation_never_changes_a_verdict(given: Given | None) -> None:
    sample = await sampled(SWEEP, given)
    assert [gpu.verdict for gpu in sample.gpus] == [Verdict.CANDIDATE, Verdict.HELD]
    assert [len(gpu.reasons) for gpu in sample.gpus] == [1, 1]


async def test_every_gpu_of_a_sample_has_its_allocation_with_or_without_a_process() -> None:
    sample = await sampled(SWEEP, Given({uuid_of(0): "pod ml/a"}))
    assert [gpu.allocation for gpu in sample.gpus] == [allocated("pod ml/a"), FREE]


async def test_where_nothing_allocates_there_is_no_allocation() -> None:
    assert [gpu.allocation for gpu in (await sampled(SWEEP, None)).gpus] == [None, None]


async def test_a_recording_is_not_asked_about(tmp_path: Path) -> None:
    scheduler = Scheduler(Given({uuid_of(0): "pod a"}))
    for collector in (ReplayCollector(write_recording(tmp_path, SWEEP)), FixtureCollector()):
        sample = await take_sample(collector, None, RuleSettings(), allocations=Allocations([scheduler]))
        assert all(gpu.allocation is None for gpu in sample.gpus)
    assert scheduler.asked == 0


async def test_a_scheduler_that_does_not_answer_holds_nothing_up_and_is_never_asked_twice_at_once() -> None:
    go = threading.Event()
    scheduler = Scheduler(Given(), go=go)
    asking = Allocations([scheduler], timedelta(seconds=0.1))
    async with asyncio.timeout(20):  # it would not answer before `go`
        first, second = await asking.read({uuid_of(0): 0}), await asking.read({uuid_of(0): 0})
    assert first == {uuid_of(0): unreadable("the node's scheduler did not answer within 0.1 s")}
    assert "not answered yet" in second[uuid_of(0)].detail
    assert scheduler.asked == 1
    go.set()
    async with asyncio.timeout(20):
        while (await asking.read({uuid_of(0): 0}))[uuid_of(0)] != FREE:
            await asyncio.sleep(0.01)


async def test_what_cannot_be_read_is_told_once_and_again_when_it_can(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    asking = Allocations([Scheduler(Given(error="x"), Given(error="x"), Given(), Given())])
    for _ in range(4):
        await asking.read({uuid_of(0): 0})
    messages = [record.message for record in caplog.records if "llocation" in record.message]
    assert messages == [
        "GPUs that are idle are not called free, their allocation cannot be read: x",
        "allocation can be read again",
    ]


async def test_a_bug_in_a_scheduler_is_no_free_gpu() -> None:
    class Broken:
        name = "broken"

        def read(self, gpus: NodeGpus, daemons: frozenset[str]) -> Given | None:
            raise KeyError("pods")

    (found,) = (await Allocations([Broken()]).read({uuid_of(0): 0})).values()
    assert found.state is AllocationState.UNREADABLE


async def test_the_whole_way_from_a_kubelets_socket_to_a_sample(tmp_path: Path) -> None:
    config = AgentConfig(schedulers=Schedulers(kubelet_socket=tmp_path / "kubelet.sock"))
    asking = allocations_of(config)
    with FakeKubelet(tmp_path / "kubelet.sock") as kubelet:
        kubelet.answer = pod("train-0", device(uuid_of(1)))
        seen = await asking.read({uuid_of(0): 0, uuid_of(1): 1})
        asking.close()
    assert (seen[uuid_of(0)].state, seen[uuid_of(1)]) == (AllocationState.FREE, allocated("pod ml/train-0"))


# --- the host ---------------------------------------------------------------------------------------------------------


def test_only_a_program_of_root_is_a_daemon(tmp_path: Path) -> None:
    names = frozenset({Path("/proc/self/comm").read_text().strip()})
    assert host.daemons(names) == (names if os.getuid() == 0 else frozenset())
    assert host.daemons(frozenset({"kubelet of nobody"})) == frozenset()
    for pid, comm in (("1", "systemd"), ("22", "kubelet"), ("x", "slurmd")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "comm").write_text(f"{comm}\n")
    if os.getuid() == 0:
        assert host.daemons(frozenset({"kubelet", "slurmd"}), tmp_path) == {"kubelet"}
        os.chown(tmp_path / "22", 1000, 1000)
    assert host.daemons(frozenset({"kubelet", "slurmd"}), tmp_path) == frozenset()


async def test_a_daemon_without_its_socket_makes_every_gpu_unreadable(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("a daemon must be root's")
    (tmp_path / "22").mkdir()
    (tmp_path / "22/comm").write_text("k3s-agent\n")
    asking = Allocations([Kubelet(tmp_path / "none.sock")], proc=tmp_path)
    (seen,) = (await asking.read({uuid_of(0): 0})).values()
    assert seen == unreadable(f"a kubelet runs, but there is no {tmp_path}/none.sock")


def test_the_drivers_own_list_says_which_device_file_is_which_gpu(tmp_path: Path) -> None:
    information = "Model: \t\t NVIDIA H100\nIRQ:   \t\t 42\nGPU UUID: \t {}\nDevice Minor: \t {}\nGPU Excluded:\t No\n"
    for minor, uuid in ((0, uuid_of(1)), (12, uuid_of(0))):
        folder = tmp_path / f"driver/nvidia/gpus/0000:{minor:02}:00.0"
        folder.mkdir(parents=True)
        (folder / "information").write_text(information.format(uuid, minor))
    (tmp_path / "driver/nvidia/gpus/0000:99:00.0").mkdir()
    (tmp_path / "driver/nvidia/gpus/0000:99:00.0/information").write_text("GPU UUID: GPU-????????\nDevice Minor: 3\n")
    assert host.gpus_by_minor(tmp_path) == {0: uuid_of(1), 12: uuid_of(0)}
    assert host.gpus_by_minor(tmp_path / "none") == {}
