"""Presses on a card's buttons, and the shortcut on its messages: decided in the database, answered to the presser."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from bot import clock
from bot.act.desk import Wish
from bot.advance import Advance, Click, Clicked, Outcome
from bot.incident import CardState, Incident
from bot.render import reply, why
from bot.render.card import ACKNOWLEDGE, CARD_MENU, EVIDENCE, IN_DETAIL, IN_USE, UNSNOOZE, WHY
from bot.render.claims import BUTTONS as CLAIM_BUTTONS
from bot.render.message import Message
from bot.render.modal import CLAIM_VIEW
from bot.render.remedy_modal import REMEDY_VIEW, carried_plan
from bot.render.runner import why_runner
from bot.render.values import instant
from bot.render.words import Words
from bot.slack.commands import Caller, Commands
from bot.slack.dialogs import TITLES, Carried, Dialogs, Submitted
from bot.slack.gate import OTHER_CHANNEL, Asked, Gate, asked_by_click
from bot.slack.outcomes import said
from bot.slack.queries import Queries
from bot.slack.remedying import ASKS, Filled
from bot.slack.remedying import BUTTONS as REMEDY_BUTTONS
from bot.store import incidents, outbox
from bot.store.writer import Store, Transaction
from wire.orders import Action

ANSWERED = "answered"
AfterAnswer = Callable[[], Awaitable[None]]


class Actions:
    """Every press comes to one message or dialog for the person who pressed, and to one row of the record."""

    def __init__(
        self,
        store: Store,
        advance: Advance,
        queries: Queries,
        gate: Gate,
        words: Words,
        dialogs: Dialogs,
        commands: Commands,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._advance = advance
        self._queries = queries
        self._gate = gate
        self._words = words
        self._dialogs = dialogs
        self._commands = commands
        self._wake = wake
        self._deeds: Mapping[str, Callable[[Click], Awaitable[Clicked]]] = {
            ACKNOWLEDGE: advance.acknowledge,
            IN_USE: advance.said_in_use,
            UNSNOOZE: advance.unsnooze,
        }

    async def pressed(self, body: Mapping[str, Any]) -> tuple[Message | None, AfterAnswer | None]:
        """The answer for the one who pressed, None where a dialog is the answer; and what may wait until it is said."""
        asked = asked_by_click(body)
        action, token = _what(body)
        click = Click(token=token, action=action, user=asked.user, team=asked.team)
        if refused := await self._refused(asked, click):
            return refused, None
        if action in TITLES:
            return await self._dialog(body, asked, click), None
        if action in (WHY, EVIDENCE):
            return await self._why(click), None
        if action in ASKS:
            return await self._ask_remedy(body, asked, click), None
        if action in REMEDY_BUTTONS:
            message, old = await self._commands.remedying.pressed(click)
            return message, partial(self._draw_again, asked, old) if old else None
        if action in CLAIM_BUTTONS:
            return await self._commands.claiming.pressed(click), None
        deed = self._deeds.get(action)
        if deed is None:
            await self._advance.refused(click, "unknown action")
            return reply.reply(self._words, "reply.unknown_action"), None
        clicked = await deed(click)
        is_old = clicked.outcome is not Outcome.DONE
        after = partial(self._draw_again, asked, clicked.incident) if is_old else None
        return said(self._words, action, asked.user, clicked), after

    async def _refused(self, asked: Asked, click: Click) -> Message | None:
        refusal = await self._gate.refusal(asked)
        if refusal is None or (refusal == OTHER_CHANNEL and await self._is_on_our_card(asked)):
            return None
        if click.action in REMEDY_BUTTONS:
            await self._commands.remedying.refused(click, refusal)
        else:
            await self._advance.refused(click, refusal.removeprefix("reply."))
        return reply.reply(self._words, refusal)

    async def _is_on_our_card(self, asked: Asked) -> bool:
        """The config may name another channel since it was posted; its buttons must not be dead."""
        card = await self._store.read(lambda connection: outbox.card_at(connection, asked.channel, asked.message_ts))
        return card is not None

    async def _dialog(self, body: Mapping[str, Any], asked: Asked, click: Click) -> Message | None:
        carried = Carried(click.token, asked.channel, asked.message_ts)
        answer = await self._dialogs.open(click.action, str(body.get("trigger_id") or ""), carried)
        outcome = "a dialog" if answer is None else "no dialog"
        incident = await self._store.write(lambda transaction: _record(transaction, click, outcome), urgent=True)
        if incident is None or incident.closed_at is not None:
            await self._draw_again(asked, incident)
        return answer

    async def _ask_remedy(self, body: Mapping[str, Any], asked: Asked, click: Click) -> Message | None:
        """A remedy for the stall whose card was pressed."""
        incident = await self._store.write(lambda transaction: _record(transaction, click, "a dialog"), urgent=True)
        if incident is None:
            return reply.reply(self._words, "reply.unknown_button")
        if incident.closed_at is not None:
            await self._draw_again(asked, incident)
            return reply.reply(self._words, "reply.closed", at=instant(incident.closed_at))
        wish = Wish(Action(click.action), incident.node, incident.runner, incident.id)
        return await self._commands.remedying.open(wish, click.user, str(body.get("trigger_id") or ""))

    async def submitted(self, submitted: Submitted) -> Message:
        """What it came to, for the dialog to show."""
        asked = Asked(submitted.team, submitted.user, "", submitted.carried.channel, submitted.carried.message_ts)
        click = Click(submitted.carried.token, submitted.callback_id, submitted.user, submitted.team)
        refusal = await self._gate.refusal_of_person(asked)
        if refusal is not None:
            await self._advance.refused(click, refusal.removeprefix("reply."))
            return reply.reply(self._words, refusal)
        if submitted.callback_id == REMEDY_VIEW:
            filled = Filled(click, carried_plan(submitted.metadata).plan, submitted.values)
            return await self._commands.remedying.submitted(filled)
        if submitted.callback_id == CLAIM_VIEW:
            return await self._claim(submitted, click)
        answer = await self._dialogs.carry_out(submitted)
        self._wake()
        return answer

    async def _claim(self, submitted: Submitted, click: Click) -> Message:
        wanted = await self._dialogs.wanted(submitted)
        if wanted is None:
            await self._advance.refused(click, "card not known")
            return reply.reply(self._words, "reply.stale")
        return (await self._commands.claiming.take(wanted, click))[0]

    # --- the message shortcut ---------------------------------------------------------------------------------------

    async def acknowledged(self, body: Mapping[str, Any]) -> Message:
        """The shortcut on a card, or on any message of its thread."""
        asked = asked_by_click(body)
        message = body.get("message") or {}
        ts = str(message.get("thread_ts") or body.get("message_ts") or "")
        click = Click("", ACKNOWLEDGE, asked.user, asked.team)
        if refused := await self._refused(replace(asked, message_ts=ts), click):
            return refused
        card = await self._store.read(lambda connection: outbox.card_at(connection, asked.channel, ts))
        incident_id = card.incident_id if card else None
        if incident_id is None:
            await self._advance.refused(click, "no card")
            return reply.reply(self._words, "reply.no_card")
        return await self._commands.acknowledge_incident(incident_id, Caller(asked.user, asked.team))

    # --- why --------------------------------------------------------------------------------------------------------

    async def _why(self, click: Click) -> Message:
        incident = await self._store.write(lambda transaction: _record(transaction, click, ANSWERED), urgent=True)
        if incident is None:
            return reply.reply(self._words, "reply.unknown_button")
        if incident.runner:
            return why_runner(self._words, await self._queries.why_runner(incident.node, incident.runner, None))
        if not incident.gpus:
            return await self._queries.card(incident)
        shown = sorted(incident.gpus, key=lambda gpu: gpu.state is CardState.LEFT)[:IN_DETAIL]
        return why.several(self._words, [await self._queries.why(incident.node, gpu.uuid, None) for gpu in shown])

    # --- the card on their screen is an old drawing ------------------------------------------------------------------

    async def _draw_again(self, asked: Asked, incident: Incident | None) -> None:
        def work(transaction: Transaction) -> None:
            connection = transaction.connection
            card = outbox.card_at(connection, asked.channel, asked.message_ts)
            if incident is not None:
                outbox.redraw(connection, incident.id, clock.now())
            elif card is not None and card.incident_id is not None:
                outbox.redraw(connection, card.incident_id, clock.now())

        await self._store.write(work)
        self._wake()


def _what(body: Mapping[str, Any]) -> tuple[str, str]:
    """The action and its token, both "" where the payload has none."""
    actions: list[Mapping[str, Any]] = body.get("actions") or [{}]
    first = actions[0]
    if first.get("action_id") != CARD_MENU:
        return str(first.get("action_id") or ""), str(first.get("value") or "")
    chosen = str((first.get("selected_option") or {}).get("value") or "")
    action, _, token = chosen.partition(":")
    return action, token


def _record(transaction: Transaction, click: Click, outcome: str) -> Incident | None:
    """What changes nothing is recorded like every click."""
    found = incidents.incident_of_token(transaction.connection, click.token)
    outcome = outcome if found else Outcome.UNKNOWN_BUTTON
    incident_id = found[0].id if found else None
    incidents.record_click(
        transaction.connection, clock.now(), click.team, click.user, click.action, incident_id, outcome
    )
    return found[0] if found else None
