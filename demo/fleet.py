"""Three simulated nodes beside a bot: the real programs, on recorded readings that the demo writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from demo.gpus import gpu, parked, play, training
from demo.machine import Machine, Program
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
_CHANNELS = {"default": CHANNEL, "candidates": CANDIDATES_CHANNEL}


class Fleet:
    """gpu-01 trains, on gpu-02 a runner holds a context, gpu-03 is idle, until somebody starts or ends a job."""

    def __init__(self, folder: Path, workspace: Workspace, runner_url: str) -> None:
        """`runner_url` is where the runner on gpu-02 answers."""
        self.folder = folder
        channels = {name: workspace.channel(channel).id for name, channel in _CHANNELS.items()}
        slack = {"api_url": workspace.api_url, "channels": channels, "edit_every": "1s"}
        bot = {"mode": "demo", "candidates": {"gather": "1s"}, "slack": slack, "stall": _STALL}
        tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
        self._machine = machine = Machine(folder, agent=_AGENT, bot=bot, slack=tokens)
        play(self._recording(PARKED), parked(0, 2))
        self.start_job(BUSY)
        self.end_job(IDLE)
        runner = {"name": "chat", "preset": "vllm", "url": runner_url, "canary": {"first_token_timeout": "5s"}}
        runners = {PARKED: [runner]}
        nodes = [
            machine.node(name, replay_file=str(self._recording(name)), runners=runners.get(name, [])) for name in NODES
        ]
        self.programs = [machine.bot(), *nodes]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        bot, *nodes = self.programs
        try:
            await bot.start()
            await self._machine.until_bus_listens()
            for node in nodes:
                await node.start()
            yield
        finally:
            for program in reversed(self.programs):
                await program.stop()

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
