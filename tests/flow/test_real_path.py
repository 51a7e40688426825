"""The README's own commands on the real path: init, bot and agent as two processes, the driver a fake in C."""

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from demo.machine import Program, free_ports
from tests.fake_nvml import FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.flow.record import recorded

GIB = 1024**3
COMMANDS = Path(sys.executable).parent
IS_HOST = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = str(COMMANDS / command[0])
    return subprocess.run(
        [program, *command[1:]], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )


def shortened(file: Path, channel: str, api_url: str) -> None:
    """The config as a person would fill it in, and windows of seconds: nobody waits a quarter of an hour here."""
    config = yaml.safe_load(file.read_text())
    listen, monitor = free_ports(2)
    config["agent"] |= {"node": "gpu-01", "mode": "demo", "window": "2s", "sample_every": "200ms"}
    config["agent"] |= {"heartbeat_every": "1s", "bus": {"servers": [f"tls://127.0.0.1:{listen}"]}}
    config["bot"]["mode"] = "demo"
    config["bot"]["bus"]["embedded"] |= {"listen": f"127.0.0.1:{listen}", "monitor": f"127.0.0.1:{monitor}"}
    config["bot"]["slack"] |= {"channels": {"default": channel}, "api_url": api_url, "edit_every": "1s"}
    config["bot"]["candidates"]["gather"] = "500ms"
    file.write_text(yaml.safe_dump(config))


@pytest.fixture
def driver(tmp_path):
    """One GPU trains, on one a process holds a context without memory, one is idle."""
    training = FakeGpu(fake_uuid(0), utilization=97, used=61 * GIB, compute=(FakeProcess(4321, 61 * GIB),))
    parked = FakeGpu(fake_uuid(1), compute=(FakeProcess(9876, 0),))
    return FakeNvml(tmp_path, [training, parked, FakeGpu(fake_uuid(2))])


@pytest.fixture
def installed(tmp_path, workspace):
    """What `gpu-oncall init` makes, with the node's name set before it is registered."""
    folder = tmp_path / "oncall"
    made = run("gpu-oncall", "init", str(folder))
    assert made.returncode == 0, made.stderr
    config = folder / "config.yaml"
    node = re.search(r"^  node: (.*)$", config.read_text(), re.MULTILINE)
    shortened(config, workspace.channel("gpu-oncall").id, workspace.api_url)
    text = config.read_text()
    config.write_text(text.replace("node: gpu-01", f"node: {json.loads(node[1])}"))
    return config


def programs(config: Path, workspace, driver: FakeNvml) -> tuple[Program, Program]:
    tokens = {"SLACK_BOT_TOKEN": workspace.bot_token, "SLACK_APP_TOKEN": workspace.app_token}
    arguments = ["run", "--config", str(config)]
    return (
        Program("bot", "bot", arguments, config.parent, tokens),
        Program("agent", "agent", arguments, config.parent, driver.env),
    )


@pytest.mark.skipif(not IS_HOST, reason="not in the host's PID namespace: an empty process list proves nothing here")
async def test_a_card_comes_after_three_windows_and_not_before(line, installed, workspace, driver):
    bot, agent = programs(installed, workspace, driver)
    async with line.running(bot, agent):
        card = (await line.until(lambda: line.cards))[0]
        # Not the last three: of a window that a busy machine spoils meanwhile the bot may not have heard yet.
        lines = [line for line in recorded(installed.parent / "agent") if line.gpu == 2]
        before = [line.verdict for line in lines if line.time <= card.versions[0].at]
        assert ["candidate"] * 3 in [before[first : first + 3] for first in range(len(before))]
        assert fake_uuid(2) in json.dumps(card.blocks)
        assert fake_uuid(0) not in json.dumps(card.blocks)
        assert fake_uuid(1) not in json.dumps(card.blocks)
        seen = await workspace.person("alice").press(card, "Acknowledge")
        assert seen.acked
        driver.set(2, utilization=50, used=GIB, compute=(FakeProcess(777, GIB),))
        await line.until(lambda: '"actions"' not in json.dumps(card.blocks))
        await why_it_was_not_free_before(line, workspace, installed)
    assert line.cards == [card]


async def why_it_was_not_free_before(line, workspace, config: Path) -> None:
    """From the record: a GPU that somebody held, at the time of a window that is long closed."""
    node = yaml.safe_load(config.read_text())["agent"]["node"]
    earlier = recorded(config.parent / "agent")[1].time - timedelta(seconds=1)
    seen = await workspace.person("bob").command("/gpu-why", f"{node} 1 {earlier:%Y-%m-%dT%H:%M:%S}")
    await line.until(lambda: seen.ephemerals)
    assert "PID 9876" in seen.ephemerals[-1].text


async def test_the_same_agent_reads_the_same_driver_once(installed, driver):
    told = run("gpu-oncall-agent", "once", "--json", "--config", str(installed), **driver.env)
    sample = json.loads(told.stdout)
    expected = ["held", "held", "candidate"] if IS_HOST else ["unknown"] * 3
    assert [gpu["verdict"] for gpu in sample["gpus"]] == expected
