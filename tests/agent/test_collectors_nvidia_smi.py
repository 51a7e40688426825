"""The collector nvidia-smi on a stand-in that replays rows, and the strictness of its parsing."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from agent.collectors import nvidia_smi, smi_csv
from agent.collectors.nvidia_smi import NvidiaSmiCollector
from agent.collectors.smi_csv import BadOutputError
from agent.reading import Sweep, Unreadable
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import DRIVER, GOOD_VIEW, MIB, MODEL
from tests.fake_nvidia_smi import EXTRA, Answer, FakeNvidiaSmi
from tests.fake_nvml import fake_uuid
from wire.messages import Verdict

A, B = fake_uuid(0), fake_uuid(1)
IDLE = Answer(f"0, {A}, 0, 0, 81559\n")
LONG = timedelta(seconds=30)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvidiaSmi:
    fake = FakeNvidiaSmi(tmp_path)
    monkeypatch.setenv("NVIDIA_SMI", fake.env["NVIDIA_SMI"])
    return fake


async def sweep_once(deadline: timedelta = LONG) -> Sweep:
    collector = NvidiaSmiCollector(deadline, grace=timedelta(seconds=0.2))
    try:
        return await collector.sweep()
    finally:
        await collector.close()


def verdicts(sweep: Sweep) -> list[Verdict]:
    return [gpu.verdict for gpu in judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings()).gpus]


async def test_an_idle_gpu_is_read_with_what_belongs_to_it(smi: FakeNvidiaSmi) -> None:
    smi.answer(IDLE)
    sweep = await sweep_once()
    (gpu,) = sweep.gpus
    assert (sweep.driver_version, gpu.model, gpu.memory_total_bytes) == (DRIVER, MODEL, 81559 * MIB)
    assert (gpu.mig_enabled, gpu.recovery_action, gpu.graphics, gpu.compute) == (False, "None", None, ())
    assert verdicts(sweep) == [Verdict.CANDIDATE]


async def test_an_older_driver_without_the_optional_fields_is_read(smi: FakeNvidiaSmi) -> None:
    smi.answer(IDLE, unknown_fields=["gpu_recovery_action", "mig.mode.current"])
    sweep = await sweep_once()
    assert (sweep.gpus[0].mig_enabled, sweep.gpus[0].recovery_action) == (None, None)
    assert verdicts(sweep) == [Verdict.CANDIDATE]


async def test_a_driver_without_a_needed_field_is_an_error(smi: FakeNvidiaSmi) -> None:
    smi.answer(IDLE, unknown_fields=["memory.used"])
    assert "memory.used" in ((await sweep_once()).error or "")


async def test_a_driver_that_was_exchanged_is_asked_for_its_fields_anew(smi: FakeNvidiaSmi) -> None:
    smi.answer(IDLE)
    collector = NvidiaSmiCollector(LONG)
    assert (await collector.sweep()).error is None
    smi.answer(IDLE, unknown_fields=["gpu_recovery_action"])
    assert (await collector.sweep()).error is not None
    assert (await collector.sweep()).error is None


@pytest.mark.parametrize(
    ("extra", "verdict"),
    [
        ({"mig.mode.current": "Enabled"}, Verdict.UNKNOWN),
        ({"mig.mode.current": "[N/A]"}, Verdict.CANDIDATE),
        ({"mig.mode.current": "[Insufficient Permissions]"}, Verdict.UNKNOWN),
        ({"gpu_recovery_action": "Reset"}, Verdict.UNKNOWN),
        ({"gpu_recovery_action": "Drain and Reset"}, Verdict.UNKNOWN),
        ({"gpu_recovery_action": "[N/A]"}, Verdict.CANDIDATE),
        ({"gpu_recovery_action": "[Unknown Error]"}, Verdict.UNKNOWN),
        ({"name": "[Unknown Error]"}, Verdict.CANDIDATE),
    ],
)
async def test_mig_and_the_recovery_action_count(smi: FakeNvidiaSmi, extra: dict[str, str], verdict: Verdict) -> None:
    smi.answer(IDLE, extra={**EXTRA, **extra})
    assert verdicts(await sweep_once()) == [verdict]


@pytest.mark.parametrize("second", [f"0, {A}, 7, 0, 81559\n", f"0, {A}, 0, 1, 81559\n", f"0, {A}, [N/A], 0, 81559\n"])
async def test_the_second_gpu_query_counts_as_much_as_the_first(smi: FakeNvidiaSmi, second: str) -> None:
    smi.answer([IDLE, Answer(second)])
    assert Verdict.CANDIDATE not in verdicts(await sweep_once())


@pytest.mark.parametrize(
    "second",
    [
        Answer(f"0, {B}, 0, 0, 81559\n"),
        Answer(f"0, {A}, 0, 0, 81559\n1, {B}, 0, 0, 81559\n"),
        Answer(IDLE.stdout, status=9),
        Answer(IDLE.stdout, stderr="WARNING: infoROM is corrupted at gpu 0000:67:00.0\n"),
        Answer(""),
    ],
)
async def test_a_second_query_that_fails_or_shows_other_gpus_is_an_error(smi: FakeNvidiaSmi, second: Answer) -> None:
    smi.answer([IDLE, second])
    assert (await sweep_once()).error is not None


@pytest.mark.parametrize(
    ("apps", "verdict"),
    [
        (Answer("No running compute processes found\n"), Verdict.CANDIDATE),
        (Answer("No running compute processes found\r\n"), Verdict.CANDIDATE),
        (Answer("No running compute processes found\n", stderr="x"), None),
        (Answer("No running compute processes found\n", status=1), None),
        (Answer("No running compute processes found"), None),
        (Answer("No running compute processes found\n\n"), None),
        (Answer(f"No running compute processes found\n{A}, 5, x, 0\n"), None),
        (Answer(f"{A}, 0, x, 0\n"), Verdict.UNKNOWN),
        (Answer(f"{A}, 4194305, x, 0\n"), Verdict.UNKNOWN),
        (Answer(f"{A}, 12x, x, 0\n"), None),
        (Answer(f"{A}, 12, x, 0"), None),
    ],
)
async def test_only_a_sound_list_of_processes_is_taken(
    smi: FakeNvidiaSmi, apps: Answer, verdict: Verdict | None
) -> None:
    smi.answer(IDLE, apps)
    sweep = await sweep_once()
    assert (sweep.error is not None) if verdict is None else (verdicts(sweep) == [verdict])


async def test_a_program_that_is_not_there_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVIDIA_SMI", "/nonexistent/nvidia-smi")
    error = (await sweep_once()).error or ""
    assert "/nonexistent/nvidia-smi cannot be run (No such file or directory)" in error
    assert "NVIDIA_SMI" in error


async def test_output_without_end_is_cut_off_as_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = tmp_path / "endless"
    endless.write_text("#!/bin/sh\nexec yes\n")
    endless.chmod(0o755)
    monkeypatch.setenv("NVIDIA_SMI", str(endless))
    assert f"more than {nvidia_smi.LARGEST_OUTPUT_BYTES} bytes" in ((await sweep_once()).error or "")


async def test_a_program_that_hangs_is_ended_politely_and_read_again(smi: FakeNvidiaSmi) -> None:
    collector = NvidiaSmiCollector(timedelta(seconds=2), grace=timedelta(seconds=20))
    smi.answer(Answer(hang=True))
    assert "did not answer within 2 s" in ((await collector.sweep()).error or "")
    smi.answer(IDLE)
    sweep = Sweep(error="not yet")
    async with asyncio.timeout(30):
        while sweep.error is not None:
            sweep = await collector.sweep()
    assert verdicts(sweep) == [Verdict.CANDIDATE]


async def test_no_second_program_is_started_while_one_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores SIGTERM, and SIGKILL is a long way off: as a process in D state looks from outside."""
    stubborn, started = tmp_path / "stubborn", tmp_path / "started"
    stubborn.write_text(
        f"#!/bin/sh\necho $$ >> {started}\ntrap '' TERM\nwhile :; do read line < {tmp_path}/fifo; done\n"
    )
    stubborn.chmod(0o755)
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setenv("NVIDIA_SMI", str(stubborn))
    collector = NvidiaSmiCollector(timedelta(seconds=1.5), grace=timedelta(seconds=60))
    errors = [(await collector.sweep()).error or "" for _ in range(2)]
    assert "did not answer" in errors[0]
    assert all("nothing new is started" in error for error in errors[1:])
    (pid,) = started.read_text().split()
    os.kill(int(pid), 9)
    assert await collector._ending.wait(timedelta(seconds=20))


COLUMNS = smi_csv.REQUIRED


def row(**cells: str) -> str:
    values = {**dict(zip(COLUMNS, ["0", A, "0", "0", "81559", MODEL, DRIVER], strict=True)), **cells}
    return ", ".join(values.values()) + "\n"


@pytest.mark.parametrize("output", [row()[:-1], row() + row()[:20], row() + "\n", row(index="x"), row(index="[N/A]")])
def test_an_incomplete_output_is_an_error(output: str) -> None:
    with pytest.raises(BadOutputError):
        smi_csv.parse_gpus(output, COLUMNS)


def test_the_largest_number_that_is_taken_has_12_digits() -> None:
    (gpu,) = smi_csv.parse_gpus(row(**{"memory.used": "9" * 12}), COLUMNS)
    assert gpu.memory_used_bytes == 999999999999 * MIB
    with pytest.raises(BadOutputError):
        smi_csv.parse_gpus(row(**{"memory.used": "0" * 13}), COLUMNS)


def test_a_hidden_pid_hides_the_processes_of_its_gpu_only() -> None:
    gpus = smi_csv.parse_gpus(row() + row(index="1", uuid=B), COLUMNS)
    processes = smi_csv.parse_processes(f"{A}, [Insufficient Permissions]\n{A}, 5\n")
    sweep = smi_csv.join(gpus, processes, gpus)
    assert [gpu.compute for gpu in sweep.gpus] == [Unreadable("[Insufficient Permissions]"), ()]


def test_two_driver_versions_in_one_sample_are_an_error() -> None:
    before = smi_csv.parse_gpus(row(), COLUMNS)
    after = smi_csv.parse_gpus(row(driver_version="595.71.05"), COLUMNS)
    with pytest.raises(BadOutputError, match="more than one driver version"):
        smi_csv.join(before, [], after)
