"""The cases of tests/cases/stall, as readings that go through the real fold and the real judge."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from agent.progress import CanaryPlan, Memory, Plan, fold
from agent.progress.usual import Gaps
from agent.runner_reading import Api, CanaryResult, GpuLook, RunnerProcess, RunnerReading
from bot.judge.stall import StallVerdict, judge
from tests.build import BOOT, START
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState, SignalClass, Tick, Witness, WitnessKind

CASES = Path(__file__).parent / "cases/stall/cases.yaml"
_NAMES = {"STALL_UNCERTAIN": StallVerdict.UNCERTAIN}
_WITNESSES = {"slots_timeout": WitnessKind.LOOP_HANGS}
_COUNTED = ("completed", "tokens", "aux", "queue", "inflight", "server_inflight")


@dataclass(frozen=True)
class Case:
    id: str
    title: str
    signal_class: SignalClass
    is_stall: bool
    demand_is_own: bool
    tick_seconds: float
    expected: StallVerdict
    raise_by_min: float | None
    never: frozenset[StallVerdict]
    windows: tuple[dict[str, Any], ...]
    canary_adds: dict[str, float]
    gap_seconds: float | None

    def plan(self, *, when_idle: bool = False) -> Plan:
        canary = None if self.signal_class is SignalClass.Q else CanaryPlan(when_idle, self.canary_adds)
        return Plan(self.id.lower(), "case", self.signal_class, self.tick_seconds, canary)

    def memory(self) -> Memory | None:
        """A runner of class Q whose own gaps were learned before, in another boot."""
        if self.gap_seconds is None:
            return None
        gaps = Gaps()
        for _ in range(40):
            gaps = gaps.with_gap(self.gap_seconds)
        return Memory("another-boot", 0.0, gaps=gaps)


def verdict(name: str) -> StallVerdict:
    return _NAMES.get(name) or StallVerdict(name.lower())


@cache
def all_cases() -> tuple[Case, ...]:
    return tuple(_case(raw) for raw in yaml.load(CASES.read_text(), yaml.CSafeLoader)["cases"])


def _case(raw: dict[str, Any]) -> Case:
    adds: dict[str, float] = {}
    if raw.get("canary_counts_in_completed"):
        adds = {"completed": 1.0, "tokens": raw["canary_tokens"]}
    return Case(
        id=raw["id"],
        title=raw["title"],
        signal_class=SignalClass(raw["signal_class"]),
        is_stall=raw["kind"] == "stall",
        demand_is_own=raw["demand_source"] in ("engine", "none"),
        tick_seconds=float(raw["window_s"]),
        expected=verdict(raw["expected_verdict"]),
        raise_by_min=raw.get("first_raise_by_min"),
        never=frozenset(map(verdict, raw["must_never_raise"])),
        windows=tuple(raw["windows"]),
        canary_adds=adds,
        gap_seconds=raw["q_limit_min"] * 60 / 3 if "q_limit_min" in raw else None,
    )


def resampled(case: Case, seconds: float = 30.0) -> Case:
    """The same story in shorter ticks: what is counted grows evenly, a canary's answer comes at the window's end."""
    step_min, windows = seconds / 60, [case.windows[0]]
    for before, window in zip(case.windows, case.windows[1:], strict=False):
        steps = max(1, round((window["t_min"] - before["t_min"]) / step_min))
        windows += [_between(before, window, step / steps) for step in range(1, steps)] + [window]
    return Case(**{**vars(case), "windows": tuple(windows), "tick_seconds": min(seconds, case.tick_seconds)})


def _between(before: dict[str, Any], window: dict[str, Any], share: float) -> dict[str, Any]:
    mixed = {**window, "canary": "skipped", "t_min": before["t_min"] + share * (window["t_min"] - before["t_min"])}
    for name in ("completed", "tokens", "aux"):
        first, last = before.get(name), window.get(name)
        if first is not None and last is not None:
            mixed[name] = first + int(share * (last - first)) if last >= first else last
    mixed["canary_outstanding_seconds"] = None
    if window["canary"] in ("timeout", "busy"):  # it was sent when the window began
        mixed["canary_outstanding_seconds"] = share * (window["t_min"] - before["t_min"]) * 60
    return mixed


def continued(case: Case, until_min: float) -> Case:
    """A stall goes on as it was in its last window."""
    windows, step_min = list(case.windows), case.tick_seconds / 60
    while windows[-1]["t_min"] + step_min <= until_min:
        windows.append({**windows[-1], "t_min": windows[-1]["t_min"] + step_min})
    return Case(**{**vars(case), "windows": tuple(windows)})


def with_holes(case: Case, share: float, chance: random.Random) -> Case:
    """Readings are missing at random: each by itself."""
    return Case(**{**vars(case), "windows": tuple(_holed(window, share, chance) for window in case.windows)})


def _holed(window: dict[str, Any], share: float, chance: random.Random) -> dict[str, Any]:
    holed = dict(window)
    for name in (*_COUNTED, "gpu_util", "api_ok", "canary"):
        if holed.get(name) is not None and chance.random() < share:
            holed[name] = "skipped" if name == "canary" else None
    return holed


def reading(case: Case, window: dict[str, Any], *, with_canary: bool = True) -> RunnerReading:
    demand = _demand(case, window)
    own = float(window["server_inflight"]) if window.get("server_inflight") is not None else None
    state = RunnerState(window.get("state", "ready"))
    aux = window.get("aux")
    return RunnerReading(
        api=_api(window.get("api_ok")),
        process=RunnerProcess(ProcessState.ALIVE if window["process_alive"] else ProcessState.GONE),
        completed=_number(window.get("completed")),
        counters={} if window.get("tokens") is None else {"tokens": float(window["tokens"])},
        gauges={} if aux is None or state is RunnerState.LOADING else {"aux": float(aux)},
        demand=None if case.demand_is_own else demand,
        own_demand=demand if case.demand_is_own else own,
        state=state,
        load=_number(aux) if state is RunnerState.LOADING else None,
        gpu=GpuLook(window.get("gpu_util"), window.get("gpu_power_w")),
        witnesses=tuple(Witness(_WITNESSES.get(name, WitnessKind.UNKNOWN)) for name in window.get("witness") or ()),
        exporter=str(window["epoch"]) if "epoch" in window else None,
        canary=_canary(case, window) if with_canary else None,
        canary_outstanding_seconds=window.get("canary_outstanding_seconds") if with_canary else None,
    )


def _demand(case: Case, window: dict[str, Any]) -> float | None:
    """A part that is missing here and is not in other windows makes nobody's queue empty."""
    names = [name for name in ("queue", "inflight") if any(w.get(name) is not None for w in case.windows)]
    known = [window[name] for name in names if window.get(name) is not None]
    return float(sum(known)) if known and (sum(known) > 0 or len(known) == len(names)) else None


def _api(is_ok: bool | None) -> Api | None:
    return None if is_ok is None else Api(ApiState.OK if is_ok else ApiState.TIMEOUT)


def _canary(case: Case, window: dict[str, Any]) -> CanaryResult | None:
    if window["canary"] == "skipped":
        return None
    return CanaryResult(CanaryOutcome(window["canary"]), window.get("canary_sent_seconds_ago", case.tick_seconds))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def ticks(case: Case) -> Iterator[tuple[float, Tick]]:
    """(minute, tick) of the case as it is written, canaries included."""
    memory, plan = case.memory(), case.plan()
    for window in case.windows:
        at_seconds = 1e5 + window["t_min"] * 60 + window.get("gap_s", 0)
        memory, tick = fold(
            memory,
            reading(case, window),
            plan,
            boot_id=BOOT,
            at_seconds=at_seconds,
            taken_at=START + timedelta(seconds=at_seconds),
        )
        yield window["t_min"], tick


def verdicts(case: Case) -> list[tuple[float, StallVerdict]]:
    return [(minute, judge(tick).verdict) for minute, tick in ticks(case)]


def first(said: Sequence[tuple[float, StallVerdict]], wanted: StallVerdict) -> float | None:
    return next((minute for minute, verdict in said if verdict is wanted), None)


def shifted(case: Case, window: dict[str, Any], **changes: Any) -> RunnerReading:
    return replace(reading(case, window, with_canary=False), **changes)
