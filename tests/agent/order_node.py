"""A node that takes orders, for tests: the real agent, a runner that fails, its own systemctl, and the bot's side."""

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agent.clock import Clock
from agent.runners import proc
from tests.agent.answering import Answering, Reply, answering
from tests.build import BOOT
from tests.build_orders import KEY
from tests.nats_server import NatsServer, until
from wire import nodefiles, subjects
from wire.acks import Failure
from wire.link import Link
from wire.messages import Heartbeat, decode_heartbeat
from wire.orders import LIFE, AcceptedProcess, Action, Order, OrderVerdict, RunnerFacts, sign_order
from wire.remedies import Answer, JournalEntry, NodeRemedies, OrderState, decode_answer
from wire.ticks import Tick

METRICS = (Path(__file__).parents[1] / "cases/runners/vllm_v1.txt").read_text()
TOKEN = Reply({"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})
ENDED = (OrderState.REFUSED, OrderState.DONE, OrderState.FAILED, OrderState.LOST)
SECONDS = 30.0


class OrderNode:
    """`runner` is a process that stands for the runner's; `systemctl` ends it unless a test writes another one.

    `also` names more runners that the same process serves.
    """

    def __init__(
        self, server: NatsServer, bot: Link, vllm: Answering, name: str, folder: Path, **settings: Any
    ) -> None:
        self.server, self.bot, self.vllm, self.name, self.folder = server, bot, vllm, name, folder
        self.beats: list[Heartbeat] = []
        self.programs = folder / "bin"
        self.also = settings.pop("also", ())
        self.settings = settings
        self.runner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self._agent: asyncio.subprocess.Process | None = None

    async def start(self, boot_id: str = BOOT, dies_at: str = "") -> None:
        """The agent; heard from when this returns."""
        self.beats.clear()
        with (self.folder / "agent.log").open("ab") as log:
            self._agent = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.agent.order_agent", self.folder / "config.yaml", boot_id, dies_at),
                env={**os.environ, "PATH": f"{self.programs}:/usr/bin:/bin"},
                stderr=log,
            )
        await until(lambda: self.beats and self.beats[-1].runners and self.beats[-1].gpus, "it is heard", SECONDS)

    async def kill(self) -> None:
        """Like a power cut."""
        assert self._agent is not None
        with contextlib.suppress(ProcessLookupError):
            self._agent.kill()
        await self.dead()

    async def dead(self) -> None:
        """Until the agent has ended by itself."""
        assert self._agent is not None
        await asyncio.wait_for(self._agent.wait(), SECONDS)

    async def stop(self) -> None:
        assert self._agent is not None
        self._agent.terminate()
        await self.dead()

    @property
    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    async def prepare(self) -> None:
        for folder in (self.folder, self.programs, self.folder / "state"):
            folder.mkdir(exist_ok=True)
        self.hold(self.runner.pid)
        (self.folder / "runner.pid").write_text(str(self.runner.pid))
        nodefiles.order_key_file(self.folder / "state").write_text(nodefiles.order_key_text(bytes(KEY.verify_key)))
        self.systemctl('kill -TERM "$GPU_ONCALL_PID"')
        (self.folder / "config.yaml").write_text(json.dumps({"agent": self._config()}))
        self.vllm.routes |= {"/health": Reply(""), "/metrics": Reply(METRICS)}
        self.vllm.routes |= {"/v1/models": Reply({"data": [{"id": "m"}]}), "/v1/completions": Reply("", 500)}
        await self.bot.subscribe(subjects.heartbeat(self.name), self._hear)

    def _config(self) -> dict[str, Any]:
        key = str(self.server.key_file(self.name))
        runner = {"name": "chat", "preset": "vllm", "url": self.vllm.url, "canary": {"first_token_timeout": "5s"}}
        runner["state"] = {"pid_file": str(self.folder / "runner.pid")}
        remedies = {
            "restart_runner": {"chat": {"systemd_unit": "vllm.service"}},
            "reboot_node": {},
            "lock_file": str(self.folder / "lock"),
        }
        return {
            "node": self.name,
            "mode": "demo",
            "state_dir": str(self.folder / "state"),
            "bus": {"servers": [self.server.url], "credentials": key, "insecure": True},
            **{"window": "500ms", "sample_every": "50ms", "heartbeat_every": "200ms", "runners_every": "500ms"},
            "runners": [runner, *({**runner, "name": name} for name in self.also)],
            "remedies": {**remedies, **self.settings},
        }

    def hold(self, *pids: int | str) -> None:
        """Who is on the GPU. By rename: the agent never reads half a file."""
        (self.folder / "pids.new").write_text(" ".join(map(str, pids)))
        (self.folder / "pids.new").rename(self.folder / "pids")

    def systemctl(self, then: str) -> None:
        path = self.programs / "systemctl"
        path.write_text(f'#!/bin/sh\necho "$@" >> "$0.args"\n{then}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @property
    def done(self) -> list[str]:
        """What systemctl was told to do; empty: nothing was done."""
        path = self.programs / "systemctl.args"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def remedies(self) -> NodeRemedies:
        assert self.beats[-1].remedies is not None
        return self.beats[-1].remedies

    @property
    def tick(self) -> Tick:
        return next(tick for tick in self.beats[-1].runners if tick.runner == "chat")

    async def stalled(self) -> None:
        """Until its clock of no progress runs, so that there is something to lose."""
        await until(lambda: self.tick.no_progress_seconds > 0.5, "nothing moves", SECONDS)

    def order(self, action: Action = Action.RESTART_RUNNER, life: timedelta = LIFE, **changes: Any) -> Order:
        """As the bot would make it from what it has heard last."""
        beat, tick, now = self.beats[-1], self.tick, Clock().wall()
        facts = RunnerFacts(
            runner=tick.runner,
            signal_class=tick.signal_class,
            epoch=tick.epoch,
            pid=tick.pid,
            started=tick.process_started,
            completed=tick.completed,
            progress=tick.progress,
            load=tick.load,
            no_progress_seconds=tick.no_progress_seconds,
        )
        listed = {(process.pid, process.started) for gpu in beat.gpus for process in gpu.processes or ()}
        values: dict[str, Any] = {
            "version": 1,
            "order_id": os.urandom(16).hex(),
            "action": action,
            "node": self.name,
            "boot_id": beat.boot_id,
            "spool_epoch": beat.spool_epoch,
            "challenge": self.remedies.challenge,
            "fence": 7,
            "incident_id": 12,
            "verdict": OrderVerdict.STALLED,
            "issued": now,
            "expires": now + life,
            "runner": facts,
            "processes": [AcceptedProcess(*process) for process in sorted(listed)],
            "approvers": ["U0123"],
            "reason": "no token for 17 minutes",
        }
        return Order(**{**values, **changes})

    async def ask(self, order: Order | bytes) -> Answer:
        message = order if isinstance(order, bytes) else sign_order(KEY, order)
        answer = await self.send(message)
        assert isinstance(answer, bytes), answer
        return decode_answer(self.name, answer)

    async def send(self, message: bytes, seconds: float = 10.0) -> bytes | Failure:
        return await self.bot.request(subjects.command(self.name), message, timedelta(seconds=seconds))

    async def entry(self, order: Order, *states: OrderState) -> JournalEntry:
        """The journal's entry of the order, once it is in one of the states (default: it has ended)."""
        found: JournalEntry = await until(lambda: self._entry(order, states or ENDED), "the order's outcome", SECONDS)
        return found

    def _entry(self, order: Order, states: tuple[OrderState, ...]) -> JournalEntry | None:
        remedies = self.beats[-1].remedies if self.beats else None
        entries = [] if remedies is None else remedies.journal
        return next((e for e in entries if e.order_id == order.order_id and e.state in states), None)

    async def _hear(self, message: Any) -> None:
        self.beats.append(decode_heartbeat(message.subject, message.data))

    def runner_lives(self) -> bool:
        return proc.process(self.runner.pid).pid is not None

    async def end(self) -> None:
        if self._agent is not None:
            await self.kill()
        self.runner.kill()
        self.runner.communicate()


@contextlib.asynccontextmanager
async def order_node(
    server: NatsServer, bot: Link, folder: Path, name: str = "node-a", **settings: Any
) -> AsyncIterator[OrderNode]:
    """Prepared and not started; its agent is killed at the end."""
    async with answering() as vllm:
        node = OrderNode(server, bot, vllm, name, folder, **settings)
        try:
            await node.prepare()
            yield node
        finally:
            await node.end()


def with_facts(order: Order, **changes: Any) -> Order:
    assert order.runner is not None
    return replace(order, runner=replace(order.runner, **changes))
