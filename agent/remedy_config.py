"""`remedies:` of the agent's section: what a person or a policy may have done on this node. At first nothing."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from wire import bounds
from wire.configfile import Duration, Problem

SHORTEST_INTERVAL = Duration(hours=1)
MOST_PER_DAY = 2
_UNIT = re.compile(r"[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]{0,200}\.service", re.ASCII)
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}", re.ASCII)


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one runner is restarted: exactly one of systemd_unit, container and command."""

    systemd_unit: str | None = None
    container: str | None = None
    command: list[str] | None = None
    timeout: Duration = Duration(minutes=5)
    minimum_interval: Duration = SHORTEST_INTERVAL
    per_day: Annotated[int, msgspec.Meta(ge=1)] = MOST_PER_DAY

    def problems(self) -> Iterator[Problem]:
        ways = ("systemd_unit", "container", "command")
        if sum(getattr(self, way) is not None for way in ways) != 1:
            yield Problem("", f"wants exactly one of {', '.join(ways)}")
        if self.systemd_unit is not None and not _UNIT.fullmatch(self.systemd_unit):
            yield Problem("systemd_unit", "wants a service's whole name, for example vllm.service")
        if self.container is not None and not _CONTAINER.fullmatch(self.container):
            yield Problem("container", "wants the name of a Docker container, for example vllm")
        yield from _command("command", self.command)
        yield from bounds.outside([("timeout", self.timeout, Duration(seconds=10), Duration(minutes=30))])


class Reboot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the node is rebooted. `command` only with `method: command`."""

    method: Literal["systemd", "command"] = "systemd"
    command: list[str] | None = None
    minimum_interval: Duration = SHORTEST_INTERVAL
    per_day: Annotated[int, msgspec.Meta(ge=1)] = MOST_PER_DAY

    def problems(self) -> Iterator[Problem]:
        if (self.method == "command") != (self.command is not None):
            yield Problem("", "wants command with method: command, and only with it")
        yield from _command("command", self.command)


class Remedies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not here is not offered."""

    restart_runner: dict[str, Restart] = {}
    reboot_node: Reboot | None = None
    auto_remedy: Literal["off", "restart", "restart_then_reboot"] = "off"
    lock_file: Path = Path("/run/lock/gpu-oncall-remedy.lock")

    @property
    def are_offered(self) -> bool:
        return bool(self.restart_runner) or self.reboot_node is not None

    def problems(self) -> Iterator[Problem]:
        if not self.lock_file.is_absolute():
            yield Problem("lock_file", "wants an absolute path: all agents of this host must find the same file")
        if self.auto_remedy != "off" and not self.restart_runner:
            yield Problem("auto_remedy", "needs restart_runner: a restart always comes first")
        if self.auto_remedy == "restart_then_reboot" and self.reboot_node is None:
            yield Problem("auto_remedy", "needs reboot_node for restart_then_reboot")


def remedy_problems(remedies: Remedies, runners: Collection[str], is_demo: bool) -> Iterator[Problem]:
    """What only the whole section can show. Limits may be made stricter, never looser, outside of a demo."""
    for name in remedies.restart_runner:
        if name not in runners:
            yield Problem("remedies.restart_runner", f"names {name}, and no runner of this node is called so")
    limited: dict[str, Restart | Reboot] = {f"restart_runner.{n}": r for n, r in remedies.restart_runner.items()}
    if remedies.reboot_node is not None:
        limited["reboot_node"] = remedies.reboot_node
    for key, remedy in () if is_demo else limited.items():
        yield from bounds.outside(
            [
                (f"remedies.{key}.minimum_interval", remedy.minimum_interval, SHORTEST_INTERVAL, None),
                (f"remedies.{key}.per_day", remedy.per_day, None, MOST_PER_DAY),
            ],
            unless="mode: demo",
        )


def _command(key: str, command: list[str] | None) -> Iterator[Problem]:
    if command is not None and (not command or not command[0].startswith("/")):
        yield Problem(
            key, "wants a program by its absolute path and its arguments, for example [/usr/local/bin/x, now]"
        )
