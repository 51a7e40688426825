"""People in: wires Slack's commands and buttons to their answers. Acknowledge first, always."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import aiohttp
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncRespond
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy.exc import SQLAlchemyError

from bot.render import reply
from bot.render.message import Message
from bot.render.words import Words
from bot.slack.actions import Actions, AfterAnswer
from bot.slack.commands import COMMANDS, Answer, Caller, Commands
from bot.slack.dialogs import Dialogs, Submitted
from bot.slack.gate import Asked, Gate, asked_by_click, asked_by_command
from bot.slack.home import Homes
from bot.slack.repeats import Outcomes, Repeats
from bot.slack.shortcuts import ACKNOWLEDGE_SHORTCUT

log = logging.getLogger(__name__)

ATTEMPTS = 3  # of the five uses that a response URL has
ANSWERED_AT_ONCE_SECONDS = 1.0  # Slack waits 3 s for an acknowledgement
_EVERYTHING = re.compile(".*", re.DOTALL)
_bolt_log = logging.getLogger(f"{__name__}.bolt")
_bolt_log.setLevel(logging.ERROR)  # it warns of our own token in the environment, and of every unknown event


def make_app(
    client: AsyncWebClient,
    actions: Actions,
    commands: Commands,
    dialogs: Dialogs,
    homes: Homes,
    gate: Gate,
    words: Words,
    is_held: Callable[[], bool] = lambda: True,
) -> AsyncApp:
    """The listeners, without any connection. `client` must carry no token: answers use response URLs.

    `is_held` False: another bot works, and whatever still comes is left alone.
    """
    app = AsyncApp(client=client, authorize=_authorize, request_verification_enabled=False, logger=_bolt_log)
    edge = _Edge(actions, commands, dialogs, homes, gate, words, is_held)
    app.middleware(edge.only_at_work)
    for name in COMMANDS:
        app.command(name)(edge.command)
    app.command(_EVERYTHING)(edge.unknown_command)
    app.action(_EVERYTHING)(edge.action)
    app.view(_EVERYTHING)(edge.submission)
    app.shortcut(ACKNOWLEDGE_SHORTCUT)(edge.acknowledge)
    for catch_all in (app.view_closed(_EVERYTHING), app.shortcut(_EVERYTHING)):
        catch_all(edge.ignored)
    app.event("app_home_opened")(edge.home)
    for catch_all in (app.options(_EVERYTHING), app.event(_EVERYTHING)):
        catch_all(edge.ignored)
    return app


async def _authorize(team_id: str | None) -> AuthorizeResult:
    """Bolt would ask Slack here, before it acknowledges. The gate decides instead, after."""
    return AuthorizeResult(enterprise_id=None, team_id=team_id)


class _Edge:
    """Acknowledges, lets the answer be made, and sends it to the one who asked."""

    def __init__(
        self,
        actions: Actions,
        commands: Commands,
        dialogs: Dialogs,
        homes: Homes,
        gate: Gate,
        words: Words,
        is_held: Callable[[], bool],
    ) -> None:
        self._is_held = is_held
        self._homes = homes
        self._repeats = Repeats()
        self._outcomes: Outcomes[Message] = Outcomes()
        self._actions = actions
        self._commands = commands
        self._dialogs = dialogs
        self._gate = gate
        self._words = words

    async def only_at_work(self, next: Callable[[], Awaitable[None]]) -> None:
        """Bolt hands on by an argument of this name; without it, nothing is acknowledged and nothing answered."""
        if self._is_held():
            await next()

    async def ignored(self, ack: AsyncAck) -> None:
        await ack()

    async def home(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        await ack()
        event = body.get("event") or {}
        asked = Asked(str(body.get("team_id") or ""), str(event.get("user") or ""), "", "", is_home=True)
        if self._repeats.has_seen(body) or event.get("tab") != "home" or await self._gate.refusal(asked):
            return
        await self._homes.show(asked.user)

    async def unknown_command(self, ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        await ack()
        await self._say(respond, Answer(reply.reply(self._words, "reply.unknown_command")))

    async def action(self, ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        await ack()
        if self._repeats.has_seen(body):
            return

        after: AfterAnswer | None = None

        async def work() -> Answer | None:
            nonlocal after
            message, after = await self._actions.pressed(body)
            return Answer(message) if message else None

        if asked_by_click(body).is_home:  # there is no message to answer: the page itself shows the answer
            await self._homes.show(asked_by_click(body).user, await self._answer_of(work))
        else:
            await self._answer(respond, work)
        if after is not None:
            await after()

    async def acknowledge(self, ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        await ack()
        if self._repeats.has_seen(body):
            return

        async def work() -> Answer:
            return Answer(await self._actions.acknowledged(body))

        await self._answer(respond, work)

    async def submission(self, ack: AsyncAck, body: dict[str, Any]) -> None:
        """What is wrong, and what it came to, are told with the acknowledgement; what takes longer, after it.

        A view that is sent right after an acknowledgement may reach Slack before it, and would be drawn over.
        """
        submitted = self._dialogs.submitted(body)
        if isinstance(submitted, dict):
            await ack(response_action="errors", errors=submitted)
            return
        outcome = self._outcomes.of(body, partial(self._outcome, submitted))
        await asyncio.wait({outcome}, timeout=ANSWERED_AT_ONCE_SECONDS)
        if outcome.done():
            await ack(response_action="update", view=self._dialogs.told(submitted, outcome.result()))
            return
        await ack(response_action="update", view=self._dialogs.waiting(submitted))
        _, answer = await asyncio.gather(asyncio.sleep(ANSWERED_AT_ONCE_SECONDS), outcome)
        await self._dialogs.tell(submitted, answer)

    async def _outcome(self, submitted: Submitted) -> Message:
        try:
            return await self._actions.submitted(submitted)
        except Exception as error:
            return reply.reply(self._words, _why_not(error))

    async def command(self, ack: AsyncAck, body: dict[str, Any], respond: AsyncRespond) -> None:
        await ack()
        if self._repeats.has_seen(body):
            return

        async def work() -> Answer:
            asked = asked_by_command(body)
            refusal = await self._gate.refusal(asked)
            if refusal is not None:
                log.warning("A command was refused; command=%s team=%s why=%s", body["command"], asked.team, refusal)
                return Answer(reply.reply(self._words, refusal))
            caller = Caller(asked.user, asked.team, str(body.get("trigger_id") or ""))
            return await self._commands.answer(body["command"], str(body.get("text") or ""), caller)

        await self._answer(respond, work)

    async def _answer(self, respond: AsyncRespond, work: Callable[[], Awaitable[Answer | None]]) -> None:
        answer = await self._made(work)
        if answer is not None:
            await self._say(respond, answer)

    async def _answer_of(self, work: Callable[[], Awaitable[Answer | None]]) -> Message | None:
        answer = await self._made(work)
        return answer.message if answer else None

    async def _made(self, work: Callable[[], Awaitable[Answer | None]]) -> Answer | None:
        try:
            return await work()
        except Exception as error:  # whatever it was: the person gets a sentence, the log gets the rest
            return Answer(reply.reply(self._words, _why_not(error)))

    async def _say(self, respond: AsyncRespond, answer: Answer) -> None:
        """Tries again for a while: whoever pressed waits for a word. Two of the same are better than none."""
        why = ""
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(attempt)
            if not self._is_held():
                return
            try:
                status = await _sent(respond, answer.message, answer.shared)
                if status == 400:  # blocks that this workspace does not know
                    log.error("Slack refused the blocks of an answer, the text goes alone")
                    status = await _sent(respond, Message(answer.message.text, []), answer.shared)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = type(error).__name__
                if answer.shared:  # for everybody, once is enough
                    break
                continue
            if status == 200:
                return
            why = f"status {status}"
            if status != 429 and status < 500:
                break
        log.warning("Slack did not take an answer; error=%s", why)


def _why_not(error: Exception) -> str:
    """The key of the sentence for a person; the log has the rest."""
    if isinstance(error, SQLAlchemyError):
        log.error("A click or a command could not be answered: the database takes nothing; error=%s", error)
        return "answer.database"
    log.error("A click or a command could not be answered", exc_info=error)
    return "answer.bug"


async def _sent(respond: AsyncRespond, message: Message, shared: bool) -> int:
    """The HTTP status."""
    if respond.response_url is None:
        return 200  # in a view or shortcut there is nowhere to answer
    response = await respond(
        text=message.text,
        blocks=message.blocks,
        response_type="in_channel" if shared else "ephemeral",
        replace_original=False,
        unfurl_links=False,
        unfurl_media=False,
    )
    return int(response.status_code)
