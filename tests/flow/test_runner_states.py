"""Every preset that the demo's runner speaks, in every state: what the agent reads over HTTP, and what is concluded."""

import os
import random
import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from agent.runner_config import Canary, RunnerConfig, StateLayer
from agent.runner_reading import GpuLook
from agent.runners import proc
from bot.judge.stall import StallVerdict as V
from bot.judge.stall import judge
from demo.runner import SURFACES, Process, Runner, State
from demo.runner.life import HOLDING
from demo.runner.surfaces import CONTEXT, MODEL
from tests.nats_server import until
from tests.runner_node import RunnerNode
from wire.configfile import Duration
from wire.ticks import ProcessState, Tick

EVERY = timedelta(seconds=120)  # so that an hour is thirty ticks; the pauses between canaries stay as they are
LEAD_TICKS, TICKS, HANGING_TICKS = 20, 34, 21
# What holds a request never answers it, so that how long it is waited for changes nothing but the test's own time.
HANGS = HOLDING | {State.ASLEEP}
PATIENT, HASTY = 10.0, 0.05
LOOP_SECONDS = 0.6  # how long a page is waited for that hangs with the loop of llama.cpp


def node_of(url: str, preset: str, folder: Path, state: State) -> RunnerNode:
    canary = Canary(first_token_timeout=Duration(seconds=HASTY if state in HANGS else PATIENT))
    config = RunnerConfig(name="chat", preset=preset, url=url, canary=canary)
    loop_hangs = preset == "llama.cpp" and state is State.HUNG
    node = RunnerNode(config, folder, EVERY, LOOP_SECONDS if loop_hangs else PATIENT)
    node.gpu = GpuLook(utilization_percent=100)  # at work all the time: no verdict can lean on it
    return node


@dataclass(frozen=True)
class Concluded:
    """The last tick: API, state, how many wait by its own word, whether work moves, the last canary and the class.

    `is_asked`: a canary was sent in this state. `verdict` is the worst in an hour, `by_minute` when it was there.
    """

    api: str
    state: str
    waits: float | None
    moves: bool
    canary: str
    is_asked: bool
    signal_class: str
    verdict: V
    by_minute: int


NONE = "-"  # not read, or none was sent
TABLE = {
    ("vllm", State.WORKING): Concluded("ok", "ready", 3, True, NONE, False, "A", V.WORKING, 2),
    ("vllm", State.RESTING): Concluded("ok", "ready", 0, False, "ok", True, "A", V.IDLE, 2),
    ("vllm", State.LONG_PREFILL): Concluded("ok", "ready", 3, True, NONE, False, "A", V.RUNAWAY, 60),
    ("vllm", State.THINKING): Concluded("ok", "ready", 3, True, NONE, False, "A", V.RUNAWAY, 60),
    ("vllm", State.LOADING): Concluded("refused", "ready", None, False, NONE, False, "A", V.DOWN, 6),
    ("vllm", State.ASLEEP): Concluded("ok", "paused", 0, False, NONE, False, "A", V.PAUSED, 2),
    ("vllm", State.HUNG): Concluded("ok", "ready", 3, False, "timeout", True, "A", V.STALLED, 18),
    ("vllm", State.HUNG_AT_ZERO): Concluded("ok", "ready", 0, False, "timeout", True, "A", V.STALLED, 26),
    ("vllm", State.ERRORING): Concluded("ok", "ready", 3, False, "error", True, "A", V.ERRORING, 12),
    ("vllm", State.DEAD): Concluded("refused", "ready", None, False, NONE, False, "A", V.DOWN, 6),
    ("vllm", State.SLOW): Concluded("ok", "ready", 3, True, NONE, False, "A", V.DEGRADED, 28),
    ("vllm", State.WANTS_KEY): Concluded("ok", "ready", 0, False, "config", False, "A", V.BLIND, 16),
    # An Ollama without llama-server shows no tokens: of a long job nobody can say that it is one, nor that it hangs.
    ("ollama", State.WORKING): Concluded("ok", "ready", 0, True, NONE, False, "C", V.WORKING, 2),
    ("ollama", State.RESTING): Concluded("ok", "unloaded", 0, False, NONE, False, "C", V.IDLE, 2),
    ("ollama", State.LONG_PREFILL): Concluded("ok", "ready", 1, False, "timeout", True, "C", V.UNCERTAIN, 36),
    ("ollama", State.THINKING): Concluded("ok", "ready", 1, False, "timeout", True, "C", V.UNCERTAIN, 36),
    ("ollama", State.LOADING): Concluded("ok", "ready", 0, True, NONE, False, "C", V.WORKING, 2),
    ("ollama", State.ASLEEP): Concluded("ok", "unloaded", 0, False, NONE, False, "C", V.IDLE, 2),
    ("ollama", State.HUNG): Concluded("ok", "ready", 1, False, "timeout", True, "C", V.UNCERTAIN, 36),
    ("ollama", State.HUNG_AT_ZERO): Concluded("ok", "ready", 0, False, "timeout", True, "C", V.UNCERTAIN, 40),
    ("ollama", State.ERRORING): Concluded("ok", "ready", 1, False, "error", True, "C", V.ERRORING, 18),
    ("ollama", State.DEAD): Concluded("refused", "ready", None, False, NONE, False, "C", V.DOWN, 6),
    ("ollama", State.SLOW): Concluded("ok", "ready", 1, False, "ok", True, "C", V.SUSPECT, 8),
    ("ollama", State.WANTS_KEY): Concluded(NONE, "ready", None, False, NONE, False, "C", V.BLIND, 10),
    ("llama.cpp", State.WORKING): Concluded("ok", "ready", 3, True, NONE, False, "A", V.WORKING, 2),
    ("llama.cpp", State.RESTING): Concluded("ok", "ready", 0, False, "ok", True, "A", V.WORKING, 2),
    ("llama.cpp", State.LONG_PREFILL): Concluded("ok", "ready", 3, True, NONE, False, "A", V.WORKING, 2),
    ("llama.cpp", State.THINKING): Concluded("ok", "ready", 3, True, NONE, False, "A", V.WORKING, 2),
    ("llama.cpp", State.LOADING): Concluded("status", "loading", None, False, NONE, False, "A", V.LOADING, 2),
    ("llama.cpp", State.ASLEEP): Concluded("ok", "unloaded", 0, False, NONE, False, "A", V.IDLE, 2),
    ("llama.cpp", State.HUNG): Concluded("ok", "ready", None, False, "timeout", True, "A", V.STALLED, 18),
    ("llama.cpp", State.HUNG_AT_ZERO): Concluded("ok", "ready", 0, False, "timeout", True, "A", V.STALLED, 28),
    ("llama.cpp", State.ERRORING): Concluded("ok", "ready", 3, False, "error", True, "A", V.ERRORING, 14),
    ("llama.cpp", State.DEAD): Concluded("refused", "ready", None, False, NONE, False, "A", V.DOWN, 6),
    ("llama.cpp", State.SLOW): Concluded("ok", "ready", 3, True, NONE, False, "A", V.DEGRADED, 32),
    ("llama.cpp", State.WANTS_KEY): Concluded("ok", "ready", None, False, "config", True, "A", V.BLIND, 10),
}
OPTIONS = {
    "vllm": {"model": MODEL, "max_tokens": 1, "temperature": 0},
    "ollama": {"model": MODEL, "stream": False, "options": {"num_predict": 1, "num_ctx": CONTEXT}},
    "llama.cpp": {"n_predict": 1, "cache_prompt": False},
}


def test_every_state_of_every_surface_is_in_the_table():
    assert set(TABLE) == {(surface, state) for surface in SURFACES for state in State}


@pytest.mark.parametrize(("preset", "state"), TABLE, ids=lambda part: str(part).replace(".", "_"))
async def test_what_is_read_and_concluded_of_a_runner_that_worked_before(tmp_path, preset, state):
    is_endless = preset == "ollama" and state is State.HUNG_AT_ZERO  # else its list would show that it is overdue
    runner = Runner(State.WORKING, preset, is_endless=is_endless)
    runner.life.look_seconds = int(EVERY.total_seconds())
    async with runner, node_of(runner.url, preset, tmp_path, state) as node:
        for _ in range(LEAD_TICKS):
            await node.tick()
        assert is_endless or runner.generations == []  # of that list nothing shows that it works
        runner.log.clear()
        await runner.put(state)
        ticks = [await node.tick() for _ in range(ticks_in(preset, state))]
    assert concluded(ticks, runner) == TABLE[preset, state]
    assert_only_canaries(runner, preset)


def ticks_in(preset: str, state: State) -> int:
    if preset == "llama.cpp" and state is State.HUNG:
        return 10  # each waits for two pages in vain
    return HANGING_TICKS if state in HANGS and TABLE[preset, state].is_asked else TICKS


def concluded(ticks: list[Tick], runner: Runner) -> Concluded:
    verdicts, last = [judge(tick).verdict for tick in ticks], ticks[-1]
    worst = max(verdicts, key=list(V).index)
    return Concluded(
        api=last.api or NONE,
        state=last.state,
        waits=last.own_demand,
        moves=last.has_moved,
        canary=last.canary or NONE,
        is_asked=bool(runner.generations),
        signal_class=last.signal_class,
        verdict=worst,
        by_minute=(verdicts.index(worst) + 1) * int(EVERY.total_seconds()) // 60,
    )


def assert_only_canaries(runner: Runner, preset: str) -> None:
    """One token, the options of real traffic, each with a nonce of its own, and to what is loaded."""
    bodies = [dict(asked.body) for asked in runner.generations]
    prompts = {body.pop("prompt") for body in bodies}
    assert len(prompts) == len(bodies)
    assert all(body == OPTIONS[preset] for body in bodies)
    assert all(asked.loaded for asked in runner.generations)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("preset", ["vllm", "llama.cpp"])
async def test_whatever_happens_no_canary_comes_beside_moving_tokens_or_to_an_unloaded_model(tmp_path, preset, seed):
    """The log of the runner proves it. An Ollama without llama-server is left out: it shows no tokens that move."""
    chance = random.Random(f"{preset} {seed}")
    states = [state for state in State if preset == "vllm" or state is not State.HUNG]  # HUNG is slow there
    async with (
        Runner(State.WORKING, preset) as runner,
        node_of(runner.url, preset, tmp_path, State.HUNG_AT_ZERO) as node,
    ):
        for _ in range(25):
            await runner.put(chance.choice(states))
            for _ in range(chance.randint(1, 7)):
                await node.tick()
    assert runner.generations
    assert {asked.state for asked in runner.generations if asked.beside_work} == set()
    assert_only_canaries(runner, preset)


async def test_where_its_process_is_seen_a_start_is_no_death_and_a_stop_and_a_death_are_told_apart(tmp_path):
    async with Process("vllm", State.LOADING) as runner:
        (tmp_path / "pid").write_text(str(runner.pid))
        state = StateLayer(pid_file=tmp_path / "pid")
        config = RunnerConfig(name="chat", preset="vllm", url=runner.url, canary=False, state=state)
        async with RunnerNode(config, tmp_path, EVERY, LOOP_SECONDS) as node:

            async def after(minutes: int) -> tuple[str, str | None, V]:
                for _ in range(minutes // 2):
                    tick = await node.tick()
                return str(tick.process), tick.api, judge(tick).verdict

            assert await after(10) == ("alive", "refused", V.LOADING), "nobody listens yet"
            await runner.put(State.WORKING)
            assert await after(10) == ("alive", "ok", V.WORKING)
            os.kill(runner.pid, signal.SIGSTOP)
            await until(lambda: proc.process(runner.pid).state is ProcessState.STOPPED, "it stands")
            assert await after(6) == ("stopped", "timeout", V.DOWN)
            os.kill(runner.pid, signal.SIGKILL)
            await until(lambda: proc.process(runner.pid).state is ProcessState.GONE, "it is gone")
            assert await after(4) == ("gone", "refused", V.DOWN)


async def test_an_ollama_whose_child_shows_its_tokens_is_judged_by_them(tmp_path):
    """Two processes, as newer versions have them: the child's slots tell a long job from a hang."""
    async with Process("ollama", State.WORKING, "--child") as ollama:
        node = node_of(ollama.url, "ollama", tmp_path, State.HUNG)
        said = {}
        for state in (State.WORKING, State.LONG_PREFILL, State.THINKING, State.LOADING):
            await ollama.put(state)
            said[state] = [judge(await node.tick()).verdict for _ in range(16)][1:]
        assert await ollama.generations() == []
        assert {verdict for verdicts in said.values() for verdict in verdicts} <= {V.WORKING, V.LOADING}
        assert said[State.LOADING][-1] is V.LOADING
        await ollama.put(State.WORKING)
        await node.tick()
        await ollama.put(State.HUNG_AT_ZERO)
        hung = [await node.tick() for _ in range(26)]
        await node.watch.close()
        assert hung[-1].signal_class == "A"
        assert judge(hung[-1]).verdict is V.STALLED
        asked = await ollama.generations()
        assert asked
        assert all(one["body"]["options"] == {"num_predict": 1, "num_ctx": CONTEXT} for one in asked)


async def test_of_two_ollamas_on_a_node_each_is_judged_by_its_own_child(tmp_path):
    pair = Process("ollama", State.WORKING, "--child"), Process("ollama", State.WORKING, "--child")
    async with pair[0], pair[1] as hangs:
        node = node_of(hangs.url, "ollama", tmp_path, State.HUNG)
        await node.tick()
        await hangs.put(State.HUNG_AT_ZERO)
        ticks = [await node.tick() for _ in range(4)]
        await node.watch.close()
        assert not any(tick.has_moved for tick in ticks[1:]), "what the other one does is no work of this one"
        assert ticks[-1].signal_class == "A"
