"""For `check`: which remedies are on, and could each of them work here?"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from agent.clock import Clock
from agent.config import AgentConfig
from agent.findings import Finding, Level
from agent.remedies.act import way
from agent.remedy_config import Reboot, Restart
from agent.runners.sources import COMMAND_SECONDS, Unread, run_command
from agent.trusted_keys import TrustedKeys

TOPIC = "remedies"
PAGE = "docs/remedies.md"
_CAN_REBOOT = ("busctl", "call", "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager")


async def about_remedies(config: AgentConfig) -> list[Finding]:
    """Does nothing and writes nothing."""
    remedies = config.remedies
    if not remedies.are_offered:
        text = "none is on: nothing can be done on this node, and the bot cannot switch one on"
        return [Finding(Level.OK, TOPIC, text)]
    findings = [finding for name, how in remedies.restart_runner.items() async for finding in _about_restart(name, how)]
    if remedies.reboot_node is not None:
        findings += [finding async for finding in _about_reboot(remedies.reboot_node)]
    findings += [*_about_lock(remedies.lock_file), *_about_key(config), _about_policy(remedies.auto_remedy)]
    return [*findings, *_about_list(config)]


async def _about_restart(name: str, how: Restart) -> AsyncIterator[Finding]:
    what = f"restart of {name} by {way(how)}"
    if how.systemd_unit is not None:
        yield await _about_unit(what, how.systemd_unit)
    elif how.container is not None:
        yield await _about_container(what, how.container)
    else:
        yield _about_program(what, (how.command or [""])[0])


async def _about_unit(what: str, unit: str) -> Finding:
    shown = await run_command(["systemctl", "show", "--property=LoadState", "--", unit], COMMAND_SECONDS)
    if isinstance(shown, Unread):
        return _problem(f"{what}: {shown.why}", "run the agent on the host, where systemd is, or use command")
    if b"LoadState=loaded" not in shown:
        return _problem(f"{what}: systemd knows no such unit", "name it as systemctl list-units shows it")
    if os.geteuid() != 0:
        todo = f"as root: gpu-oncall-agent install-service --allow-restart {unit}; where that was done, all is well"
        return Finding(
            Level.ADVICE, TOPIC, f"{what}: this user needs a polkit rule, which cannot be seen from here", todo
        )
    return Finding(Level.OK, TOPIC, f"{what}: the unit is there")


async def _about_container(what: str, container: str) -> Finding:
    command = ["docker", "inspect", "--type", "container", "--format", "{{.State.Status}}", container]
    shown = await run_command(command, COMMAND_SECONDS)
    if isinstance(shown, Unread):
        todo = "name it as docker ps does, and let the agent's user talk to Docker (which is as good as root)"
        return _problem(f"{what}: {shown.why}", todo)
    return Finding(Level.OK, TOPIC, f"{what}: it is {shown.decode(errors='replace').strip()}")


async def _about_reboot(how: Reboot) -> AsyncIterator[Finding]:
    what = f"reboot of this node by {way(how)}"
    if how.command is not None:
        yield _about_program(what, how.command[0])
        return
    if shutil.which("systemctl") is None:
        yield _problem(f"{what}: there is no systemctl here", "run the agent on the host, or use method: command")
        return
    answer = await run_command([*_CAN_REBOOT, "CanReboot"], COMMAND_SECONDS)
    if isinstance(answer, Unread):
        yield _problem(f"{what}: systemd cannot be asked: {answer.why}", "run the agent on the host, where systemd is")
    elif b'"yes"' in answer:
        yield Finding(Level.OK, TOPIC, f"{what}: this user may")
    else:
        said = answer.decode(errors="replace").strip()
        yield _problem(
            f"{what}: this user may not (CanReboot: {said})", "gpu-oncall-agent install-service --allow-reboot"
        )


def _about_program(what: str, path: str) -> Finding:
    if os.path.isfile(path) and os.access(path, os.X_OK):
        return Finding(Level.OK, TOPIC, f"{what}: {path} can be run")
    return _problem(f"{what}: {path} is no program that this user may run", "put it there, or correct the path")


def _about_lock(path: Path) -> Iterator[Finding]:
    can_be_made = not path.exists() and os.access(path.parent, os.W_OK | os.X_OK)
    if not can_be_made and not (path.is_file() and os.access(path, os.R_OK) and _is_ours(path)):
        todo = "set agent.remedies.lock_file to a file that this user may make, the same for all agents of this host"
        yield _problem(f"the lock of this host, {path}, cannot be used: every order will be refused", todo)


def _is_ours(path: Path) -> bool:
    return path.stat().st_uid in (0, os.geteuid())


def _about_key(config: AgentConfig) -> Iterator[Finding]:
    if not TrustedKeys(config.state_dir, Clock()).valid():
        todo = "join this node (gpu-oncall-agent join), or copy the bot's key (gpu-oncall init says where)"
        yield _problem(f"there is no key of a bot in {config.state_dir}: every order will be refused", todo)


def _about_policy(auto_remedy: str) -> Finding:
    if auto_remedy == "off":
        return Finding(Level.OK, TOPIC, "each of them needs a person's approval (auto_remedy: off)")
    text = f"auto_remedy: {auto_remedy}: with the same in the bot's config, a confirmed stall needs nobody's approval"
    return Finding(Level.ADVICE, TOPIC, text, f"if that is not wanted: auto_remedy: off; {PAGE}")


def _about_list(config: AgentConfig) -> Iterator[Finding]:
    if "nvidia-smi" in (config.collector, config.dcgm.processes if config.collector == "dcgm" else ""):
        text = "nvidia-smi lists no graphics processes: each remedy needs a person who accepts that anything may run"
        yield Finding(Level.ADVICE, TOPIC, text, "read processes by NVML: collector: nvml, or dcgm.processes: nvml")


def _problem(text: str, todo: str) -> Finding:
    return Finding(Level.PROBLEM, TOPIC, text, todo)
