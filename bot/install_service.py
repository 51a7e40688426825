"""`gpu-oncall install-service`: the bot as a service of systemd, under a user of its own."""

from pathlib import Path

import click

from bot.config import BotConfig, load
from bot.config_option import CONFIG_PLACES
from wire import service
from wire.configfile import ConfigError

UNIT = "gpu-oncall.service"
USER = "gpu-oncall"
DATA_DIR = Path("/var/lib/gpu-oncall")
SECRETS = Path("/etc/gpu-oncall/bot.env")
_TEMPLATE = Path(__file__).with_name("systemd.service")


@click.command("install-service")
@click.option("--config", "file", type=click.Path(path_type=Path), default=CONFIG_PLACES[-1], show_default=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def install_service(file: Path, dry_run: bool) -> None:
    """Let systemd run the bot, as the user gpu-oncall. Says all that it does; again is no harm.

    Its secrets come from /etc/gpu-oncall/bot.env, which only root needs to read.
    """
    file = file.absolute()
    _require_fitting(load(file), file)
    try:
        service.require_readable(file)
        steps = steps_of(service.program("gpu-oncall"), file)
        if not dry_run:
            service.require_systemd()
        for line in service.told(steps) if dry_run else service.carried_out(steps):
            click.echo(line)
    except service.ServiceError as error:
        raise click.ClickException(str(error)) from error
    if not SECRETS.exists():
        click.echo(f"missing: {SECRETS} with SLACK_BOT_TOKEN=... and SLACK_APP_TOKEN=... (not with mode: shadow)")
    if not dry_run:
        click.echo(f"see it with: systemctl status {UNIT}, journalctl -u {UNIT}")


def _require_fitting(config: BotConfig, file: Path) -> None:
    if config.data_dir != DATA_DIR:
        raise ConfigError(
            f"{file}: bot.data_dir is {config.data_dir}, and the service keeps its data in {DATA_DIR}: "
            "set that, or write a unit of your own (docs/install-systemd.md)"
        )


def steps_of(program: Path, file: Path) -> list[service.Step]:
    """What installs it."""
    commands = [("ExecStartPre", "init"), ("ExecStart", "run")]
    lines = [(key, service.exec_line(program, command, "--config", file)) for key, command in commands]
    text = service.unit_text(_TEMPLATE.read_text(encoding="utf-8"), lines)
    return service.plan(UNIT, text, USER, DATA_DIR)
