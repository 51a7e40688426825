"""The bot's pages while the real program works, and while Slack is away."""

import asyncio

import pytest

from demo.gpus import gpu, parked, play
from demo.machine import free_ports
from tests import http_page
from tests.flow.conftest import Line


@pytest.fixture
def port():
    return free_ports(1)[0]


@pytest.fixture
def line(tmp_path, workspace, port):
    return Line(tmp_path / "machine", workspace, metrics={"listen": f"127.0.0.1:{port}"})


async def page(port, path):
    """Status and text; 0 while nobody listens."""
    try:
        return await http_page.page(port, path)
    except OSError:
        return 0, ""


async def until_page(port, path, wanted):
    async with asyncio.timeout(60):
        while True:
            status, text = await page(port, path)
            if wanted(status, text):
                return text
            await asyncio.sleep(0.1)


async def test_probes_tell_a_bot_that_works_from_one_that_slack_does_not_hear_and_neither_needs_a_new_start(
    line, port, tmp_path
):
    play(tmp_path / "idle.jsonl", gpu(0, 1), parked(1, 1))
    bot = line.machine.bot()
    agent = line.machine.node("gpu-01", collector="replay", replay_file=str(tmp_path / "idle.jsonl"))
    async with line.running(bot, agent):
        await until_page(port, "/readyz", lambda status, _: status == 200)
        metrics = await until_page(port, "/metrics", lambda _, text: 'gpu_oncall_nodes{state="heard"} 1.0' in text)
        assert "gpu_oncall_working 1.0" in metrics
        assert 'gpu_oncall_gpus{verdict="unknown"}' in metrics
        assert "gpu-01" not in metrics  # no node, no person and no secret is on the page
        await until_page(port, "/metrics", lambda _, text: 'gpu_oncall_windows_total{outcome="stored"} 0.0' not in text)
        await line.workspace.stop_listening()
        said = await until_page(port, "/readyz", lambda status, _: status == 503)
        assert "slack sockets is red: see gpu-oncall check" in said
        assert await page(port, "/healthz") == (200, "ok\n")
        await line.workspace.listen()
        await until_page(port, "/readyz", lambda status, _: status == 200)
