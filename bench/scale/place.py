"""Where a scale run happens: the real bot as a process with its own broker, Slack on loopback, and the crowd."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import stat
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import yaml

from bench.scale.crowd import Crowd
from bench.scale.processes import Usage, peak_mib, usage
from bot.broker.nodes import register_node
from demo.machine import Machine
from demo.workspace import Workspace
from wire import nkey

CHANNEL = "gpu-oncall"
NODES_PER_PROCESS = 2_500
GATHER_SECONDS = 2


class Place:
    """`async with` starts the bot; nodes are registered and not yet connected."""

    def __init__(
        self, folder: Path, nodes: int, server: "SlowServer | None" = None, *, rate_limits: bool = True, **settings: Any
    ) -> None:
        """`server` is another nats-server; `settings` go into the section `bot:`."""
        self.nodes = nodes
        self._rate_limits = rate_limits
        self._settings = settings
        self.folder = folder
        self.server = server
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.workspace = await self._stack.enter_async_context(Workspace(rate_limits=self._rate_limits))
        self._machine = self._make_machine()
        names = [(f"gpu-{number:05d}", nkey.generate_seed()) for number in range(self.nodes)]
        for name, seed in names:
            register_node(self._machine.data_dir, name, nkey.public_key(seed))
        self._bot = self._machine.bot()
        await self._bot.start()
        self._stack.push_async_callback(self._bot.stop)
        await self._until_it_runs()
        processes = -(-self.nodes // NODES_PER_PROCESS)
        self.crowd = Crowd(names, self._port, processes)
        self._stack.callback(self.crowd.end)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.aclose()

    def _make_machine(self) -> Machine:
        channel = self.workspace.channel(CHANNEL).id
        slack = {"api_url": self.workspace.api_url, "channels": {"default": channel}}
        gather = {"gather": f"{GATHER_SECONDS}s"}
        bot: dict[str, Any] = {"mode": "live", "candidates": gather, "slack": slack, **self._settings}
        tokens = {"SLACK_BOT_TOKEN": self.workspace.bot_token, "SLACK_APP_TOKEN": self.workspace.app_token}
        machine = Machine(self.folder, agent={}, bot=bot, slack=tokens)
        file = self.folder / "bot.yaml"
        config = yaml.safe_load(file.read_text())
        bus = config["bot"]["bus"]
        bus["embedded"]["max_store"] = "4GiB"
        if self.server is not None:
            bus["nats_server"] = str(self.server.script)
        file.write_text(yaml.safe_dump(config))
        self._port = int(bus["embedded"]["listen"].rpartition(":")[2])
        return machine

    async def _until_it_runs(self) -> None:
        await look_until(lambda: "bot runs" in self.log(), 120)

    def log(self) -> str:
        return self._bot.log.read_text(errors="replace")

    # --- what it costs and what it came to --------------------------------------------------------------------------

    @property
    def broker_pid(self) -> int:
        return int((self._machine.data_dir / "nats" / "server.pid").read_text() or 0)  # empty while it is written

    def kill_broker(self) -> None:
        """As a power cut does; the bot starts it again."""
        os.kill(self.broker_pid, signal.SIGKILL)

    def usage(self) -> dict[str, Usage]:
        return {"bot": usage(self._bot.pid), "nats-server": usage(self.broker_pid)}

    def peaks_mib(self) -> dict[str, float]:
        """The most that each held; a server that was killed begins anew."""
        return {"bot": peak_mib(self._bot.pid), "nats-server": peak_mib(self.broker_pid)}

    def open_handles(self) -> dict[str, int]:
        pids = {"bot": self._bot.pid, "nats-server": self.broker_pid}
        return {name: len(os.listdir(f"/proc/{pid}/fd")) for name, pid in pids.items()}

    def stored(self) -> int:
        return int(self._ask("SELECT count(*) FROM node_window"))

    def refused(self) -> int:
        return int(self._ask("SELECT (SELECT count(*) FROM rejected) + (SELECT count(*) FROM missing)"))

    def incidents(self) -> int:
        """Ever opened."""
        return int(self._ask("SELECT coalesce(max(id), 0) FROM incident"))

    def free_gpus(self) -> int:
        """GPUs that open incidents call free now."""
        with contextlib.closing(self._connect()) as database:
            bodies = database.execute("SELECT body FROM incident WHERE closed_at IS NULL AND kind = 'candidate'")
            return sum(gpu["state"] == "confirmed" for (body,) in bodies for gpu in json.loads(body)["gpus"])

    def database_mib(self) -> float:
        return sum(file.stat().st_size for file in self._machine.data_dir.glob("gpu-oncall.sqlite*")) / 2**20

    def database_bytes(self) -> int:
        """What rows need, without pages that are free and without the log."""
        used = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
        return int(self._ask(used)) * int(self._ask("PRAGMA page_size"))

    def cards(self) -> list[str]:
        """First lines of all messages of the bot that stand in the channel."""
        return [card.text.split("\n")[0] for card in self.workspace.channel(CHANNEL).cards]

    def _ask(self, query: str) -> Any:
        with contextlib.closing(self._connect()) as database:
            return database.execute(query).fetchone()[0]

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self._machine.data_dir}/gpu-oncall.sqlite?mode=ro", uri=True, timeout=60)


class SlowServer:
    """A nats-server whose every sync takes longer, played by strace: as long as was said before its start."""

    def __init__(self, folder: Path, strace: str) -> None:
        self.script, self._delay = folder / "nats-server-on-a-slow-disk", folder / "sync-ms"
        self.slow_down(0)
        binary = Path(sysconfig.get_path("scripts")) / "nats-server"
        inject = '-e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_exit="$ms"000us'
        self.script.write_text(
            f"#!/bin/sh\nms=$(cat {self._delay})\n"
            f'case "$ms $*" in 0*) ;; *" -t"*) ;; *" -c"*) exec {strace} -D -qq -f --seccomp-bpf -o /dev/null {inject} '
            f'{binary} "$@";; esac\nexec {binary} "$@"\n'
        )
        self.script.chmod(self.script.stat().st_mode | stat.S_IXUSR)

    def slow_down(self, sync_ms: int) -> None:
        self._delay.write_text(str(sync_ms))


def slow_server(folder: Path) -> SlowServer | None:
    """None where there is no strace."""
    strace = shutil.which("strace")
    if strace is None:
        return None
    folder.mkdir(parents=True)
    return SlowServer(folder, strace)


async def look_until(is_so: Callable[[], bool], seconds: float, every_seconds: float = 0.5) -> None:
    """Looks again and again, in a thread: neither a database nor a file tells anybody that it changed."""
    async with asyncio.timeout(seconds):
        while True:
            if await asyncio.to_thread(is_so):
                return
            await asyncio.sleep(every_seconds)
