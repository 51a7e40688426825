"""Remedies on real parts: bot, broker, agent and Slack; the machine goes away and comes back with another boot id."""

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from demo.power import Power
from demo.runner import Runner, State
from demo.workspace.transcript import message_transcript
from tests.fake_nvml import GIB, FakeGpu, FakeNvml, FakeProcess, fake_uuid
from tests.flow.conftest import Line
from tests.flow.record import rows
from tests.flow.test_real_path import IS_HOST

NODE = "gpu-07"
AGENT = {"sample_every": "1s", "runners_every": "500ms"}
STALL = {"stalled_fast": "6s", "stalled_slow_a": "20s", "idle_settles": "10s"}
TIMES = {"countdown": "3s", "proof": "40s", "loading": "40s"}
SHORT = {"countdown": "3s", "proof": "20s", "loading": "5s"}
LONG = 60.0
pytestmark = pytest.mark.timeout(300)
LIMITS = {"minimum_interval": "1s", "per_day": 9}


class Site:
    """One node with a runner whose process holds its GPUs, a bot, and people. `gpus` come back after a boot."""

    def __init__(self, folder: Path, workspace, *, auto_remedy="off", allowed="off", times=TIMES) -> None:
        self.folder, self.gpus = folder, 2
        group = {"name": "default", "nodes": ["*"], "approvers": {"users": ["U0ALICE", "U0BOB"]}}
        group |= {"auto_remedy": auto_remedy}
        self.line = Line(folder / "machine", workspace, stall=STALL, groups=[group], remedies=times)
        self.runner, self.driver = Runner(State.HUNG_AT_ZERO), FakeNvml(folder)
        self.process: subprocess.Popen[bytes] | None = None
        self.works_after_restart = self.works_after_reboot = True
        self.power = Power(self.line.folder, NODE, self._booted, self._restarted)
        self.allowed = allowed

    def agent(self):
        watched = {"name": "chat", "preset": "vllm", "url": self.runner.url, "canary": {"first_token_timeout": "5s"}}
        watched["state"] = {"pid_file": str(self.folder / "runner.pid")}
        remedies = {
            "restart_runner": {"chat": {"command": self.power.restart_command, **LIMITS}},
            "reboot_node": {"method": "command", "command": self.power.reboot_command, **LIMITS},
            "auto_remedy": self.allowed,
            "lock_file": str(self.folder / "lock"),
        }
        settings = {**AGENT, "runners": [watched], "remedies": remedies}
        return self.line.machine.node(NODE, self.driver.env, boot_file=self.power.boot_file, **settings)

    @contextlib.asynccontextmanager
    async def running(self):
        async with self.runner:
            self.new_process()
            bot, agent = self.line.machine.bot(), self.agent()
            async with self.line.running(bot), self.line.node_running(agent):
                watching = asyncio.create_task(self.power.watch(agent))
                try:
                    yield bot
                finally:
                    watching.cancel()
                    self.end_process()

    def new_process(self) -> None:
        self.end_process()
        self.process = subprocess.Popen(["/bin/sleep", "1000"], stdin=subprocess.DEVNULL)
        (self.folder / "runner.pid").write_text(str(self.process.pid))
        held = (FakeProcess(self.process.pid, 60 * GIB),)
        uuids = [fake_uuid(index) for index in range(self.gpus)]
        self.driver.set_gpus(FakeGpu(uuid, used=60 * GIB, compute=held) for uuid in uuids)

    def end_process(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def _restarted(self) -> None:
        self.new_process()
        if self.works_after_restart:
            self.runner.become(State.WORKING)

    async def _booted(self) -> None:
        self.new_process()
        if self.works_after_reboot:
            self.runner.become(State.WORKING)

    def card(self, beginning: str):
        return next((one for one in self.line.cards if one.text.startswith(beginning)), None)

    async def until_card(self, beginning: str):
        return await self.line.until(lambda: self.card(beginning), LONG)

    def told(self, card) -> str:
        workspace = self.line.workspace
        return message_transcript(card, self.line.channel.replies(card), workspace.names)

    def audit(self):
        return [(row["who"], row["what"]) for row in rows(self.line.machine.data_dir, "SELECT who, what FROM audit")]


async def asked_for_a_reboot(site: Site, workspace):
    """By bob, with the node's name typed; the approval card."""
    bob = workspace.person("bob")
    assert (await bob.command("/gpu-reboot", NODE)).acked
    await workspace.until(lambda: bob.modal and "One moment" not in str(bob.modal.blocks), LONG)
    assert f"PID {site.process.pid}" in str(bob.modal.blocks)
    seen = await bob.submit({"reason": "it hangs and holds two GPUs", "node_name": NODE})
    assert seen.acked, (seen.failure, bob.modal.errors)
    await workspace.until(lambda: "Asked for as #" in str(bob.modal.blocks), LONG)
    return await site.until_card("APPROVAL WANTED")


@pytest.mark.skipif(not IS_HOST, reason="not in the host's PID namespace: an empty process list proves nothing here")
async def test_the_whole_story_from_the_stall_to_real_work_after_the_reboot(workspace, tmp_path):
    site = Site(tmp_path, workspace)
    async with site.running():
        stall = await site.until_card("STALL")
        await site.line.until(lambda: "restart_runner" in json.dumps(stall.blocks))
        card = await asked_for_a_reboot(site, workspace)
        assert (await workspace.person("alice").press(card, "Approve", confirm=True)).acked
        await site.line.until(lambda: card.text.startswith("DONE gpu-07 chat: reboot of the node"), LONG)
        await site.line.until(lambda: stall.text.startswith("RECOVERED"), LONG)
        await site.line.until(lambda: "Done, and proved" in [one.text for one in site.line.channel.replies(card)])
        print(site.told(card))
    assert (site.power.reboots, site.power.restarts) == (1, 0)
    assert [what for _, what in site.audit()] == [
        "asked",
        "approved",
        "sending",
        "accepted",
        "proof.rebooted",
        "proof.gpus",
        "proof.healthy",
        "proof.works",
        "done",
    ]
    verified = [sys.executable, "-m", "bot", "audit", "verify", "--config", str(site.line.folder / "bot.yaml")]
    how = {"capture_output": True, "text": True, "timeout": 60, "check": True}
    done = await asyncio.to_thread(subprocess.run, verified, **how)
    assert done.stdout.startswith("The record of 9 rows is whole; its head is 9:")


@pytest.mark.slow
async def test_a_runner_that_recovered_before_the_order_is_left_alone(workspace, tmp_path):
    site = Site(tmp_path, workspace)
    async with site.running():
        await site.until_card("STALL")
        card = await asked_for_a_reboot(site, workspace)
        site.runner.become(State.WORKING)
        assert (await workspace.person("alice").press(card, "Approve", confirm=True)).acked
        await site.line.until(lambda: card.text.startswith("NOT DONE"), LONG)
        print(site.told(card))
    assert (site.power.reboots, site.power.restarts) == (0, 0)
    assert site.process.poll() is not None  # ended by this test alone


@pytest.mark.slow
async def test_bot_and_broker_on_the_rebooted_machine_finish_the_same_card_after_the_boot(workspace, tmp_path):
    site = Site(tmp_path, workspace)
    async with site.running() as bot:
        site.power.also = [bot]
        await site.until_card("STALL")
        card = await asked_for_a_reboot(site, workspace)
        assert (await workspace.person("alice").press(card, "Approve", confirm=True)).acked
        await site.line.until(lambda: card.text.startswith("DONE"), LONG)
        print(site.told(card))
    assert site.power.reboots == 1
    assert [one for one in site.line.cards if "reboot of the node" in one.text.splitlines()[0]] == [card]


# --- unattended -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_nobody_presses_and_the_policy_restarts_then_reboots(workspace, tmp_path):
    both = "restart_then_reboot"
    site = Site(tmp_path, workspace, auto_remedy=both, allowed=both, times=SHORT)
    site.works_after_restart = False
    async with site.running():
        first = await site.until_card("COUNTDOWN gpu-07 chat: restart of the runner")
        assert "bot.groups default: auto_remedy: restart_then_reboot" in first.text
        await site.line.until(lambda: first.text.startswith("FAILED"), LONG * 2)
        second = await site.until_card("COUNTDOWN gpu-07 chat: reboot of the node")
        await site.line.until(lambda: second.text.startswith("DONE"), LONG)
        print(site.told(first), site.told(second))
    assert (site.power.restarts, site.power.reboots) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "theirs"), [("restart", "off"), ("off", "restart")])
async def test_a_policy_on_one_side_only_does_nothing(workspace, tmp_path, ours, theirs):
    site = Site(tmp_path, workspace, auto_remedy=ours, allowed=theirs)
    async with site.running():
        stall = await site.until_card("STALL")
        await site.line.until(lambda: "restart_runner" in json.dumps(stall.blocks))
        await workspace.person("alice").press(stall, "Acknowledge")
        await site.line.until(lambda: "Acknowledged by" in json.dumps(stall.blocks))
        assert site.card("COUNTDOWN") is None
    assert (site.power.restarts, site.power.reboots) == (0, 0)
    assert site.audit() == []


@pytest.mark.slow
async def test_stop_ends_a_countdown_and_the_policy_asks_no_more(workspace, tmp_path):
    site = Site(tmp_path, workspace, auto_remedy="restart", allowed="restart")
    async with site.running():
        card = await site.until_card("COUNTDOWN")
        assert (await workspace.person("carol").press(card, "Stop")).acked
        await site.line.until(
            lambda: card.text.startswith("NOT DONE gpu-07 chat: the restart of the runner was stopped")
        )
        recorded = len(site.line.stored(NODE))
        await site.line.until(lambda: len(site.line.stored(NODE)) >= recorded + 2)  # it had the time to ask again
        assert [one for one in site.line.cards if one.text.startswith("COUNTDOWN")] == []
    assert site.power.restarts == 0


# --- kill -9 of the bot -----------------------------------------------------------------------------------------------

CLEAR = ("DONE", "FAILED", "NOT DONE", "OUTCOME UNKNOWN")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["asked", "approved", "sending", "accepted", "proof.rebooted"])
async def test_killed_at_a_step_it_ends_done_once_or_in_a_clear_word(workspace, tmp_path, step):
    site = Site(tmp_path, workspace)
    async with site.running() as bot:
        await site.until_card("STALL")
        card = await asked_for_a_reboot(site, workspace)
        if step == "asked":
            await bot.kill()
            await bot.start()
            await workspace.until_connected(sockets=2)
        pressing = asyncio.create_task(workspace.person("alice").press(card, "Approve", confirm=True))
        if step != "asked":
            await site.line.until(lambda: any(what == step for _, what in site.audit()), LONG)
            await bot.kill()
            await bot.start()
        await pressing
        await site.line.until(lambda: card.text.startswith(CLEAR), LONG * 2)
        print(site.told(card))
    whats = [what for _, what in site.audit()]
    assert whats.count("sending") <= 1
    assert site.power.reboots == (1 if card.text.startswith("DONE") else 0)
    assert len({one.ts for one in site.line.cards if "reboot of the node" in one.text.splitlines()[0]}) == 1
