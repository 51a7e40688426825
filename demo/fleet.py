"""Three simulated nodes beside a bot: the real programs, on recorded readings that the demo writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from demo.gpus import gpu, play, training
from demo.machine import Machine, Program
from demo.parked import ParkedMachine
from demo.runner import Runner
from demo.workspace import Workspace

CHANNEL, CANDIDATES_CHANNEL = "gpu-oncall", "gpu-candidates"
BUSY, PARKED, IDLE = NODES = ("gpu-01", "gpu-02", "gpu-03")
_AGENT = {
    "mode": "demo",
    "collector": "replay",
    "window": "3s",
    "sample_every": "250ms",
    "heartbeat_every": "1s",
    "runners_every": "500ms",
}
_STALL = {"stalled_fast": "6s", "stalled_slow_a": "20s", "idle_settles": "10s"}
_GROUP = {"name": "default", "nodes": ["*"], "approvers": {"users": ["U0ALICE", "U0BOB"]}}
_LIMITS = {"minimum_interval": "10s", "per_day": 20}  # for people who try it again and again
_CHANNELS = {"default": CHANNEL, "candidates": CANDIDATES_CHANNEL}


class Fleet:
    """gpu-01 trains, on gpu-02 a runner holds a context, gpu-03 is idle, until somebody starts or ends a job."""

    def __init__(self, folder: Path, workspace: Workspace, runner: Runner) -> None:
        """`runner` is the one on gpu-02; a restart or a reboot puts it to work."""
        self.folder = folder
        self.parked = ParkedMachine(folder, PARKED, 2, self._recording(PARKED), runner)
        channels = {name: workspace.channel(channel).id for name, channel in _CHANNELS.items()}
        slack = {"api_url": workspace.api_url, "channels": channels, "edit_every": "1s"}
        bot = {"mode": "demo", "candidates": {"gather": "1s"}, "slack": slack, "stall": _STALL, "groups": [_GROUP]}
        tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
        self._machine = machine = Machine(folder, agent=_AGENT, bot=bot, slack=tokens)
        self.start_job(BUSY)
        self.end_job(IDLE)
        more = {PARKED: self._parked(runner.url)}
        nodes = [machine.node(name, replay_file=str(self._recording(name)), **more.get(name, {})) for name in NODES]
        self.programs = [machine.bot(), *nodes]

    def _parked(self, url: str) -> dict[str, Any]:
        """Its runner, and what people may have done to it."""
        power = self.parked.power
        runner = {"name": "chat", "preset": "vllm", "url": url, "canary": {"first_token_timeout": "5s"}}
        remedies = {
            "restart_runner": {"chat": {"command": power.restart_command, **_LIMITS}},
            "reboot_node": {"method": "command", "command": power.reboot_command, **_LIMITS},
            "lock_file": str(self.folder / "remedies.lock"),
        }
        runners = [runner | {"state": {"pid_file": str(self.parked.pid_file)}}]
        return {"boot_file": power.boot_file, "runners": runners, "remedies": remedies}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        bot, *nodes = self.programs
        watching = asyncio.create_task(self.parked.power.watch(nodes[NODES.index(PARKED)]))
        try:
            self.parked.begin()
            await bot.start()
            await self._machine.until_bus_listens()
            for node in nodes:
                await node.start()
            yield
        finally:
            watching.cancel()
            for program in reversed(self.programs):
                await program.stop()
            self.parked.end()

    def start_job(self, node: str) -> None:
        play(self._recording(node), training(0, NODES.index(node) + 1))

    def end_job(self, node: str) -> None:
        play(self._recording(node), gpu(0, NODES.index(node) + 1))

    def state_dir(self, node: str) -> Path:
        return self.folder / node

    def last_words(self) -> str:
        """The ends of all logs."""
        return "\n".join(_last_words(program) for program in self.programs)

    def _recording(self, node: str) -> Path:
        return self.folder / f"{node}.jsonl"


def _last_words(program: Program) -> str:
    lines = program.log.read_text(errors="replace").splitlines() if program.log.exists() else []
    return "\n".join([f"--- {program.name}", *lines[-15:]])
