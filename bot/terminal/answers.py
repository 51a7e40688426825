"""The running bot's answers to its own host: the commands of Slack, as plain text."""

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


class Answers:
    """`answer` takes a request and who asks."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    async def answer(self, request: Request, user: str) -> Reply:
        command = ASKED.get(request.command)
        if command is None:
            return Reply(self._commands.words.plain("terminal.unknown_command", command=request.command), False)
        answer = await self._commands.answer(command, request.text, Caller(user))
        return Reply(plain_text(answer.message)[1], answer.understood)
