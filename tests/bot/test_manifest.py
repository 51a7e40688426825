"""The Slack app's manifest: the commands that there are, and scopes that somebody needs."""

import re
from pathlib import Path

import yaml
from click.testing import CliRunner

from bot.__main__ import cli
from bot.manifest import SCOPES, manifest
from bot.render.words import words
from bot.slack.commands import COMMANDS
from bot.slack.shortcuts import ACKNOWLEDGE_SHORTCUT
from demo.workspace.methods import METHODS

ROOT = Path(__file__).parents[2]


def test_the_command_prints_the_manifest_as_yaml():
    done = CliRunner().invoke(cli, ["slack", "manifest"])
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.output) == manifest(words("en"))


def test_a_language_that_is_not_there_is_told_with_those_that_are():
    done = CliRunner().invoke(cli, ["slack", "manifest", "--language", "fr"])
    assert done.exit_code == 2
    assert "'en', 'ja'" in done.output


def test_the_manifest_has_every_command_of_the_table_and_no_other():
    listed = manifest(words("en"))["features"]["slash_commands"]
    assert [one["command"] for one in listed] == list(COMMANDS)
    assert all(len(one["command"]) <= 32 and one["description"] and one["should_escape"] for one in listed)
    assert [one.get("usage_hint", "") for one in listed] == [command.usage for command in COMMANDS.values()]


def test_the_shortcut_is_the_one_that_is_listened_to():
    (shortcut,) = manifest(words("en"))["features"]["shortcuts"]
    assert (shortcut["type"], shortcut["callback_id"]) == ("message", ACKNOWLEDGE_SHORTCUT)
    assert len(shortcut["name"]) <= 24


def test_every_scope_is_one_of_a_method_that_the_bot_calls():
    called = set()
    for file in (ROOT / "bot").rglob("*.py"):
        called |= set(re.findall(r'asked\(\s*"([a-zA-Z.]+)"', file.read_text()))
    needed = {scope for method in called if method in METHODS for scope in METHODS[method].scopes}
    not_used = {"im:history", "mpim:history", "im:read", "mpim:read"}  # channels only
    assert set(SCOPES) == needed - not_used | {"commands"}


def test_optional_scopes_are_among_the_scopes():
    scopes = manifest(words("en"))["oauth_config"]["scopes"]
    assert set(scopes["bot_optional"]) < set(scopes["bot"])
