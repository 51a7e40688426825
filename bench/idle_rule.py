"""The rule that most people have, `utilisation == 0 for 15m`, on our cases: how many does it tell wrongly?

What the rule says is worked out here, and then put before promtool, which evaluates it as Prometheus does.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.figure import Figure
from tests.stall_cases import all_cases, verdicts

FOR_MINUTES = 15
_READINGS = Path(__file__).parents[1] / "tests" / "cases" / "nvidia_smi"
_READING_MINUTES = 20
PEER = f"utilisation == 0 for {FOR_MINUTES}m"
_READINGS_WORDS = (
    "as tests/cases/nvidia_smi has it: held, or nobody can tell; four of them read 1 to 5 MiB without a process, which "
    "our rule leaves out; ours are asserted by tests/agent/test_collectors_cases.py"
)
RULE = {"alert": "Idle", "expr": "utilization == 0", "for": f"{FOR_MINUTES}m"}


@dataclass(frozen=True)
class Series:
    """A GPU's utilisation at each minute, None where an exporter has no number; `is_right`: it may be called idle."""

    name: str
    minutes: Sequence[float | None]
    is_right: bool

    def fires_at(self) -> int | None:
        """The first minute at which the alert fires."""
        run = 0
        for minute, value in enumerate(self.minutes):
            run = run + 1 if value == 0 else 0
            if run > FOR_MINUTES:
                return minute
        return None


def measure() -> list[Figure]:
    readings, stalls = list(reading_series()), list(stall_series())
    if shutil.which("promtool") is None:
        print("there is no promtool: what the rule says was worked out, and not asked of Prometheus")
    else:
        confirm([*readings, *stalls])
    return [
        _figure("GPUs of recorded readings told wrongly", readings, 0, _READINGS_WORDS),
        _figure(
            "stories of stalls and look-alikes told wrongly", stalls, _told_wrongly(), "as tests/cases/stall has it"
        ),
    ]


def _figure(name: str, series: Sequence[Series], ours: int, words: str) -> Figure:
    said = [one.fires_at() is not None for one in series]
    false_words = sum(fires and not one.is_right for fires, one in zip(said, series, strict=True))
    missed = sum(not fires and one.is_right for fires, one in zip(said, series, strict=True))
    work = f"of {len(series)}, {words}; the rule: {false_words} false words, {missed} missed"
    return Figure(name, [ours], "cases", work, "0", PEER, [false_words + missed])


def reading_series() -> Iterator[Series]:
    """Each GPU of each recorded reading, as an exporter shows it that drops what is no number, for twenty minutes."""
    for file in sorted(_READINGS.glob("[01]*.txt")):
        text = file.read_bytes().decode(errors="replace")
        line = next(line for line in text.splitlines() if line.startswith("# expect: "))
        expected = dict(item.split("=") for item in line.removeprefix("# expect: ").split())
        shown = _utilisation(text)
        for uuid in expected.keys() | shown.keys():
            is_free = expected.get(uuid, expected.get("*")) == "yes"
            if uuid != "*":
                yield Series(f"{file.stem} {uuid}", [shown.get(uuid)] * _READING_MINUTES, is_free)


def _utilisation(text: str) -> dict[str, float]:
    """By UUID: what NVML answered in the case, else what nvidia-smi printed; nothing of a command that failed."""
    blocks = dict(block.partition("\n")[::2] for block in text.split("\n### ")[1:])
    answers = [json.loads(part.partition("\n")[2]) for part in text.split("\n### ")[1:] if part.startswith("nvml\n")]
    if answers:
        return {one["uuid"]: float(one["util"]) for one in answers if isinstance(one["util"], int | float)}
    if blocks.get("exit gpu", "0").strip() != "0":
        return {}
    rows = [line.split(",") for line in blocks.get("stdout gpu", "").splitlines()]
    cells = {row[1].strip(): row[2].strip() for row in rows if len(row) > 2}
    return {uuid: float(cell) for uuid, cell in cells.items() if uuid and cell.isascii() and cell.isdecimal()}


def stall_series() -> Iterator[Series]:
    """The GPU of each story, minute by minute; its last window goes on, as the stall does."""
    for case in all_cases():
        minutes, windows = [], list(case.windows)
        for minute in range(int(windows[-1]["t_min"]) + 1):
            window = next(one for one in windows if one["t_min"] >= minute)
            minutes.append(window.get("gpu_util"))
        yield Series(case.id, minutes, case.is_stall)


def _told_wrongly() -> int:
    """Of our own judge: the expected verdict is not reached, or one is that must never be."""
    said = [({verdict for _, verdict in verdicts(case)}, case) for case in all_cases()]
    return sum(case.expected not in heard or bool(heard & case.never) for heard, case in said)


def confirm(series: Sequence[Series]) -> None:
    """Raises CalledProcessError where Prometheus would say something else than we worked out."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "idle", "rules": [RULE]}]}))
        document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": list(map(_test, series))}
        (folder / "tests.yaml").write_text(yaml.safe_dump(document))
        command = ["promtool", "test", "rules", "tests.yaml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def _test(series: Series) -> dict[str, object]:
    values = " ".join("stale" if value is None else f"{value:g}" for value in series.minutes)
    fires_at = series.fires_at()
    minutes = range(len(series.minutes)) if fires_at is None else (max(0, fires_at - 1), fires_at)
    told = [{"exp_labels": {"gpu": "0"}}]
    tests = [{"eval_time": f"{m}m", "alertname": "Idle", "exp_alerts": told if m == fires_at else []} for m in minutes]
    return {
        "name": series.name,
        "interval": "1m",
        "input_series": [{"series": 'utilization{gpu="0"}', "values": values}],
        "alert_rule_test": tests,
    }
