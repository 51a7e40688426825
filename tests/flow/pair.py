"""Two bots on one PostgreSQL and one bus that runs elsewhere, with nodes and a Slack workspace: all of it real."""

import contextlib
import os
import signal
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import yaml
from psycopg.rows import namedtuple_row

from demo.machine import Program
from demo.workspace import Workspace
from tests.nats_server import NatsServer, until
from wire.files import write_private
from wire.messages import Observation

STORE_BYTES = 1024**3
CHANNEL = "gpu-oncall"


class Pair:
    """`first` and `second` are alike. Windows of 2 s, samples every 0.2 s."""

    edit_every = "1s"

    def __init__(self, folder: Path, workspace: Workspace, server: NatsServer, database: str) -> None:
        self.folder = folder
        self.server = server
        self.node_url = server.url
        self._database = database
        self._workspace = workspace
        self.channel = workspace.channel(CHANNEL)
        self.commands = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
        self.first, self.second = self.bot("bot-a"), self.bot("bot-b")

    def bot(self, name: str, **settings: Any) -> Program:
        data_dir = self.folder / name
        data_dir.mkdir(mode=0o700)
        write_private(data_dir / "bot.nkey", self.server.bot_seed + "\n")
        slack = {
            "api_url": self._workspace.api_url,
            "channels": {"default": self.channel.id},
            "edit_every": self.edit_every,
        }
        config = {
            "mode": "demo",
            "data_dir": str(data_dir),
            "database": self._database,
            "bus": {"servers": [self.server.url], "insecure": True},
            "candidates": {"gather": "500ms"},
            "slack": slack,
            "metrics": {"listen": None},
            **settings,
        }
        arguments = ["run", "--config", str(self._write(name, {"bot": config}))]
        return Program(name, "bot", arguments, self.folder, self.commands)

    def node(self, name: str, readings: Path) -> Program:
        """Its state lies in the folder of its name, which may be there already."""
        state_dir = self.folder / name
        state_dir.mkdir(mode=0o700, exist_ok=True)
        write_private(state_dir / "node.nkey", self.server.seeds[name] + "\n")
        config = {
            "node": name,
            "state_dir": str(state_dir),
            "bus": {"servers": [self.node_url], "insecure": True},
            "mode": "demo",
            "window": "2s",
            "sample_every": "200ms",
            "heartbeat_every": "1s",
            "collector": "replay",
            "replay_file": str(readings),
        }
        return Program(name, "agent", ["run", "--config", str(self._write(name, {"agent": config}))], self.folder, {})

    # --- what is there ----------------------------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[Any]:
        with psycopg.connect(self._database, autocommit=True, row_factory=namedtuple_row) as connection:
            return connection.execute(query, values).fetchall()  # type: ignore[call-overload]

    def fence(self) -> int:
        """Of the bot that began last; 0 before the first."""
        return next((row.fence for row in self.rows("SELECT fence FROM lease")), 0)

    def stored(self, node: str) -> list[Observation]:
        rows = self.rows("SELECT body FROM node_window WHERE node = %s ORDER BY spool_epoch, seq", node)
        return [msgspec.json.decode(zlib.decompress(row.body), type=Observation) for row in rows]

    def keys(self) -> list[str]:
        """Of every message that is in Slack."""
        return [one.metadata["event_payload"]["delivery"] for one in self.channel.messages.values() if one.metadata]

    def at_work(self) -> Program:
        (holder,) = [row.holder for row in self.rows("SELECT holder FROM lease")]
        return next(bot for bot in (self.first, self.second) if holder.endswith(f"PID {bot.pid}"))

    def waiting(self) -> Program:
        return self.second if self.at_work() is self.first else self.first

    async def taken_over(self, fence: int) -> float:
        """The seconds until another bot works: it has begun and stored a window. `fence` is the last one's."""
        began = time.monotonic()
        windows = "SELECT coalesce(max(id), 0) AS newest FROM node_window"
        await until(lambda: self.fence() > fence, "another bot begins", 60)
        newest = self.rows(windows)[0].newest
        await until(lambda: self.rows(windows)[0].newest > newest, "it stores what comes", 60)
        return time.monotonic() - began

    @contextlib.contextmanager
    def stopped(self, bot: Program) -> Iterator[None]:
        os.kill(bot.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(bot.pid, signal.SIGCONT)

    def _write(self, name: str, config: dict[str, Any]) -> Path:
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        return file
