"""Answers at the terminal name commands as they are typed there, never those of Slack."""

import pytest

from bot.__main__ import cli
from bot.render.message import Message
from bot.render.plain import plain_text
from bot.render.words import words
from bot.slack.commands import COMMANDS
from bot.terminal.answers import ASKED, Answers, as_typed_here
from bot.terminal.wire import Request
from demo.workspace import Workspace
from tests.bot.slack_bot import SlackBot


@pytest.fixture
async def bot(store, fleet, advance):
    async with Workspace(rate_limits=False) as workspace:
        yield SlackBot(store, fleet, advance, workspace)


async def told(bot, command, text):
    return (await Answers(bot.commands).answer(Request(command, text), "host:root")).text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("why", ""),
        ("why", "gpu-99 0"),
        ("status", "gpu-99"),
        ("candidates", "gpu-99"),
        ("incidents", "everything"),
        ("incidents", ""),
        ("claim", ""),
        ("claim", "gpu-99 0 2h"),
        ("release", ""),
        ("report", "0"),
        ("snooze", ""),
        ("snooze", "gpu-99 2h"),
        ("ack", ""),
        ("approve", ""),
        ("deny", ""),
    ],
)
async def test_every_usage_shows_what_is_typed_here(bot, command, text):
    answer = await told(bot, command, text)
    assert "/gpu-" not in answer
    assert f"gpu-oncall {command}" in answer or answer == "Nothing is open"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_of_all_sentences_only_what_slack_alone_has_keeps_its_name(language):
    for key, sentence in words(language).sentences.items():
        here = plain_text(Message(as_typed_here(sentence), []))[1]
        if not key.startswith(("help.", "usage.gpu-help", "usage.gpu-reboot")):
            assert "/gpu-" not in here.replace("/gpu-reboot", "").replace("/gpu-help", ""), key
            assert "[share]" not in here, key


def test_whatever_the_running_bot_is_asked_is_a_command_of_the_terminal():
    assert ASKED.keys() <= set(cli.list_commands(None))
    assert set(ASKED.values()) >= COMMANDS.keys() - {"/gpu-reboot", "/gpu-help"}


@pytest.mark.parametrize(
    ("said", "here"),
    [
        ("`/gpu-why gpu-07 3` now", "`gpu-oncall why gpu-07 3` now"),
        ("空きは /gpu-candidates で確認できます", "空きは gpu-oncall candidates で確認できます"),
        ("or type `/gpu-reboot` in Slack", "or type `/gpu-reboot` in Slack"),
        (
            "/gpu-status [node] [share]\n`/gpu-status x share` for everybody\n`/gpu-why x`",
            "gpu-oncall status [node]\n`gpu-oncall why x`",
        ),
        ("in /srv/gpu-why and /gpu-whyever", "in /srv/gpu-why and /gpu-whyever"),
    ],
)
def test_only_commands_are_changed(said, here):
    assert as_typed_here(said) == here
