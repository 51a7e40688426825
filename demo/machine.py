"""A whole installation in one folder: config, keys, and the real programs as processes."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bot.broker import launch
from bot.broker.nodes import register_node
from bot.order_key import make_order_key, public_order_key
from wire import nkey, nodefiles
from wire.files import write_private

START_SECONDS = 60.0
STOP_SECONDS = 15.0


def ends_with_us(command: Sequence[str]) -> list[str]:
    """The same program, which ends when this process does, even after kill -9."""
    return [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *command]


class Program:
    """One of our commands as a process of its own; its log is a file."""

    def __init__(
        self, name: str, module: str, arguments: list[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [sys.executable, "-m", module, *arguments]
        self._environment = {**os.environ, **environment}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *ends_with_us(self._command),
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for us, who then stop it in our own time
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs, and before it was started."""
        return self._process.returncode if self._process else None

    async def kill(self) -> None:
        """Like a power cut: SIGKILL, and gone when this returns."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Asks it to end; a program that does not within 15 s is killed."""
        await self._end(signal.SIGTERM)

    async def _end(self, how: signal.Signals) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        self._tell(how)
        try:
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        except TimeoutError:
            self._tell(signal.SIGKILL)
            await self._process.wait()

    def _tell(self, how: signal.Signals) -> None:
        """Not by the process's `send_signal`: of one that has just ended it would take asyncio the status."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, how)


class Machine:
    """Bot and nodes on loopback under `folder`. `agent` and `bot` hold what their config says beside the paths."""

    def __init__(
        self, folder: Path, *, agent: Mapping[str, Any], bot: Mapping[str, Any], slack: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self._agent = agent
        self._slack = slack
        self._port, monitor = free_ports(2)
        self.data_dir = folder / "bot"
        self.data_dir.mkdir(mode=0o700, parents=True)
        write_private(self.data_dir / "bot.nkey", nkey.generate_seed() + "\n")
        make_order_key(self.data_dir)
        embedded = {"listen": f"127.0.0.1:{self._port}", "monitor": f"127.0.0.1:{monitor}"}
        own = {
            "data_dir": str(self.data_dir),
            "bus": {"embedded": embedded, "insecure": True},
            "metrics": {"listen": None},
        }
        self._config = self._write("bot", {"bot": {**own, **bot}})

    def bot(self) -> Program:
        return Program("bot", "bot", ["run", "--config", str(self._config)], self.folder, self._slack)

    def node(
        self, name: str, environment: Mapping[str, str] | None = None, boot_file: Path | None = None, **settings: Any
    ) -> Program:
        """The agent of a node that is registered with the bot; before the bot's start.

        `boot_file` holds the boot id of a machine that can be rebooted; None: the real one.
        """
        state_dir = self.folder / name
        state_dir.mkdir(mode=0o700)
        seed = nkey.generate_seed()
        write_private(state_dir / "node.nkey", seed + "\n")
        order_key = nodefiles.order_key_text(public_order_key(self.data_dir))
        nodefiles.order_key_file(state_dir).write_text(order_key, encoding="ascii")
        register_node(self.data_dir, name, nkey.public_key(seed))
        bus = {"servers": [f"nats://127.0.0.1:{self._port}"], "insecure": True}
        own = {"node": name, "state_dir": str(state_dir), "bus": bus}
        config = self._write(name, {"agent": {**own, **self._agent, **settings}})
        if boot_file is None:
            return Program(name, "agent", ["run", "--config", str(config)], self.folder, environment or {})
        arguments = ["--config", str(config), "--boot-id", str(boot_file)]
        return Program(name, "demo.node", arguments, self.folder, environment or {})

    async def until_bus_listens(self) -> None:
        """So that nodes which start now need no second attempt. Raises TimeoutError after a minute."""
        async with asyncio.timeout(START_SECONDS):
            while not await _listens(self._port):
                await asyncio.sleep(0.1)

    def _write(self, name: str, config: Mapping[str, Any]) -> Path:
        file = self.folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        return file


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def free_ports(count: int) -> list[int]:
    """Ports on loopback that nobody listened on a moment ago.

    Not from the range of which the system takes ports for connections: one of those could take a port before its use.
    """
    found: list[int] = []
    while len(found) < count:
        port = _CHANCE.randrange(15_000, 32_000)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


_CHANCE = random.SystemRandom()  # tests in several processes must not try the same ports in the same order
