"""The running bot's answers to its own host: the commands of Slack, as plain text."""

import re

from msgspec.structs import replace

from bot.render.plain import plain_text
from bot.slack.commands import Caller, Commands
from bot.terminal.wire import Reply, Request

# What the terminal may ask, and the command that answers it.
ASKED = {
    "why": "/gpu-why",
    "status": "/gpu-status",
    "candidates": "/gpu-candidates",
    "incidents": "/gpu-incidents",
    "claim": "/gpu-claim",
    "report": "/gpu-report",
    "release": "/gpu-release",
    "ack": "/gpu-ack",
    "snooze": "/gpu-snooze",
    "approve": "/gpu-approve",
    "deny": "/gpu-deny",
    "stop-remedies": "/gpu-stop-remedies",
}

_TYPED = {typed: f"gpu-oncall {here}" for here, typed in ASKED.items()}
_COMMAND = re.compile(rf"(?<![\w/])(?:{'|'.join(_TYPED)})(?![\w-])", re.ASCII)
_FOR_A_CHANNEL = re.compile(r" \[share\]|^`/gpu-[^`]* share`.*\n?", re.MULTILINE)


class Answers:
    """`answer` takes a request and who asks."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def answer(self, request: Request, user: str) -> Reply:
        command = ASKED.get(request.command)
        if command is None:
            return Reply(self._commands.words.plain("terminal.unknown_command", command=request.command), False)
        answer = await self._commands.answer(command, request.text, Caller(user))
        here = replace(answer.message, text=as_typed_here(answer.message.text))
        return Reply(plain_text(here)[1], answer.understood)


def as_typed_here(text: str) -> str:
    """Commands of Slack as the terminal takes them; without `share`, since there is no channel to share it with."""
    kept = _FOR_A_CHANNEL.sub("", text).rstrip("\n")
    return _COMMAND.sub(lambda found: _TYPED[found[0]], kept)
