"""`gpu-oncall check`: each line says what was found, why it matters and what to do; nothing is posted unless asked."""

import asyncio
import functools
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bot import clock
from bot.__main__ import cli, main
from bot.check.slack import Known, about_clock
from bot.config import BotConfig
from bot.database import opened
from bot.lock import only_bot
from bot.store import troubles
from demo.machine import free_ports
from tests.tls_bus import bot_config, running_bus
from wire import nkey
from wire.files import write_private


@pytest.fixture
def installed(tmp_path, workspace, monkeypatch):
    """A config that is all right, in a folder that is."""
    listen, monitor = free_ports(2)
    monkeypatch.setenv("SLACK_BOT_TOKEN", workspace.bot_token)
    monkeypatch.setenv("SLACK_APP_TOKEN", workspace.app_token)
    data_dir = tmp_path / "bot"
    data_dir.mkdir(mode=0o700)
    write_private(data_dir / "bot.nkey", nkey.generate_seed() + "\n")
    embedded = {"listen": f"127.0.0.1:{listen}", "monitor": f"127.0.0.1:{monitor}"}
    return {
        "data_dir": str(data_dir),
        "bus": {"embedded": embedded, "insecure": True},
        "slack": {"api_url": workspace.api_url, "channels": {"default": "C0ONCALL", "candidates": "C0IDLE"}},
        "groups": [{"name": "all", "nodes": ["*"], "approvers": {"users": ["U0ALICE"], "user_group": "S0ADMINS"}}],
    }


async def checked(config, tmp_path, *options):
    """Findings by topic, and the exit status."""
    file = Path(tmp_path) / "config.yaml"
    file.write_text(yaml.safe_dump({"bot": config}))
    run = functools.partial(CliRunner().invoke, cli, ["check", "--config", str(file), "--json", *options])
    done = await asyncio.to_thread(run)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    findings = {}
    for one in json.loads(done.stdout):
        findings.setdefault(one["topic"], []).append(one)
    return findings, done.exit_code


async def test_all_is_well_and_nothing_was_posted(installed, workspace, tmp_path):
    findings, status = await checked(installed, tmp_path)
    assert status == 0
    assert [one["level"] for lines in findings.values() for one in lines if one["level"] == "problem"] == []
    assert {"bot token", "app token", "scopes", "clock", "channel default", "channel candidates", "bus"} < set(findings)
    assert findings["approvers of all"][0]["text"] == "2 people"
    assert all(channel.shown == [] for channel in workspace.channels.values())
    assert workspace.sockets.envelopes == []


async def test_with_post_every_channel_gets_one_line(installed, workspace, tmp_path):
    findings, status = await checked(installed, tmp_path, "--post")
    assert (status, len(workspace.channel("gpu-oncall").shown), len(workspace.channel("gpu-candidates").shown)) == (
        0,
        1,
        1,
    )
    assert findings["channel default"][0]["text"] == "C0ONCALL took a message"


def revoke(workspace, config):
    workspace.token_revoked = True


def wrong_app_token(workspace, config):
    os.environ["SLACK_APP_TOKEN"] = "xapp-wrong"


def no_history(workspace, config):
    workspace.scopes.discard("channels:history")


def archived(workspace, config):
    workspace.channel("gpu-oncall").is_archived = True


def not_invited(workspace, config):
    workspace.channel("gpu-candidates").members.remove("U0GPUONCALL")


def no_channel(workspace, config):
    config["slack"]["channels"]["incidents"] = "C0NOTHERE"


def a_guest(workspace, config):
    config["groups"][0]["approvers"]["users"] = ["U0DAVE", "U0ERIN"]


def nobody_of_this_workspace(workspace, config):
    config["groups"][0]["approvers"]["users"] = ["U0NOBODY", "U0ALICE"]


def empty_group(workspace, config):
    workspace.group("gpu-admins").members.clear()


def no_key(workspace, config):
    Path(config["data_dir"], "bot.nkey").unlink()


def no_server(workspace, config):
    config["bus"] = {"servers": [f"nats://127.0.0.1:{free_ports(1)[0]}"], "insecure": True}


def no_authority(workspace, config):
    config["bus"] = {"servers": [f"tls://127.0.0.1:{free_ports(1)[0]}"]}


def no_program(workspace, config):
    config["bus"]["nats_server"] = "/bin/true"


def no_database(workspace, config):
    Path(config["data_dir"], "gpu-oncall.sqlite").write_bytes(b"this is no database" * 100)


def no_place_for_a_database(workspace, config):
    config["database"] = "sqlite:////dev/null/gpu-oncall.sqlite"


def no_postgresql(workspace, config):
    config["database"] = f"postgresql://bot@127.0.0.1:{free_ports(1)[0]}/bot"


def slack_away(workspace, config):
    config["slack"]["api_url"] = f"http://127.0.0.1:{free_ports(1)[0]}/api/"


def no_such_fallback(workspace, config):
    config["fallback"] = ["carrier-pigeon://roof"]


@pytest.mark.parametrize(
    ("broken", "topic", "text", "todo"),
    [
        (revoke, "bot token", "auth.test: token_revoked", "SLACK_BOT_TOKEN"),
        (wrong_app_token, "app token", "apps.connections.open: invalid_auth", "SLACK_APP_TOKEN"),
        (no_history, "scopes", "channels:history is missing", "gpu-oncall slack manifest"),
        (archived, "channel default", "C0ONCALL is archived", "bot.slack.channels"),
        (not_invited, "channel candidates", "C0IDLE is there, and the app is not in it", "/invite"),
        (no_channel, "channel incidents", "channel_not_found", "config.yaml"),
        (a_guest, "approvers of all", "U0DAVE is a guest", "members of this workspace"),
        (nobody_of_this_workspace, "approvers of all", "U0NOBODY: users.info: user_not_found", "Copy member ID"),
        (empty_group, "approvers of all", "the user group S0ADMINS is empty", "put people into it"),
        (no_key, "bus", "bot.nkey", "gpu-oncall init"),
        (no_server, "bus", "none of 1 servers lets the bot in", "bot.bus.servers"),
        (no_authority, "bus", "/tls/ca.pem cannot be read", "bot.bus.ca"),
        (no_program, "bus", "/bin/true is no nats-server", "nats_server"),
        (no_database, "database", "file is not a database", "bot.data_dir"),
        (no_place_for_a_database, "database", "/dev/null may not be written by this user", "bot.data_dir"),
        (no_postgresql, "database", "Connection refused", "see whether it runs, and bot.database"),
        (slack_away, "bot token", "no connection", ""),
        (no_such_fallback, "fallback 1", "Apprise does not understand", "Apprise's list"),
    ],
)
async def test_what_is_broken_is_found_with_why_and_what_to_do(
    installed, workspace, tmp_path, monkeypatch, broken, topic, text, todo
):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    broken(workspace, installed)
    findings, status = await checked(installed, tmp_path)
    found = next(one for one in findings[topic] if one["level"] == "problem")
    assert status == 1
    assert text in found["text"]
    assert todo in found["todo"]
    assert "\n" not in found["text"]
    assert found["why"]
    assert workspace.bot_token not in json.dumps(findings)


async def test_servers_of_ones_own_are_reached_by_tls_with_their_authority(installed, tmp_path):
    async with running_bus(bot_config(tmp_path / "elsewhere")) as bus:
        ours = bus.config
        installed["bus"] = {
            "servers": [bus.server.url],
            "credentials": str(ours.key_file()),
            "ca": str(ours.ca_file()),
        }
        findings, status = await checked(installed, tmp_path)
    assert findings["bus"][0]["text"] == "connected, to one of 1 servers"
    assert status == 0


async def test_a_missing_optional_scope_is_advice_only(installed, workspace, tmp_path):
    workspace.scopes.discard("channels:read")
    findings, status = await checked(installed, tmp_path)
    assert status == 0
    assert findings["scopes"][0]["level"] == "advice"
    assert findings["channel default"][0]["level"] == "advice"


def test_a_clock_that_is_wrong_by_minutes_is_a_problem():
    levels = []
    for seconds in (1, 30, 300):
        known = Known("T", "U", frozenset(), clock.now() + timedelta(seconds=seconds))
        levels += [str(finding.level) for finding in about_clock(known)]
    assert levels == ["ok", "advice", "problem"]


async def test_what_the_running_bot_wrote_down_is_told(installed, tmp_path, workspace):
    config = BotConfig(data_dir=Path(installed["data_dir"]))
    async with opened(config) as store:
        now = clock.now()
        await store.write(lambda transaction: troubles.note(transaction.connection, "slack", "it is away", now))
    with only_bot(config.data_dir):
        findings, status = await checked(installed, tmp_path)
    assert status == 1
    assert findings["bot, slack"][0]["text"].startswith("it is away, since ")
    assert findings["bus"][0]["text"].startswith("the bot runs, its server does not")


async def test_without_tokens_it_says_where_they_go(installed, tmp_path, monkeypatch):
    monkeypatch.delenv("SLACK_BOT_TOKEN")
    findings, status = await checked(installed, tmp_path)
    assert status == 1
    assert "SLACK_BOT_TOKEN_FILE" in findings["slack"][0]["todo"]


def test_a_wrong_config_is_exit_status_two(tmp_path, monkeypatch):
    file = tmp_path / "config.yaml"
    file.write_text("bot: {mode: loud}\n")
    monkeypatch.setattr("sys.argv", ["gpu-oncall", "check", "--config", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
