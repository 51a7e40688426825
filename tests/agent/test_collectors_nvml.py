"""The collector nvml with its real worker process and the real nvidia-ml-py, on a driver written in C."""

from pathlib import Path

import pytest

from agent.reading import GpuReading, Sweep, Unreadable
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import GOOD_VIEW
from tests.agent.nvml_machine import Machine, collecting, read_one, workers
from tests.fake_nvml import GIB, FakeGpu, FakeProcess, fake_uuid
from wire.messages import ProcessKind, Verdict


async def test_an_idle_gpu_is_read_whole(machine: Machine) -> None:
    machine.with_driver(1)
    async with collecting() as collector:
        sweep = await collector.sweep()
    assert sweep == Sweep(
        gpus=(
            GpuReading(
                index=0,
                uuid=fake_uuid(0),
                utilization_percent=0,
                memory_used_bytes=0,
                compute=(),
                graphics=(),
                utilization_again_percent=0,
                model="NVIDIA H100 80GB HBM3",
                memory_total_bytes=80 * GIB,
                recent_peak_percent=None,
                mig_enabled=False,
                recovery_action="None",
                power_milliwatts=70_000,
            ),
        ),
        driver_version="590.48.01",
    )


async def test_everything_that_shows_use_is_read(machine: Machine) -> None:
    gpu = FakeGpu(
        fake_uuid(0),
        utilization=1,
        utilization_again=2,
        used=3,
        compute=(FakeProcess(11, 5), FakeProcess(12, None)),
        graphics=(FakeProcess(13, 7),),
        mps=(FakeProcess(14, 9),),
        samples=(4, 40, 6),
        mig=True,
        recovery=1,
    )
    machine.with_driver([gpu])
    async with collecting() as collector:
        reading = await read_one(collector)
    assert (reading.utilization_percent, reading.utilization_again_percent, reading.recent_peak_percent) == (1, 2, 40)
    assert (reading.memory_used_bytes, reading.mig_enabled, reading.recovery_action) == (3, True, "Reset")
    assert isinstance(reading.compute, tuple)
    assert [(process.pid, process.used_memory_bytes) for process in reading.compute] == [(11, 5), (12, None), (14, 9)]
    assert isinstance(reading.graphics, tuple)
    assert [(process.pid, process.kind) for process in reading.graphics] == [(13, ProcessKind.GRAPHICS)]


async def test_16_gpus_are_read_in_order_and_a_change_shows_in_the_next_sweep(machine: Machine) -> None:
    fake = machine.with_driver(16)
    async with collecting() as collector:
        first = await collector.sweep()
        fake.set(9, used=4096, compute=(FakeProcess(77),))
        second = await collector.sweep()
    assert [(gpu.index, gpu.uuid) for gpu in first.gpus] == [(index, fake_uuid(index)) for index in range(16)]
    assert [gpu.memory_used_bytes for gpu in second.gpus] == [4096 if index == 9 else 0 for index in range(16)]


async def test_one_worker_serves_all_sweeps_and_is_gone_after_close(machine: Machine) -> None:
    machine.with_driver(2)
    async with collecting() as collector:
        await collector.sweep()
        first = workers()
        await collector.sweep()
        assert workers() == first
        assert len(first) == 1
    assert workers() == []


UNREADABLE = [
    ("utilization_percent", {"nvmlDeviceGetUtilizationRates": 3}),
    ("utilization_again_percent", {"nvmlDeviceGetUtilizationRates": 16}),
    ("memory_used_bytes", {"nvmlDeviceGetMemoryInfo_v2": 3}),
    ("memory_total_bytes", {"nvmlDeviceGetMemoryInfo_v2": 13}),
    ("compute", {"nvmlDeviceGetComputeRunningProcesses_v3": 3}),
    ("compute", {"nvmlDeviceGetComputeRunningProcesses_v3": 4}),
    ("compute", {"nvmlDeviceGetComputeRunningProcesses_v3": 7}),
    ("compute", {"nvmlDeviceGetMPSComputeRunningProcesses_v3": 4}),
    ("graphics", {"nvmlDeviceGetGraphicsRunningProcesses_v3": 3}),
    ("recent_peak_percent", {"nvmlDeviceGetSamples": 999}),
    ("mig_enabled", {"nvmlDeviceGetMigMode": 999}),
    ("recovery_action", {"nvmlDeviceGetFieldValues": 999}),
]


@pytest.mark.parametrize(("field", "codes"), UNREADABLE)
async def test_a_failed_call_is_unreadable_and_makes_that_gpu_unknown(
    machine: Machine, field: str, codes: dict[str, int]
) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), rc=codes), FakeGpu(fake_uuid(1))])
    async with collecting() as collector:
        sweep = await collector.sweep()
    value = getattr(sweep.gpus[0], field)
    assert isinstance(value, Unreadable)
    assert f"(NVML {next(iter(codes.values()))})" in value.why
    sample = judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings())
    assert [gpu.verdict for gpu in sample.gpus] == [Verdict.UNKNOWN, Verdict.CANDIDATE]


ABSENT = [
    ("mig_enabled", None, {"nvmlDeviceGetMigMode": 3}),
    ("recovery_action", None, {"nvmlDeviceGetFieldValues": 3}),
    ("recovery_action", None, {"nvmlDeviceGetFieldValues": 2}),
    ("recent_peak_percent", None, {"nvmlDeviceGetSamples": 3}),
    ("recent_peak_percent", None, {"nvmlDeviceGetSamples": 6}),
    ("compute", (), {"nvmlDeviceGetMPSComputeRunningProcesses_v3": 3}),
    ("model", None, {"nvmlDeviceGetName": 3}),
    ("power_milliwatts", None, {"nvmlDeviceGetPowerUsage": 3}),
    ("power_milliwatts", None, {"nvmlDeviceGetPowerUsage": 999}),
]


@pytest.mark.parametrize(("field", "value", "codes"), ABSENT)
async def test_what_a_card_or_driver_does_not_have_is_no_fault(
    machine: Machine, field: str, value: object, codes: dict[str, int]
) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), rc=codes)])
    async with collecting() as collector:
        assert getattr(await read_one(collector), field) == value


MISSING = [
    ("nvmlDeviceGetComputeRunningProcesses_v3", "compute"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics"),
    ("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes"),
    ("nvmlDeviceGetUtilizationRates", "utilization_percent"),
]


@pytest.mark.parametrize(("symbol", "field"), MISSING)
async def test_a_driver_without_a_needed_function_is_unreadable_and_nothing_falls_back(
    machine: Machine, symbol: str, field: str
) -> None:
    machine.with_driver(1, missing=(symbol,))
    async with collecting() as collector:
        assert isinstance(getattr(await read_one(collector), field), Unreadable)


async def test_a_driver_without_optional_functions_is_read(machine: Machine) -> None:
    optional = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage")
    symbols = ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMigMode", "nvmlDeviceGetSamples")
    machine.with_driver(1, missing=(*symbols, *optional))
    async with collecting() as collector:
        reading = await read_one(collector)
    assert (reading.compute, reading.mig_enabled, reading.recovery_action) == ((), None, None)


async def test_memory_reserved_by_the_driver_does_not_count(machine: Machine) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), used=0, reserved=501481472, used_v1=501481472)])
    async with collecting() as collector:
        assert (await read_one(collector)).memory_used_bytes == 0


async def test_entries_of_32_bytes_never_read_as_a_sound_list(machine: Machine) -> None:
    processes = tuple(FakeProcess(pid, 1 << 30) for pid in (1184, 2093, 16040))
    machine.with_driver([FakeGpu(fake_uuid(0), compute=processes)], stride=32)
    async with collecting() as collector:
        sweep = await collector.sweep()
    (gpu,) = judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings()).gpus
    assert (gpu.verdict, gpu.processes) == (Verdict.UNKNOWN, None)


async def test_a_list_that_grows_between_the_calls_is_asked_again(machine: Machine) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), compute=(FakeProcess(5),))], growing=2)
    async with collecting() as collector:
        reading = await read_one(collector)
    assert isinstance(reading.compute, tuple)
    assert [process.pid for process in reading.compute] == [5]


async def test_a_list_that_keeps_growing_is_unreadable(machine: Machine) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), compute=(FakeProcess(5),))], growing=100)
    async with collecting() as collector:
        assert isinstance((await read_one(collector)).compute, Unreadable)


async def test_a_buffered_utilisation_sample_counts_in_one_sweep_only(machine: Machine) -> None:
    machine.with_driver([FakeGpu(fake_uuid(0), samples=(55,), sample_time_us=1000)])
    async with collecting() as collector:
        assert (await read_one(collector)).recent_peak_percent == 55
        assert (await read_one(collector)).recent_peak_percent is None


async def test_a_buffered_sample_counts_also_where_the_clock_was_set_back_since(machine: Machine) -> None:
    """The driver stamps them by the wall clock: what ran after the step looks older than what was seen before it."""
    fake = machine.with_driver([FakeGpu(fake_uuid(0), samples=(0,), sample_time_us=7_200_000_000)])
    async with collecting() as collector:
        assert (await read_one(collector)).recent_peak_percent == 0
        fake.set(0, samples=(97,), sample_time_us=3_610_000_000)
        assert (await read_one(collector)).recent_peak_percent == 97


FAILING = [
    ({"nvmlInitWithFlags": 9}, "Driver Not Loaded (NVML 9)"),
    ({"nvmlInitWithFlags": 18}, "reload it or reboot"),
    ({"nvmlInitWithFlags": 999}, "NVML 999"),
    ({"nvmlDeviceGetCount_v2": 1}, "NVML 1"),
    ({"nvmlDeviceGetHandleByIndex_v2": 15}, "reboot"),
    ({"nvmlDeviceGetHandleByIndex_v2": 999}, "NVML 999"),
    ({"nvmlDeviceGetUUID": 999}, "NVML 999"),
    ({"nvmlSystemGetDriverVersion": 999}, "NVML 999"),
]


@pytest.mark.parametrize(("codes", "said"), FAILING)
async def test_what_concerns_all_gpus_is_an_error_and_heals_by_itself(
    machine: Machine, codes: dict[str, int], said: str
) -> None:
    fake = machine.with_driver(2, rc=codes)
    async with collecting() as collector:
        sweep = await collector.sweep()
        assert sweep.gpus == ()
        assert said in (sweep.error or "")
        fake.set_driver(rc={})
        assert (await collector.sweep()).error is None
        assert len(workers()) == 1


async def test_a_driver_that_starts_to_fail_is_an_error_until_it_answers_again(machine: Machine) -> None:
    fake = machine.with_driver(2)
    async with collecting() as collector:
        assert (await collector.sweep()).error is None
        for code in (1, 9, 15, 18, 28):
            fake.set_driver(rc={"nvmlDeviceGetCount_v2": code})
            assert f"NVML {code})" in ((await collector.sweep()).error or "")
            fake.set_driver(rc={})
            assert (await collector.sweep()).error is None


async def test_without_any_gpu_the_sweep_is_an_error(machine: Machine) -> None:
    machine.with_driver([])
    async with collecting() as collector:
        assert "no GPU" in ((await collector.sweep()).error or "")


async def test_without_a_driver_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (tmp_path / "libnvidia-ml.so.1").write_text("no library")
    async with collecting() as collector:
        assert "install the NVIDIA driver" in ((await collector.sweep()).error or "")


async def test_a_gpu_that_vanishes_is_not_read_under_anothers_name(machine: Machine) -> None:
    gpus = [FakeGpu(fake_uuid(index)) for index in range(3)]
    fake = machine.with_driver(gpus)
    async with collecting() as collector:
        await collector.sweep()
        fake.set_gpus([gpus[0], gpus[2]])
        sweep = await collector.sweep()
    assert [(gpu.index, gpu.uuid) for gpu in sweep.gpus] == [(0, fake_uuid(0)), (1, fake_uuid(2))]


@pytest.mark.parametrize("calls", [["nvmlDeviceGetUUID"], ["nvmlDeviceGetUUID", "nvmlDeviceGetHandleByIndex_v2"]])
async def test_a_gpu_that_lost_its_name_too_is_unknown_under_the_name_it_had(
    machine: Machine, calls: list[str]
) -> None:
    fake = machine.with_driver(3)
    async with collecting() as collector:
        await collector.sweep()
        fake.set(1, rc=dict.fromkeys(calls, 15))
        fake.set_driver(rc={"nvmlDeviceGetCount_v2": 1})
        assert (await collector.sweep()).error is not None  # so that the handles must be fetched anew
        fake.set_driver(rc={})
        sample = judge_sweep(await collector.sweep(), GOOD_VIEW, {}, RuleSettings())
        assert [(gpu.uuid, gpu.verdict) for gpu in sample.gpus] == [
            (fake_uuid(0), Verdict.CANDIDATE),
            (fake_uuid(1), Verdict.UNKNOWN),
            (fake_uuid(2), Verdict.CANDIDATE),
        ]
        fake.set(1, rc={})
        assert (await collector.sweep()).error is None


async def test_a_lost_gpu_is_never_guessed_when_the_others_changed_too(machine: Machine) -> None:
    fake = machine.with_driver(3)
    async with collecting() as collector:
        await collector.sweep()
        fake.set(1, rc={"nvmlDeviceGetUUID": 15})
        fake.set(2, uuid=fake_uuid(7))
        assert "GPU is lost" in ((await collector.sweep()).error or "")
    fake.set(2, uuid=fake_uuid(2))
    async with collecting() as collector:
        assert "GPU is lost" in ((await collector.sweep()).error or "")


async def test_a_lost_gpu_does_not_make_the_others_unknown(machine: Machine) -> None:
    lost = dict.fromkeys(
        ["nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3"], 15
    )
    machine.with_driver([FakeGpu(fake_uuid(0), rc=lost), FakeGpu(fake_uuid(1))])
    async with collecting() as collector:
        for _ in range(3):
            sample = judge_sweep(await collector.sweep(), GOOD_VIEW, {}, RuleSettings())
            assert [gpu.verdict for gpu in sample.gpus] == [Verdict.UNKNOWN, Verdict.CANDIDATE]
