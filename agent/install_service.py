"""The command `gpu-oncall-agent install-service`: the agent as a service of systemd, under its own user."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from agent.config import AgentConfig, load
from agent.config_file import JOINED_CONFIG, SYSTEM_PLACES
from wire import service
from wire.configfile import ConfigError

UNIT = "gpu-oncall-agent.service"
USER = "gpu-oncall-agent"
STATE_DIR = JOINED_CONFIG.parent
RULES = Path("/etc/polkit-1/rules.d/50-gpu-oncall-agent.rules")
_TEMPLATES = Path(__file__).parent
_UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]{1,240}\.service")


@click.command("install-service")
@click.option("--config", type=click.Path(path_type=Path), help="Default: /etc/gpu-oncall's, or the one of `join`.")
@click.option("--allow-reboot", is_flag=True, help="A polkit rule: the agent's user may reboot this node.")
@click.option("--allow-restart", multiple=True, metavar="UNIT", help="A polkit rule: it may restart this unit.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def install_service(config: Path | None, allow_reboot: bool, allow_restart: tuple[str, ...], dry_run: bool) -> None:
    """Let systemd run this node's agent, as the user gpu-oncall-agent. Says all that it does; again is no harm.

    Reboot and restart need a person's approval and the remedy in this node's config, besides these rules.
    """
    try:
        file = config or next((place for place in SYSTEM_PLACES if place.is_file()), SYSTEM_PLACES[0])
        _require_fitting(load(file), file)
        steps = steps_of(service.program("gpu-oncall-agent"), file, allow_reboot, allow_restart)
        if not dry_run:
            _require_root(steps)
        for line in service.told(steps) if dry_run else service.carried_out(steps):
            click.echo(line)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    except service.ServiceError as error:
        raise click.ClickException(str(error)) from error
    if RULES.exists() and not (allow_reboot or allow_restart):
        click.echo(f"kept {RULES}: delete it to take back what it allows")
    if not dry_run:
        click.echo(f"runs; see it with: systemctl status {UNIT}, journalctl -u {UNIT}")


def _require_root(steps: Iterable[service.Step]) -> None:
    service.require_systemd()
    if any(isinstance(step, service.Write) and step.path == RULES for step in steps) and not RULES.parent.is_dir():
        raise service.ServiceError(f"there is no {RULES.parent}: install polkit (Debian: apt install polkitd) first")


def _require_fitting(config: AgentConfig, file: Path) -> None:
    if config.state_dir != STATE_DIR:
        raise ConfigError(
            f"{file}: agent.state_dir is {config.state_dir}, and the service keeps its state in {STATE_DIR}: "
            "join this node as root without --state-dir, or write a unit of your own (docs/install-systemd.md)"
        )


def steps_of(
    program: Path, file: Path, allow_reboot: bool = False, allow_restart: Sequence[str] = ()
) -> list[service.Step]:
    """What installs it. Raises ConfigError, and ServiceError for a config that the user could not read.

    A config inside the state folder becomes the user's own together with that folder: systemd sees to it.
    """
    words: list[str | Path] = [program, "run"]
    if file.absolute() != JOINED_CONFIG:
        service.require_readable(file.absolute())
        words += ["--config", file.absolute()]
    template = (_TEMPLATES / "systemd.service").read_text(encoding="utf-8")
    text = service.unit_text(template, [("ExecStart", service.exec_line(*words))])
    return service.plan(UNIT, text, USER, STATE_DIR, _rules(allow_reboot, allow_restart))


def _rules(allow_reboot: bool, allow_restart: Iterable[str]) -> list[service.Step]:
    units = list(allow_restart)
    if not allow_reboot and not units:
        return []
    for unit in units:
        if not _UNIT_NAME.fullmatch(unit):
            raise ConfigError(f"--allow-restart {unit}: wants a unit's full name, for example vllm.service")
    text = (_TEMPLATES / "polkit.rules").read_text(encoding="utf-8")
    text = text.replace("may_reboot = false", f"may_reboot = {json.dumps(allow_reboot)}")
    return [service.Write(RULES, text.replace("may_restart = []", f"may_restart = {json.dumps(units)}"))]
