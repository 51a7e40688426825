"""The command itself: asks everything, posts nothing unless told to."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import click

from bot.check.finding import Finding, Level, advice, as_json, as_text, ok, problem
from bot.check.host import about_bot, about_bus, about_database
from bot.check.pair import about_pair
from bot.check.slack import about_slack
from bot.check.way_out import about_fallback
from bot.config import BotConfig, Mode
from bot.config_option import config_option, first_config
from bot.speak import SlackAccess, slack_access
from wire.configfile import ConfigError

EXIT_PROBLEM = 1


@click.command()
@config_option
@click.option("--json", "as_json_list", is_flag=True, help="A JSON list of findings, for scripts.")
@click.option("--post", is_flag=True, help="Post one line into every channel, and one by every fallback address.")
def check(config_file: Path | None, as_json_list: bool, post: bool) -> None:
    """Say what stands in the way, why it matters and what to do. Posts nothing without --post.

    Exit status: 0 all fine, 1 something stands in the way, 2 usage or config.
    """
    from bot.config import load

    file = config_file or first_config()
    findings = asyncio.run(_findings(load(file), file, post))
    click.echo(as_json(findings) if as_json_list else as_text(findings))
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise SystemExit(EXIT_PROBLEM)


async def _findings(config: BotConfig, file: Path, post: bool) -> Sequence[Finding]:
    findings = [_about_config(config, file)]
    access, found = _access(config)
    findings += found
    if access is not None:
        findings += await about_slack(config, access, post)
        findings += await about_fallback(access.fallback, post)
    findings += await about_bus(config)
    findings += await about_database(config)
    findings += await about_bot(config)
    return [*findings, *await asyncio.to_thread(about_pair, config)]


def _about_config(config: BotConfig, file: Path) -> Finding:
    if config.mode is Mode.LIVE:
        return ok("config", f"read from {file}")
    why = {
        Mode.SHADOW: "it judges and records, and posts nothing",
        Mode.DEMO: "it believes short windows and recordings: what it calls free may not be free",
    }
    return advice("config", f"read from {file}, mode {config.mode}", why[config.mode], "set bot.mode to live")


def _access(config: BotConfig) -> tuple[SlackAccess | None, list[Finding]]:
    try:
        access = slack_access(config, os.environ)
    except ConfigError as error:
        return None, [problem("slack", str(error).partition(":")[0], "nobody hears of anything", str(error))]
    if access is None:
        return None, [advice("slack", "no tokens, mode shadow", "nobody is told anything", "see docs/slack-app.md")]
    return access, []
