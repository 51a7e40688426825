"""The cases over HTTP: the agent reads pages and decides when to ask, and the runner answers as the case says."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.runner_config import Canary, HttpJson, RunnerConfig, Source
from agent.runner_reading import GpuLook
from bot.judge.stall import StallVerdict, judge
from tests.agent.answering import Answering, Asked, Reply, Route, answering
from tests.flow.test_stall_closed_loop import CASES, UNTIL_MIN, WITHIN_MIN, answer, last_progress_min
from tests.runner_node import RunnerNode
from tests.stall_cases import Case, continued, first, resampled
from wire.configfile import Duration
from wire.ticks import CanaryOutcome, SignalClass

EVERY = timedelta(seconds=60)
AFTER_MIN = 5.0  # a stall is played on for so long after it was found
# vLLM's page cannot say that it loads: these are told in memory alone.
TOLD = [case for case in CASES if not any(window.get("state") == "loading" for window in case.windows)]
# One of each kind here; all of them in `make chaos`.
QUICK = frozenset({"S04", "S22", "S37", "S38", "L05", "L13", "L24", "L29"})


class CaseRunner:
    """Shows the window of its case that is told now, on vLLM's page, with a proxy's count of requests beside it."""

    def __init__(self, case: Case, server: Answering) -> None:
        self._case = case
        self.window = case.windows[0]
        self.asked_at = list[float]()
        self.good = 0
        server.routes |= {
            "/health": self._if_alive(Reply("")),
            "/metrics": lambda _: Reply(self._page()),
            "/demand": lambda _: Reply({"n": self._demand()}),
            "/v1/models": self._if_alive(Reply({"data": [{"id": "m"}]})),
            "/v1/completions": self._completion,
        }

    def _if_alive(self, reply: Reply) -> Route:
        return lambda _: Reply("", 500) if self.window.get("api_ok") is False else reply

    def _completion(self, asked: Asked) -> Reply:
        assert asked.body.keys() == {"model", "prompt", "max_tokens", "temperature"}
        assert (asked.body["model"], asked.body["max_tokens"]) == ("m", 1)
        self.asked_at.append(self.window["t_min"])
        outcome = answer(self._case, self.window["t_min"])
        self.good += outcome is CanaryOutcome.OK
        return _ANSWERS[outcome]

    def _page(self) -> str:
        counts = {name: self.window.get(name) for name in ("completed", "tokens")}
        if self._case.canary_adds:  # the written counts are those of the written canaries
            counts = {"completed": 501 + self.good, "tokens": 9001 + self.good}
        own = self._demand() if self._case.demand_is_own else self.window.get("server_inflight")
        values = {
            "vllm:request_success_total": counts["completed"],
            "vllm:generation_tokens_total": counts["tokens"],
            "vllm:kv_cache_usage_perc": self.window.get("aux"),
            "vllm:num_requests_running": own,
            'vllm:engine_sleep_state{sleep_state="awake"}': int(self.window.get("state", "ready") != "paused"),
        }
        return "".join(f"{name} {value}\n" for name, value in values.items() if value is not None)

    def _demand(self) -> float | None:
        """A part that is missing here and is not in other windows makes nobody's queue empty."""
        names = [name for name in ("queue", "inflight") if any(w.get(name) is not None for w in self._case.windows)]
        known = [self.window[name] for name in names if self.window.get(name) is not None]
        return sum(known) if known and (sum(known) > 0 or len(known) == len(names)) else None


_ANSWERS = {
    CanaryOutcome.OK: Reply({"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}}),
    CanaryOutcome.TIMEOUT: Reply(hang=True),
    CanaryOutcome.ERROR: Reply("CUDA error", 500),
    CanaryOutcome.BUSY: Reply("", 503),
}


def config_of(case: Case, url: str) -> RunnerConfig:
    """Of class C only API and canary are seen: its page of metrics is nobody's business."""
    is_answered = any(window["canary"] == "ok" for window in case.windows) or not case.is_stall
    canary = Canary(first_token_timeout=Duration(seconds=1.0 if is_answered else 0.1), when_idle="yes")
    demand = None if case.demand_is_own else Source(http_json=HttpJson(f"{url}/demand", "n"))
    preset: Any = "openai" if case.signal_class is SignalClass.C else "vllm"
    return RunnerConfig(name="chat", preset=preset, url=url, canary=canary, demand=demand)


def quick_first(case: Case) -> Any:
    return pytest.param(case, id=case.id, marks=() if case.id in QUICK else pytest.mark.slow)


async def play(case: Case, folder: Path) -> tuple[list[tuple[float, StallVerdict]], list[float]]:
    """What was said in which minute, and in which minutes a canary was sent though tokens moved."""
    story = resampled(continued(case, UNTIL_MIN) if case.is_stall else case, EVERY.total_seconds())
    said, beside_work, before = list[tuple[float, StallVerdict]](), list[float](), story.windows[0]
    async with answering() as server:
        runner = CaseRunner(case, server)
        async with RunnerNode(config_of(case, server.url), folder, EVERY, answer_seconds=10.0) as node:
            for window in story.windows:
                runner.window, sent = window, len(runner.asked_at)
                node.gpu = GpuLook(window.get("gpu_util"), window.get("gpu_power_w"))
                tick = await node.tick()
                said.append((window["t_min"], judge(tick).verdict))
                if len(runner.asked_at) > sent and is_moving(case, before, window):
                    beside_work.append(window["t_min"])
                before = window
                found = first(said, case.expected)
                if case.is_stall and found is not None and window["t_min"] >= found + AFTER_MIN:
                    break
    return said, beside_work


def is_moving(case: Case, before: dict[str, Any], window: dict[str, Any]) -> bool:
    """Of class C nobody sees it."""
    if case.signal_class is SignalClass.C or case.canary_adds:
        return False
    return any(None not in (before.get(n), window.get(n)) and before[n] != window[n] for n in ("tokens", "aux"))


@pytest.mark.parametrize("case", [quick_first(case) for case in TOLD])
async def test_the_agents_own_requests_find_the_stall_over_http_and_raise_nothing_else(tmp_path, case):
    said, beside_work = await play(case, tmp_path)
    print(case.title, *said, sep="\n")
    assert not {verdict for _, verdict in said} & case.never
    assert beside_work == []
    if case.is_stall:
        found = first(said, case.expected)
        assert found is not None
        assert found <= last_progress_min(case) + WITHIN_MIN.get(case.expected, UNTIL_MIN)
