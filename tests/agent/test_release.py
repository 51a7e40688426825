"""Letting go of the GPUs for a reset: the worker ends, nothing is called idle meanwhile, and all comes back."""

import asyncio
import fcntl
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent.clock import Clock
from agent.collectors.nvml import NvmlCollector
from agent.collectors.releasable import Releasable
from agent.read_sample import take_sample
from agent.reading import Sweep
from agent.release import agent_runs
from agent.releases import LOCK_NAME, Answer, ReleaseError, Releases
from agent.verdicts import RuleSettings
from tests.agent.command import run_command, write_config, write_recording
from tests.agent.nvml_machine import LONG, Machine, workers
from tests.agent.test_allocation import good_view
from tests.full_disk import no_file_larger_than
from wire.messages import Verdict
from wire.reasons import Reason, ReasonCode

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class SetClock(Clock):
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds, self.boot = 1000.0, "boot-1"

    def boottime_seconds(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return NOON

    def boot_id(self) -> str:
        return self.boot


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def releases(tmp_path: Path, clock: SetClock) -> Releases:
    return Releases(tmp_path, clock)


def test_a_release_holds_for_its_time_and_no_longer(releases: Releases, clock: SetClock) -> None:
    assert releases.current() is None
    begun = releases.begin("alice", "gpu reset", HOUR)
    assert releases.current() == begun
    clock.seconds += 3599.9
    assert releases.current() == begun
    clock.seconds += 0.1
    assert releases.current() is None


def test_a_reboot_ends_it(releases: Releases, clock: SetClock) -> None:
    releases.begin("alice", "", HOUR)
    clock.boot, clock.seconds = "boot-2", 5.0
    assert releases.current() is None


def test_it_can_be_ended_and_begun_anew(releases: Releases) -> None:
    first = releases.begin("alice", "", HOUR)
    assert releases.begin("bob", "", HOUR).request != first.request
    assert releases.end() is True
    assert (releases.current(), releases.end()) == (None, False)


def test_an_answer_is_to_one_release_only(releases: Releases) -> None:
    first = releases.begin("alice", "", HOUR)
    assert releases.answer_to(first) is None
    releases.answer(Answer(first.request))
    assert releases.answer_to(first) == Answer(first.request)
    assert releases.answer_to(releases.begin("alice", "", HOUR)) is None


async def test_a_damaged_release_is_an_error_and_never_a_reading(releases: Releases, tmp_path: Path) -> None:
    releases.path.write_text("{")
    with pytest.raises(ReleaseError):
        releases.current()
    collector = Releasable(NvmlCollector(LONG), releases, answers=True)
    sweep = await collector.sweep()
    assert sweep.gpus == ()
    assert "release --end" in (sweep.error or "")


async def test_the_worker_ends_meanwhile_every_sample_says_who_and_then_all_is_as_before(
    machine: Machine,
    releases: Releases,
    clock: SetClock,
) -> None:
    machine.with_driver(2)
    collector = Releasable(NvmlCollector(LONG), releases, answers=True)

    async def verdicts() -> list[Verdict]:
        sample = await take_sample(collector, None, RuleSettings(), read_view=good_view)
        return [gpu.verdict for gpu in sample.gpus]

    assert await verdicts() == [Verdict.CANDIDATE] * 2
    assert len(workers()) == 1
    begun = releases.begin("alice", "gpu reset", HOUR)
    for _ in range(3):
        sample = await take_sample(collector, None, RuleSettings(), read_view=good_view)
        (error,) = sample.errors
        assert error == Reason(ReasonCode.RELEASED, "alice until 2026-11-30 13:00 UTC (gpu reset)")
        assert workers() == []
    assert releases.answer_to(begun) == Answer(begun.request)
    clock.seconds += 3600
    assert await verdicts() == [Verdict.CANDIDATE] * 2
    await collector.close()


async def test_a_worker_that_hangs_is_told_until_it_is_gone(machine: Machine, releases: Releases) -> None:
    fake = machine.with_driver(1)
    collector = Releasable(NvmlCollector(timedelta(seconds=1.5), grace=timedelta(seconds=60)), releases, answers=True)
    assert (await collector.sweep()).error is None
    fake.set_driver(hang=("nvmlDeviceGetUUID",))
    await collector.sweep()
    begun = releases.begin("alice", "", HOUR)
    error = (await collector.sweep()).error or ""
    assert error.startswith("released by alice")
    assert "does not end" in error
    answer = releases.answer_to(begun)
    assert answer is not None
    assert "does not end" in (answer.kept or "")
    fake.set_driver(hang=())
    async with asyncio.timeout(20):
        while releases.answer_to(begun) != Answer(begun.request):
            await collector.sweep()
    await collector.close()


# --- the command ------------------------------------------------------------------------------------------------------


def state_of(folder: Path) -> Path:
    (folder / "state").mkdir()
    return folder / "state"


def test_without_an_agent_the_release_is_in_place_for_one_that_starts(tmp_path: Path) -> None:
    state, config = state_of(tmp_path), write_config(tmp_path)
    result = run_command("release", "--for", "5m", "--reason", "mig", "--config", str(config))
    assert result.exit_code == 0, result.output
    assert "No agent runs" in result.stdout
    current = Releases(state, Clock()).current()
    assert current is not None
    assert current.reason == "mig"
    assert current.until_seconds - Clock().boottime_seconds() == pytest.approx(300, abs=60)
    result = run_command("release", "--end", "--config", str(config))
    assert (result.exit_code, result.stdout) == (0, "The agent takes the GPUs up again with its next reading.\n")
    assert "Nothing was released." in run_command("release", "--end", "--config", str(config)).stdout


@pytest.mark.parametrize("duration", ["0s", "25h", "soon", "-5m"])
def test_a_length_that_makes_no_sense_is_refused(tmp_path: Path, duration: str) -> None:
    state_of(tmp_path)
    result = run_command("release", "--for", duration, "--config", str(write_config(tmp_path)))
    assert result.exit_code == 2
    assert "--for wants " in result.output
    assert not (tmp_path / "state/release.json").exists()


def test_a_state_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    result = run_command("release", "--config", str(write_config(tmp_path)))
    assert result.exit_code == 1
    assert "cannot be written" in result.output


def test_an_agent_is_there_as_long_as_it_holds_its_lock(tmp_path: Path) -> None:
    assert agent_runs(tmp_path) is False
    lock = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    assert agent_runs(tmp_path) is False
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert agent_runs(tmp_path) is True
    os.close(lock)
    assert agent_runs(tmp_path) is False


def test_other_commands_stay_off_the_gpus_too_and_answer_nothing(tmp_path: Path) -> None:
    state = state_of(tmp_path)
    recording = write_recording(tmp_path, Sweep(error="x"))
    config = write_config(tmp_path, collector="replay", replay_file=str(recording))
    releases = Releases(state, Clock())
    begun = releases.begin("alice", "gpu reset", HOUR)
    result = run_command("once", "--config", str(config))
    assert result.exit_code == 3
    assert "released by alice" in result.stdout
    assert releases.answer_to(begun) is None


def test_a_full_disk_is_no_question_of_who_asks_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    state, config = state_of(tmp_path), write_config(tmp_path)
    with no_file_larger_than(0):
        result = run_command("release", "--config", str(config))
    assert result.exit_code == 1
    assert f"{state}/release.json cannot be written: File too large: make room there" in result.output
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("end", [[], ["--end"]])
def test_a_state_folder_that_is_no_folder_is_a_sentence_with_its_remedy(tmp_path: Path, end: list[str]) -> None:
    (tmp_path / "state").write_text("")
    result = run_command("release", *end, "--config", str(write_config(tmp_path)))
    assert result.exit_code == 1
    assert "release.json cannot be written: Not a directory: name a place that is a folder" in result.output
