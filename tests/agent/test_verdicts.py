"""The rule for one sample of one GPU, by tables."""

from typing import Any

import pytest
from msgspec.structs import replace

from agent.reading import Baseline, KnownGpu, ProcessView, Sweep, Unreadable
from agent.verdicts import RuleSettings, Sample, judge_sweep
from tests.agent.build_readings import (
    DRIVER,
    GIB,
    GOOD_VIEW,
    MIB,
    MODEL,
    compute,
    graphics,
    idle_gpu,
    sweep_of,
    uuid_of,
)
from wire.messages import ProcessKind, Verdict
from wire.reasons import Reason, ReasonCode

STRICT = RuleSettings()
NO = Unreadable("[N/A]")


def judge(
    *changes: dict[str, Any], view: ProcessView = GOOD_VIEW, settings: RuleSettings = STRICT, driver: str = DRIVER
) -> Sample:
    gpus = [idle_gpu(index, **change) for index, change in enumerate(changes)]
    return judge_sweep(Sweep(tuple(gpus), driver_version=driver), view, {}, settings)


IDLE: list[dict[str, Any]] = [
    {},
    {"recent_peak_percent": None},
    {"mig_enabled": None},
    {"recovery_action": None},
    {"graphics": None},
    {"memory_total_bytes": None},
    {"model": None},
]


@pytest.mark.parametrize("changes", IDLE)
def test_a_gpu_without_any_sign_of_use_is_a_candidate(changes: dict[str, Any]) -> None:
    (gpu,) = judge(changes).gpus
    assert (gpu.verdict, gpu.reasons) == (Verdict.CANDIDATE, (Reason(ReasonCode.ALL_IDLE),))
    assert (gpu.utilization_percent, gpu.memory_used_bytes, gpu.processes) == (0, 0, ())


HELD: list[tuple[dict[str, Any], Reason]] = [
    ({"utilization_percent": 1}, Reason(ReasonCode.UTILIZATION, "1")),
    ({"utilization_again_percent": 100}, Reason(ReasonCode.UTILIZATION, "100")),
    ({"recent_peak_percent": 3}, Reason(ReasonCode.UTILIZATION, "3")),
    ({"memory_used_bytes": 1}, Reason(ReasonCode.MEMORY_HELD, "1")),
    ({"compute": compute(9876)}, Reason(ReasonCode.COMPUTE_PROCESS, "9876")),
    ({"compute": compute(4194304)}, Reason(ReasonCode.COMPUTE_PROCESS, "4194304")),
    ({"compute": compute(7, 7, 5)}, Reason(ReasonCode.COMPUTE_PROCESS, "5, 7")),
    ({"graphics": graphics(1)}, Reason(ReasonCode.GRAPHICS_PROCESS, "1")),
    ({"compute": compute(*range(1, 12))}, Reason(ReasonCode.COMPUTE_PROCESS, "1, 2, 3, 4, 5, 6, 7, 8 and 3 more")),
]


@pytest.mark.parametrize(("changes", "reason"), HELD)
def test_any_single_sign_of_use_holds_a_gpu(changes: dict[str, Any], reason: Reason) -> None:
    (gpu,) = judge(changes).gpus
    assert (gpu.verdict, gpu.reasons) == (Verdict.HELD, (reason,))


UNKNOWN: list[tuple[dict[str, Any], ReasonCode]] = [
    ({"utilization_percent": NO}, ReasonCode.UTILIZATION_UNREADABLE),
    ({"utilization_again_percent": NO}, ReasonCode.UTILIZATION_UNREADABLE),
    ({"recent_peak_percent": NO}, ReasonCode.UTILIZATION_UNREADABLE),
    ({"memory_used_bytes": NO}, ReasonCode.MEMORY_UNREADABLE),
    ({"memory_total_bytes": NO}, ReasonCode.MEMORY_UNREADABLE),
    ({"compute": NO}, ReasonCode.PROCESSES_UNREADABLE),
    ({"compute": compute(0)}, ReasonCode.PROCESSES_UNREADABLE),
    ({"compute": compute(1184, 4294967295)}, ReasonCode.PROCESSES_UNREADABLE),
    ({"compute": compute(4194305)}, ReasonCode.PROCESSES_UNREADABLE),
    ({"graphics": NO}, ReasonCode.PROCESSES_UNREADABLE),
    ({"graphics": graphics(0)}, ReasonCode.PROCESSES_UNREADABLE),
    ({"mig_enabled": True}, ReasonCode.MIG_ENABLED),
    ({"mig_enabled": NO}, ReasonCode.MIG_UNREADABLE),
    ({"recovery_action": "Reset"}, ReasonCode.RECOVERY_ACTION),
    ({"recovery_action": NO}, ReasonCode.RECOVERY_ACTION_UNREADABLE),
]


@pytest.mark.parametrize(("changes", "code"), UNKNOWN)
def test_any_single_unreadable_or_sick_sign_makes_a_gpu_unknown(changes: dict[str, Any], code: ReasonCode) -> None:
    (gpu,) = judge(changes).gpus
    assert (gpu.verdict, [reason.code for reason in gpu.reasons]) == (Verdict.UNKNOWN, [code])


@pytest.mark.parametrize("changes", [changes for changes, _ in HELD])
@pytest.mark.parametrize(("unreadable", "code"), UNKNOWN)
def test_unknown_beats_held_and_keeps_both_reasons(
    changes: dict[str, Any], unreadable: dict[str, Any], code: ReasonCode
) -> None:
    (gpu,) = judge({**changes, **unreadable}).gpus
    assert gpu.verdict is Verdict.UNKNOWN
    assert gpu.reasons[0].code is code
    assert len(gpu.reasons) == (1 if changes.keys() <= unreadable.keys() else 2)


def test_an_unreadable_list_of_processes_is_not_an_empty_one() -> None:
    for changes in ({"compute": NO}, {"compute": compute(0)}, {"graphics": NO}):
        assert judge(changes).gpus[0].processes is None


def test_a_list_whose_collector_cannot_list_graphics_processes_says_so() -> None:
    (gpu,) = judge({"compute": compute(8), "graphics": None}).gpus
    assert (len(gpu.processes or ()), gpu.unlisted) == (1, "its collector cannot list graphics processes")
    assert judge({"compute": compute(8), "graphics": ()}).gpus[0].unlisted == ""


def test_what_was_not_read_is_none_and_never_0() -> None:
    changes = {"utilization_percent": NO, "utilization_again_percent": NO, "recent_peak_percent": None}
    (gpu,) = judge({**changes, "memory_used_bytes": NO}).gpus
    assert (gpu.utilization_percent, gpu.memory_used_bytes) == (None, None)


def test_the_highest_utilisation_of_a_sample_is_shown() -> None:
    changes = {"utilization_percent": 3, "utilization_again_percent": 9, "recent_peak_percent": 40}
    assert judge(changes).gpus[0].utilization_percent == 40


def test_a_process_listed_as_compute_and_as_graphics_is_told_once_for_each() -> None:
    (gpu,) = judge({"compute": compute(8, 8), "graphics": graphics(8)}).gpus
    assert [(process.pid, process.kind) for process in gpu.processes or ()] == [
        (8, ProcessKind.COMPUTE),
        (8, ProcessKind.GRAPHICS),
    ]


def test_each_gpu_is_judged_alone_and_they_come_in_order_of_index() -> None:
    busy, idle = idle_gpu(1, utilization_percent=97), idle_gpu(0)
    sample = judge_sweep(sweep_of(busy, idle), GOOD_VIEW, {}, STRICT)
    assert [(gpu.index, gpu.verdict) for gpu in sample.gpus] == [(0, Verdict.CANDIDATE), (1, Verdict.HELD)]


def test_where_the_process_list_proves_nothing_no_gpu_can_be_judged() -> None:
    view = ProcessView(obstacles=("the agent runs in a PID namespace of its own",))
    sample = judge({}, {"memory_used_bytes": 5}, view=view)
    assert sample.errors == ()
    assert {gpu.verdict for gpu in sample.gpus} == {Verdict.UNKNOWN}
    assert all(gpu.reasons[0].code is ReasonCode.PROCESS_VIEW for gpu in sample.gpus)


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"utilization_percent": 101}, "101 %"),
    ({"utilization_again_percent": 4294967295}, "4294967295 %"),
    ({"utilization_percent": -1}, "-1 %"),
    ({"recent_peak_percent": 101}, "101 %"),
    ({"memory_used_bytes": 80 * GIB + 1}, "memory used"),
    ({"memory_used_bytes": -1}, "memory used"),
    ({"memory_total_bytes": 0}, "0 bytes of memory in total"),
    ({"uuid": ""}, "malformed UUID"),
    ({"uuid": "[N/A]"}, "malformed UUID"),
    ({"uuid": "MIG-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"}, "malformed UUID"),
    ({"uuid": uuid_of(0) + "\n"}, "malformed UUID"),
    ({"uuid": uuid_of(1)}, "listed 2 times"),
    ({"index": 1}, "without a gap: [1, 1]"),
    ({"index": 2}, "without a gap: [1, 2]"),
]


@pytest.mark.parametrize(("changes", "said"), IMPOSSIBLE)
def test_one_value_that_cannot_be_makes_the_whole_sample_an_error(changes: dict[str, Any], said: str) -> None:
    sample = judge(changes, {})
    assert [error.code for error in sample.errors] == [ReasonCode.SAMPLE_ERROR]
    assert said in sample.errors[0].detail
    assert sample.gpus == ()


@pytest.mark.parametrize(
    ("sweep", "view"),
    [
        (Sweep(error="no answer"), GOOD_VIEW),
        (Sweep(), GOOD_VIEW),
        (sweep_of(idle_gpu()), ProcessView(error="NVML_MPS_DEVICE_ENUMERATION is set")),
    ],
)
def test_an_error_makes_every_known_gpu_unknown(sweep: Sweep, view: ProcessView) -> None:
    known = {uuid_of(1): KnownGpu(1, MODEL), uuid_of(0): KnownGpu(0)}
    sample = judge_sweep(sweep, view, known, STRICT)
    assert len(sample.errors) == 1
    assert [(gpu.index, gpu.uuid, gpu.verdict) for gpu in sample.gpus] == [
        (0, uuid_of(0), Verdict.UNKNOWN),
        (1, uuid_of(1), Verdict.UNKNOWN),
    ]
    assert all(gpu.reasons[0].code is ReasonCode.SAMPLE_ERROR and gpu.processes is None for gpu in sample.gpus)


def test_a_missing_gpu_is_named_and_nothing_is_concluded_for_the_others() -> None:
    known = {uuid_of(0): KnownGpu(0), uuid_of(7): KnownGpu(7, MODEL), uuid_of(9): KnownGpu(9, MODEL)}
    sample = judge_sweep(sweep_of(idle_gpu(0)), GOOD_VIEW, known, STRICT)
    assert [error.code for error in sample.errors] == [ReasonCode.GPU_MISSING] * 2
    assert f"{uuid_of(7)} (was index 7, {MODEL})" in sample.errors[0].detail
    assert {gpu.verdict for gpu in sample.gpus} == {Verdict.UNKNOWN}


def test_a_new_gpu_beside_the_known_ones_is_judged() -> None:
    sample = judge_sweep(sweep_of(idle_gpu(0), idle_gpu(1)), GOOD_VIEW, {uuid_of(0): KnownGpu(0)}, STRICT)
    assert [gpu.verdict for gpu in sample.gpus] == [Verdict.CANDIDATE] * 2


BASELINE = RuleSettings(baseline=Baseline(DRIVER, {MODEL: 4 * MIB}))


@pytest.mark.parametrize(
    ("used", "verdict"),
    [(0, Verdict.CANDIDATE), (4 * MIB, Verdict.CANDIDATE), (4 * MIB - 1, Verdict.HELD), (4 * MIB + 1, Verdict.HELD)],
)
def test_a_baseline_is_an_equality_and_no_limit(used: int, verdict: Verdict) -> None:
    assert judge({"memory_used_bytes": used}, settings=BASELINE).gpus[0].verdict is verdict


@pytest.mark.parametrize(
    ("changes", "settings", "driver"),
    [
        ({}, BASELINE, "590.48.02"),
        ({"model": "NVIDIA H100 PCIe"}, BASELINE, DRIVER),
        ({"model": None}, BASELINE, DRIVER),
        ({"graphics": None}, BASELINE, DRIVER),
        ({}, RuleSettings(baseline=Baseline(None, {MODEL: 4 * MIB})), DRIVER),
        ({}, RuleSettings(), DRIVER),
    ],
)
def test_a_baseline_is_void_outside_its_model_driver_and_collector(
    changes: dict[str, Any], settings: RuleSettings, driver: str
) -> None:
    (gpu,) = judge({"memory_used_bytes": 4 * MIB, **changes}, settings=settings, driver=driver).gpus
    assert gpu.verdict is Verdict.HELD


def test_a_baseline_above_64_mib_counts_for_nothing() -> None:
    for used, verdict in ((64 * MIB, Verdict.CANDIDATE), (64 * MIB + 1, Verdict.HELD)):
        settings = RuleSettings(baseline=Baseline(DRIVER, {MODEL: used}))
        assert judge({"memory_used_bytes": used}, settings=settings).gpus[0].verdict is verdict


def test_a_baseline_excuses_memory_only() -> None:
    for changes, _ in HELD:
        if "memory_used_bytes" not in changes:
            (gpu,) = judge({"memory_used_bytes": 4 * MIB, **changes}, settings=BASELINE).gpus
            assert gpu.verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("programs", "verdict"),
    [
        ({}, Verdict.HELD),
        ({50: "Xorg"}, Verdict.CANDIDATE),
        ({50: "Xorg.py"}, Verdict.HELD),
        ({50: "xorg"}, Verdict.HELD),
        ({51: "Xorg"}, Verdict.HELD),
    ],
)
def test_only_a_graphics_program_that_the_operator_named_is_ignored(programs: dict[int, str], verdict: Verdict) -> None:
    settings = RuleSettings(ignore_graphics=frozenset({"Xorg"}))
    sample = judge({"graphics": graphics(50)}, view=replace(GOOD_VIEW, programs=programs), settings=settings)
    assert sample.gpus[0].verdict is verdict


def test_an_ignored_graphics_program_still_holds_the_gpu_as_a_compute_process() -> None:
    settings = RuleSettings(ignore_graphics=frozenset({"Xorg"}))
    view = ProcessView(programs={50: "Xorg"})
    assert judge({"compute": compute(50)}, view=view, settings=settings).gpus[0].verdict is Verdict.HELD
    others = {"graphics": graphics(50, 51)}
    assert judge(others, view=view, settings=settings).gpus[0].reasons == (Reason(ReasonCode.GRAPHICS_PROCESS, "51"),)


def test_without_the_operators_word_no_program_is_ignored() -> None:
    view = ProcessView(programs={50: "Xorg"})
    assert judge({"graphics": graphics(50)}, view=view).gpus[0].verdict is Verdict.HELD
