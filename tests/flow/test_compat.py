"""An older agent with the newer bot, and the newer agent with an older bot: the same cards, and nobody stumbles."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from bot.broker.nodes import register_node
from demo.gpus import gpu, parked, play
from demo.runner import Runner, State
from tests.flow.conftest import Line
from tests.nats_server import NatsServer, fast_link, free_port, stream_bodies, until
from tests.old import golden
from tests.old.version_057697a import messages as old
from wire import nkey, subjects
from wire.acks import Ack
from wire.configfile import Duration

NODE, WINDOW_SECONDS, BEAT_SECONDS = "gpu-01", 2.0, 0.5
STALL = {"stalled_fast": "6s", "stalled_slow_a": "20s", "idle_settles": "10s"}


class OlderNode:
    """Says what the older agent said, byte for byte but for numbers and times; notes whatever is said to it."""

    def __init__(self, version: str, link) -> None:
        self._version, self._link = version, link
        self._began = time.monotonic()
        self.state = "idle"
        self.told: list[str] = []
        self.refused: list[object] = []

    async def run(self) -> None:
        for subject in (subjects.command(NODE), subjects.key_change(NODE)):
            await self._link.subscribe(subject, self._on_message)
        window = 0
        shift = golden.seconds_since(self._version)
        while True:
            passed = time.monotonic() - self._began
            if passed >= (window + 1) * WINDOW_SECONDS:
                window += 1
                await self._window(shift + passed, window)
            beat = golden.later(golden.golden(self._version, f"heartbeat-{self.state}"), shift + passed, 0)
            beat |= self._numbers(window)
            await self._link.publish_core(subjects.heartbeat(NODE), json.dumps(beat).encode())
            await asyncio.sleep(BEAT_SECONDS)

    async def _window(self, seconds: float, window: int) -> None:
        body = golden.later(golden.golden(self._version, f"observation-{self.state}"), seconds, 0)
        body |= {"window_number": 1000 + window, "seq": window}
        message_id = subjects.message_id(NODE, body["spool_epoch"], window)
        ack = await self._link.publish_acked(
            subjects.observations(NODE), json.dumps(body).encode(), message_id, Duration(seconds=10)
        )
        if not isinstance(ack, Ack):
            self.refused.append(ack)

    def _numbers(self, window: int) -> dict[str, int]:
        return {"last_closed_window": 1000 + window, "last_seq": window} if window else {"last_seq": 0}

    async def _on_message(self, message: Msg) -> None:
        self.told.append(message.subject)


@pytest.mark.parametrize("version", golden.VERSIONS)
async def test_an_older_agent_and_this_bot_tell_what_is_free_and_what_hangs(workspace, tmp_path, version):
    line = Line(tmp_path / "machine", workspace, stall=STALL)
    seed = nkey.generate_seed()
    register_node(line.machine.data_dir, NODE, nkey.public_key(seed))
    bot = line.machine.bot()
    async with line.running(bot):
        await line.until(lambda: "stream made" in bot.log.read_text())  # it does not send again what nobody took
        link = fast_link([f"nats://127.0.0.1:{line.machine._port}"], seed, subjects.inbox(NODE), NODE)
        await link.start()
        node = OlderNode(version, link)
        running = asyncio.create_task(node.run())
        try:
            await line.until(lambda: card(line, "FREE gpu-01"))
            node.state = "hanging"
            await line.until(lambda: card(line, "STALL gpu-01 chat"))
            seen = await workspace.person("alice").press(card(line, "STALL gpu-01 chat"), "Acknowledge")
            assert seen.acked
            await line.until(lambda: "Acknowledged by" in card(line, "STALL gpu-01 chat").text)
            # It announced no version of orders, so nothing is offered that it could not be ordered.
            assert "restart_runner" not in str(card(line, "STALL gpu-01 chat").blocks)
        finally:
            running.cancel()
            await link.close()
    assert (node.told, node.refused) == ([], [])
    assert len(line.cards) == 2


def card(line, begin: str):
    return next((one for one in line.cards if one.text.startswith(begin)), None)


class OlderBot:
    """A bus with the very rights that the older bot wrote down, and its own way of reading."""

    def __init__(self, folder: Path, version: str, port: int, node_key: str) -> None:
        self._server = NatsServer(folder, [])
        self._server.port, self._server.url = port, f"nats://127.0.0.1:{port}"
        values = {
            "{listen}": f"127.0.0.1:{port}",
            "{monitor}": f"127.0.0.1:{free_port()}",
            "{folder}": str(folder),
            "{bot_key}": nkey.public_key(self._server.bot_seed),
            "{node_key}": node_key,
            "{probe_key}": nkey.public_key(nkey.generate_seed()),
        }
        text = (golden.CASES / version / "server.conf").read_text()
        for name, value in values.items():
            text = text.replace(name, value)
        (folder / "server.conf").write_text(text)
        self.beats: list[old.Heartbeat] = []
        self.windows: list[old.Observation] = []

    @asynccontextmanager
    async def running(self):
        async with self._server, self._server.bot() as link:
            await link.subscribe(subjects.HEARTBEATS, self._on_heartbeat)
            yield link

    async def _on_heartbeat(self, message: Msg) -> None:
        self.beats.append(old.decode_heartbeat(message.subject, message.data))

    async def read(self, link) -> list[old.Observation]:
        bodies = await stream_bodies(link.jetstream())
        return [old.decode_observation(subjects.observations(NODE), body) for body in bodies]


@pytest.mark.parametrize("version", golden.VERSIONS)
async def test_this_agent_goes_on_with_an_older_bot_that_understands_it(line, tmp_path, version):
    play(tmp_path / "gpus.jsonl", gpu(0, 1), parked(1, 1))
    async with Runner(State.HUNG_AT_ZERO) as chat:
        runner = {"name": "chat", "preset": "vllm", "url": chat.url, "canary": {"first_token_timeout": "5s"}}
        agent = line.machine.node(
            NODE,
            collector="replay",
            replay_file=str(tmp_path / "gpus.jsonl"),
            runners=[runner],
            runners_every="500ms",
        )
        seed = (line.folder / NODE / "node.nkey").read_text().strip()
        bot = OlderBot(tmp_path / "nats", version, line.machine._port, nkey.public_key(seed))
        async with bot.running() as link, line.node_running(agent):
            await until(lambda: _has_windows(bot, link, 4), "four windows", 60)
            beats = len(bot.beats)
            await until(lambda: len(bot.beats) > beats + 3, "heartbeats after that", 60)
            windows = await bot.read(link)
    verdicts = [[str(one.verdict) for one in window.gpus] for window in windows]
    assert ["candidate", "held"] in verdicts, verdicts  # on a busy machine others may have too few samples
    assert [window.seq for window in windows] == list(range(1, len(windows) + 1))
    assert [tick.runner for tick in bot.beats[-1].runners] == ["chat"]
    told = [text for text in agent.log.read_text().splitlines() if "ERROR" in text]
    assert len(told) <= 1, told  # that it may not hear of new keys there, once
    assert all("permissions violation" in text.lower() for text in told), told


async def _has_windows(bot: OlderBot, link, count: int) -> bool:
    return len(await bot.read(link)) >= count
