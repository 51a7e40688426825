"""A GPU that is not idle never becomes a candidate, whatever happens to its readings. FUZZ_RUNS sets the size.

Every run mutates a reading whose true state is busy, held or broken, in one of three places: the values that a
collector gives, what nvidia-smi prints, what the NVML worker answers. `make fuzz` does more than 1,000,000 of them; a
failure names its seed, and goes into the tables of the tests beside this file as a case.
"""

import json
import os
import random
from collections.abc import Callable, Mapping
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

NOT_IDLE: list[Change] = [
    lambda rng: {"utilization_percent": rng.randint(1, 100)},
    lambda rng: {"utilization_again_percent": rng.randint(1, 100)},
    lambda rng: {"recent_peak_percent": rng.randint(1, 100)},
    lambda rng: {"memory_used_bytes": rng.randint(1, 80 * GIB)},
    lambda rng: {"compute": compute(*(rng.randint(1, 4194304) for _ in range(rng.randint(1, 40))))},
    lambda rng: {"graphics": graphics(rng.randint(1, 4194304))},
    lambda rng: {"compute": compute(rng.choice([0, -1, 4194305, 2**32 - 1]))},
    lambda rng: {"utilization_percent": Unreadable(rng.choice(TOKENS))},
    lambda rng: {"memory_used_bytes": Unreadable(rng.choice(TOKENS))},
    lambda rng: {"compute": Unreadable("No Permission (NVML 4)")},
    lambda rng: {"mig_enabled": rng.choice([True, Unreadable("Unknown Error (NVML 999)")])},
    lambda rng: {"recovery_action": rng.choice(["Reset", "Reboot", "action 9", Unreadable("[N/A]")])},
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


def is_candidate(sweep: Sweep, uuid: str, view: ProcessView = GOOD_VIEW) -> bool:
    sample = judge_sweep(sweep, view, {}, RuleSettings())
    return any(gpu.uuid == uuid and gpu.verdict is Verdict.CANDIDATE for gpu in sample.gpus)


# --- the values that a collector gives --------------------------------------------------------------------------------


def mutated_values(rng: random.Random) -> tuple[Sweep, str, object]:
    """One sign that it is not idle stays, whatever else changes."""
    not_idle = rng.choice(NOT_IDLE)(rng)
    changes: dict[str, Any] = {}
    for noise in rng.sample(NOISE, rng.choice((0, 0, 1, 1, 2, 3))):
        changes |= noise(rng)
    gpu = idle_gpu(0, **{**changes, **not_idle})
    others = [idle_gpu(index) for index in range(1, rng.randint(1, 4))]
    return sweep_of(*others, gpu), gpu.uuid, gpu


# --- what nvidia-smi prints -------------------------------------------------------------------------------------------

COLUMNS = smi_csv.REQUIRED + smi_csv.OPTIONAL


UTILIZATION, MEMORY = 2, 3  # columns


def mutated_output(rng: random.Random) -> tuple[Sweep, str, object]:
    """GPU 0 is in use by every sign; one of them stays: a cell of one of the two GPU queries, or the process's row."""
    outputs = used_outputs(rng)
    kept_in, kept = rng.choice([(0, UTILIZATION), (0, MEMORY), (1, None), (2, UTILIZATION), (2, MEMORY)])
    for which in range(3):
        if which != kept_in:
            outputs[which] = (plausible if rng.random() < 0.9 else broken)(outputs[which], rng)
        elif kept is not None:
            outputs[which] = plausible(outputs[which], rng, kept)
    return read(outputs), uuid_of(0), outputs


def used_outputs(rng: random.Random) -> list[str]:
    used, busy = rng.randint(1, 80000), rng.randint(1, 100)
    others = [f"{index}, {uuid_of(index)}, 0, 0, 81559" for index in range(1, rng.randint(1, 4))]
    extra = ", NVIDIA H100 80GB HBM3, 590.48.01, Disabled, None"
    gpus = "".join(f"{row}{extra}\n" for row in [f"0, {uuid_of(0)}, {busy}, {used}, 81559", *others])
    return [gpus, f"{uuid_of(0)}, {rng.randint(1, 4194304)}\n", gpus]


PLAUSIBLE: Mapping[int, list[str]] = {
    1: ["1", "4194304", "0", "4194305", "[N/A]", "[Insufficient Permissions]"],  # a PID
    2: ["0", "00", "100", *TOKENS],  # utilisation
    3: ["0", "000", "1", "81559", *TOKENS],  # memory
    4: ["81559", "[N/A]", "1000000"],  # the total
    5: ["Name", "[N/A]", ""],
    7: ["Disabled", "Enabled", "[N/A]", "[Unknown Error]"],
    8: ["None", "Reset", "[N/A]", "[Unknown Error]"],
}


def plausible(text: str, rng: random.Random, kept: int | None = None) -> str:
    """Another text of the very form that a driver prints; GPU 0's cell in the column `kept` stays."""
    rows = [line.split(", ") for line in text.splitlines()]
    if len(rows[0]) == 2:
        moved = f"{uuid_of(0)}, {rng.choice(PLAUSIBLE[1])}\n"
        return rng.choice(["", "", smi_csv.NO_PROCESSES + "\n", text * 2, text + moved, moved])
    if rng.random() < 0.7:
        _exchange(rows[0], (UTILIZATION, MEMORY), ["0"], rng, kept)
    for _ in range(rng.choice((0, 0, 1, 2))):
        row = rng.choice(rows)
        column = rng.choice((2, 3, 4, 5, 7, 8))
        _exchange(row, (column,), PLAUSIBLE[column], rng, kept if row is rows[0] else None)
    separator = rng.choice((", ", ", ", ",", ",  "))
    return "".join(separator.join(row) + "\n" for row in rows)


def _exchange(
    row: list[str], columns: tuple[int, ...], values: list[str], rng: random.Random, kept: int | None
) -> None:
    for column in columns:
        if column != kept:
            row[column] = rng.choice(values)


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


def read(outputs: list[str]) -> Sweep:
    try:
        before, after = smi_csv.parse_gpus(outputs[0], COLUMNS), smi_csv.parse_gpus(outputs[2], COLUMNS)
        return smi_csv.join(before, smi_csv.parse_processes(outputs[1]), after)
    except BadOutputError as error:
        return Sweep(error=str(error))


# --- what the NVML worker answers -------------------------------------------------------------------------------------

ODD_VALUES = [0, 0, 0, None, -1, 101, 2**64, 0.0, 0.5, "0", "", [], {}, True, False]
UNREADABLE = {"type": "Unreadable", "why": "Unknown Error (NVML 999)"}
SIGNS = ("utilization_percent", "memory_used_bytes", "compute", "utilization_again_percent")
OTHERS = ("graphics", "model", "memory_total_bytes", "recent_peak_percent", "mig_enabled", "recovery_action")


def mutated_answer(rng: random.Random) -> tuple[Sweep, str, object]:
    """GPU 0 is in use by four signs, of which at least one stays; or the answer is damaged in one place."""
    used = idle_gpu(
        0, utilization_percent=50, utilization_again_percent=60, memory_used_bytes=7 * GIB, compute=compute(4321)
    )
    whole = msgspec.json.encode(Answer(1, sweep_of(used, idle_gpu(1)))).decode()
    # A cut from one GPU's values to another's is no damage of a pipe.
    text = exchanged(whole, rng) if rng.random() < 0.8 else broken(whole, rng, longest=20)
    try:
        return msgspec.json.decode(text.encode("utf-8", errors="replace"), type=Answer).sweep, uuid_of(0), text
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Sweep(error=str(error)), uuid_of(0), text


def exchanged(text: str, rng: random.Random) -> str:
    answer = json.loads(text)
    gpu = answer["sweep"]["gpus"][0]
    for name in rng.sample(SIGNS, rng.randint(0, 3)) + rng.sample(OTHERS, rng.randint(0, 2)):
        if name in ("compute", "graphics"):
            gpu[name] = rng.choice([[], [], [], UNREADABLE, None])
        elif name in SIGNS:
            gpu[name] = rng.choice([0, 0, 0, 0, UNREADABLE, rng.choice(ODD_VALUES)])
        else:
            gpu[name] = rng.choice([None, None, UNREADABLE, rng.choice(ODD_VALUES)])
    return json.dumps(answer)


# --- the runs ---------------------------------------------------------------------------------------------------------

PLACES = {"values": mutated_values, "nvidia-smi": mutated_output, "nvml worker": mutated_answer}


@pytest.mark.fuzz
@pytest.mark.parametrize("place", PLACES)
def test_a_mutated_reading_of_a_gpu_that_is_not_idle_never_makes_a_candidate(place: str) -> None:
    mutate, parsed = PLACES[place], 0
    for run in range(SEED, SEED + RUNS):
        rng = random.Random(run)
        sweep, uuid, shown = mutate(rng)
        view = GOOD_VIEW if rng.random() < 0.95 else ProcessView(obstacles=("x",))
        sample = judge_sweep(sweep, view, {}, RuleSettings())
        verdicts = [gpu.verdict for gpu in sample.gpus if gpu.uuid == uuid]
        assert Verdict.CANDIDATE not in verdicts, f"{place}, seed {run}: {shown}"
        parsed += not sample.errors
    print(f"{place}: {RUNS} mutated readings, {parsed} of them parsed, no candidate")
    assert parsed >= RUNS / 2


@pytest.mark.parametrize("column", ["index", "uuid", "utilization.gpu", "memory.used", "memory.total"])
@pytest.mark.parametrize("cell", ODD_CELLS)
def test_no_odd_cell_of_nvidia_smi_reads_as_0(column: str, cell: str) -> None:
    """The same odd cell in both queries of a GPU that otherwise looks idle."""
    values = ["0", uuid_of(0), "0", "0", "81559", "Name", "590.48.01", "Disabled", "None"]
    values[COLUMNS.index(column)] = cell
    output = ", ".join(values) + "\n"
    assert not is_candidate(read([output, "", output]), uuid_of(0))


def test_the_fuzz_finds_a_candidate_where_there_is_one() -> None:
    """Otherwise it could not fail."""
    idle = "0, " + uuid_of(0) + ", 0, 0, 81559, Name, 590.48.01, Disabled, None\n"
    assert is_candidate(read([idle, "", idle]), uuid_of(0))
    assert is_candidate(Sweep((idle_gpu(0),)), uuid_of(0))
