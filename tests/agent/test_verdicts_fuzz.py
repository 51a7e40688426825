"""A GPU that is in use never becomes a candidate, whatever happens to the readings. FUZZ_RUNS sets the size."""

import os
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from agent.collectors import smi_csv
from agent.collectors.nvml import Answer
from agent.collectors.smi_csv import BadOutputError
from agent.reading import ProcessView, Sweep, Unreadable
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import GIB, GOOD_VIEW, compute, graphics, idle_gpu, sweep_of, uuid_of
from wire.messages import Verdict

RUNS = int(os.environ.get("FUZZ_RUNS", "6000"))
SEED = int(os.environ.get("FUZZ_SEED", "20261130"))

TOKENS = [
    "[N/A]",
    "N/A",
    "[Not Supported]",
    "[Unknown Error]",
    "[GPU requires reset]",
    "ERR!",
    "[Insufficient Permissions]",
]
ODD_CELLS = [
    *TOKENS, "", "+0", "-0", "0_0", "00x", "٠", "0.0", "0,0", "0 %", "0 MiB", "0x0", "none", "None", "No", "null", "O",
    " ", "\t0", "0\r", "1e0", "²", "[N/A", "(null)", "\x00", "0000000000000",
]  # fmt: skip

Change = Callable[[random.Random], dict[str, Any]]

IN_USE: list[Change] = [
    lambda rng: {"utilization_percent": rng.randint(1, 100)},
    lambda rng: {"utilization_again_percent": rng.randint(1, 100)},
    lambda rng: {"recent_peak_percent": rng.randint(1, 100)},
    lambda rng: {"memory_used_bytes": rng.randint(1, 80 * GIB)},
    lambda rng: {"compute": compute(*(rng.randint(1, 4194304) for _ in range(rng.randint(1, 40))))},
    lambda rng: {"graphics": graphics(rng.randint(1, 4194304))},
    lambda rng: {"compute": compute(rng.choice([0, -1, 4194305, 2**32 - 1]))},
]
NOISE: list[Change] = [
    lambda rng: {"utilization_percent": Unreadable(rng.choice(TOKENS))},
    lambda rng: {"memory_used_bytes": Unreadable(rng.choice(TOKENS))},
    lambda rng: {"memory_total_bytes": rng.choice([None, 0, -1, 1, Unreadable("[N/A]")])},
    lambda rng: {"compute": Unreadable("Not Supported (NVML 3)")},
    lambda rng: {"graphics": rng.choice([None, Unreadable("Not Supported (NVML 3)")])},
    lambda rng: {"recent_peak_percent": rng.choice([None, -5, 101, Unreadable("Unknown Error (NVML 999)")])},
    lambda rng: {"mig_enabled": rng.choice([None, True, Unreadable("[N/A]")])},
    lambda rng: {"recovery_action": rng.choice([None, "Reset", "none", "", Unreadable("[N/A]")])},
    lambda rng: {"utilization_again_percent": rng.choice([-1, 101, 2**32 - 1])},
    lambda rng: {"uuid": rng.choice(["", "[N/A]", uuid_of(0).upper(), uuid_of(0)[:-1], uuid_of(1)])},
    lambda rng: {"index": rng.choice([-1, 1, 2, 7])},
    lambda rng: {"model": rng.choice([None, "", "x" * 500])},
]


def is_candidate(sweep: Sweep, uuid: str) -> bool:
    sample = judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings())
    return any(gpu.uuid == uuid and gpu.verdict is Verdict.CANDIDATE for gpu in sample.gpus)


def test_readings_of_a_used_gpu_never_make_a_candidate() -> None:
    rng = random.Random(SEED)
    for run in range(RUNS):
        in_use = rng.choice(IN_USE)(rng)
        changes: dict[str, Any] = {}
        for noise in rng.sample(NOISE, rng.randint(0, 4)):
            changes |= noise(rng)
        gpu = idle_gpu(0, **{**changes, **in_use})
        others = [idle_gpu(index) for index in range(1, rng.randint(1, 4))]
        view = GOOD_VIEW if rng.random() < 0.9 else ProcessView(obstacles=("x",))
        sample = judge_sweep(sweep_of(*others, gpu), view, {}, RuleSettings())
        verdicts = [judged.verdict for judged in sample.gpus if judged.uuid == gpu.uuid]
        assert Verdict.CANDIDATE not in verdicts, f"run {run} seed {SEED}: {gpu}"


def used_outputs(rng: random.Random) -> list[str]:
    """GPU 0 is in use by every sign: one broken output leaves two that show it."""
    used, busy = rng.randint(1, 80000), rng.randint(1, 100)
    others = [f"{index}, {uuid_of(index)}, 0, 0, 81559" for index in range(1, rng.randint(1, 4))]
    extra = ", NVIDIA H100 80GB HBM3, 590.48.01, Disabled, None"
    gpus = "".join(f"{row}{extra}\n" for row in [f"0, {uuid_of(0)}, {busy}, {used}, 81559", *others])
    return [gpus, f"{uuid_of(0)}, {rng.randint(1, 4194304)}\n", gpus]


def broken(text: str, rng: random.Random, longest: int = 10**6) -> str:
    """The text with one thing wrong, `longest` characters of it at most where it is a matter of one place."""
    at, to = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
    to = min(to, at + longest)
    return rng.choice(
        [
            lambda: text[:at],
            lambda: text[at:],
            lambda: text[:at] + text[to:],
            lambda: text[:at] + rng.choice(ODD_CELLS) + text[to:],
            lambda: text[:at] + text[at:to] * 2 + text[to:],
            lambda: "".join(rng.sample(text.splitlines(True), len(text.splitlines()))),
            lambda: text.replace(", ", rng.choice([",", ";", "  ", ",,"])),
            lambda: text.replace("\n", rng.choice(["\r\n", "\r", "", "\n\n"])),
            lambda: smi_csv.NO_PROCESSES + "\n",
            lambda: "",
        ]
    )()


COLUMNS = smi_csv.REQUIRED + smi_csv.OPTIONAL


def read(outputs: list[str]) -> Sweep:
    try:
        before, after = smi_csv.parse_gpus(outputs[0], COLUMNS), smi_csv.parse_gpus(outputs[2], COLUMNS)
        return smi_csv.join(before, smi_csv.parse_processes(outputs[1]), after)
    except BadOutputError as error:
        return Sweep(error=str(error))


def test_a_broken_output_of_nvidia_smi_never_frees_a_used_gpu() -> None:
    rng = random.Random(SEED)
    for run in range(RUNS):
        outputs = used_outputs(rng)
        which = rng.randrange(3)
        outputs[which] = broken(outputs[which], rng)
        assert not is_candidate(read(outputs), uuid_of(0)), f"run {run} seed {SEED}: {outputs}"


@pytest.mark.parametrize("column", ["index", "uuid", "utilization.gpu", "memory.used", "memory.total"])
@pytest.mark.parametrize("cell", ODD_CELLS)
def test_no_odd_cell_of_nvidia_smi_reads_as_0(column: str, cell: str) -> None:
    """The same odd cell in both queries of a GPU that otherwise looks idle."""
    values = ["0", uuid_of(0), "0", "0", "81559", "Name", "590.48.01", "Disabled", "None"]
    values[COLUMNS.index(column)] = cell
    output = ", ".join(values) + "\n"
    assert not is_candidate(read([output, "", output]), uuid_of(0))


def test_a_broken_answer_of_the_nvml_worker_never_frees_a_used_gpu() -> None:
    rng = random.Random(SEED)
    used = idle_gpu(
        0, utilization_percent=50, utilization_again_percent=60, memory_used_bytes=7 * GIB, compute=compute(4321)
    )
    whole = msgspec.json.encode(Answer(1, sweep_of(used, idle_gpu(1)))).decode()
    for run in range(RUNS):
        text = broken(whole, rng, longest=20)  # a cut from one GPU's values to another's is no damage of a pipe
        try:
            sweep = msgspec.json.decode(text.encode("utf-8", errors="replace"), type=Answer).sweep
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        assert not is_candidate(sweep, uuid_of(0)), f"run {run} seed {SEED}: {text}"


def test_the_fuzz_finds_a_candidate_where_there_is_one() -> None:
    """Otherwise it could not fail."""
    idle = "0, " + uuid_of(0) + ", 0, 0, 81559, Name, 590.48.01, Disabled, None\n"
    assert is_candidate(read([idle, "", idle]), uuid_of(0))
    assert is_candidate(Sweep((idle_gpu(0),)), uuid_of(0))
