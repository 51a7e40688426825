"""Presses on the buttons and the menu of a card: decided in the database, answered to whoever pressed."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bot import clock
from bot.advance import Advance, Click, Clicked, Outcome
from bot.incident import CardState, Incident
from bot.render import reply, why
from bot.render.card import ACKNOWLEDGE, CARD_MENU, IN_DETAIL, IN_USE, WHY
from bot.render.message import Message
from bot.render.values import instant, person
from bot.render.words import Words
from bot.slack.gate import Asked, Gate, asked_by_click
from bot.slack.queries import Queries
from bot.store import incidents, outbox
from bot.store.writer import Store, Transaction

ANSWERED = "answered"


class Actions:
    """Every press comes to one message for the person who pressed, and to one row of the record."""

    def __init__(
        self, store: Store, advance: Advance, queries: Queries, gate: Gate, words: Words, wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._advance = advance
        self._queries = queries
        self._gate = gate
        self._words = words
        self._wake = wake
        self._deeds: Mapping[str, Callable[[Click], Awaitable[Clicked]]] = {
            ACKNOWLEDGE: advance.acknowledge,
            IN_USE: advance.said_in_use,
        }

    async def pressed(self, body: Mapping[str, Any]) -> Message:
        """The answer, for the eyes of the one who pressed."""
        asked = asked_by_click(body)
        action, token = _what(body)
        click = Click(token=token, action=action, user=asked.user, team=asked.team)
        refusal = await self._gate.refusal(asked)
        if refusal is not None:
            await self._advance.refused(click, refusal.removeprefix("reply."))
            return reply.reply(self._words, refusal)
        if action == WHY:
            return await self._why(click)
        deed = self._deeds.get(action)
        if deed is None:
            await self._advance.refused(click, "unknown action")
            return reply.reply(self._words, "reply.unknown_action")
        clicked = await deed(click)
        if clicked.outcome is not Outcome.DONE:
            await self._draw_again(asked, clicked.incident)
        return self._said(action, asked.user, clicked)

    # --- why --------------------------------------------------------------------------------------------------------

    async def _why(self, click: Click) -> Message:
        incident = await self._store.write(lambda transaction: _asked_why(transaction, click), urgent=True)
        if incident is None:
            return reply.reply(self._words, "reply.unknown_button")
        shown = sorted(incident.gpus, key=lambda gpu: gpu.state is CardState.LEFT)[:IN_DETAIL]
        return why.several(self._words, [await self._queries.why(incident.node, gpu.uuid, None) for gpu in shown])

    # --- what is said -----------------------------------------------------------------------------------------------

    def _said(self, action: str, user: str, clicked: Clicked) -> Message:
        incident = clicked.incident
        if clicked.outcome is Outcome.DONE:
            return reply.reply(self._words, _DONE[action])
        if clicked.outcome is Outcome.ALREADY and incident is not None:
            return self._said_already(action, user, incident)
        if clicked.outcome is Outcome.CLOSED and incident is not None and incident.closed_at is not None:
            return reply.reply(self._words, "reply.closed", at=instant(incident.closed_at))
        return reply.reply(self._words, f"reply.{clicked.outcome}")

    def _said_already(self, action: str, user: str, incident: Incident) -> Message:
        by, at, key = incident.disputed_by, incident.disputed_at, "reply.already_said_in_use"
        if action == ACKNOWLEDGE:
            by, at, key = incident.acknowledged_by, incident.acknowledged_at, "reply.already_acknowledged"
        if by is None or at is None:
            return reply.reply(self._words, "reply.stale")
        if by == user:
            return reply.reply(self._words, f"{key}_by_you", at=instant(at))
        return reply.reply(self._words, key, by=person(by), at=instant(at))

    # --- the card on their screen is an old drawing ------------------------------------------------------------------

    async def _draw_again(self, asked: Asked, incident: Incident | None) -> None:
        def work(transaction: Transaction) -> None:
            connection = transaction.connection
            card = outbox.card_at(connection, asked.channel, asked.message_ts)
            if incident is not None:
                outbox.redraw(connection, incident.id, clock.now())
            elif card is not None and card.incident_id is not None:
                outbox.redraw(connection, card.incident_id, clock.now())

        await self._store.write(work, urgent=True)
        self._wake()


_DONE = {ACKNOWLEDGE: "reply.acknowledged", IN_USE: "reply.said_in_use"}


def _what(body: Mapping[str, Any]) -> tuple[str, str]:
    """The action and its token, both "" where the payload has none."""
    actions: list[Mapping[str, Any]] = body.get("actions") or [{}]
    first = actions[0]
    if first.get("action_id") != CARD_MENU:
        return str(first.get("action_id") or ""), str(first.get("value") or "")
    chosen = str((first.get("selected_option") or {}).get("value") or "")
    action, _, token = chosen.partition(":")
    return action, token


def _asked_why(transaction: Transaction, click: Click) -> Incident | None:
    """A question changes nothing, and is recorded like every click."""
    found = incidents.incident_of_token(transaction.connection, click.token)
    outcome = ANSWERED if found else Outcome.UNKNOWN_BUTTON
    incidents.record_click(
        transaction.connection,
        clock.now(),
        click.team,
        click.user,
        click.action,
        found[0].id if found else None,
        outcome,
    )
    return found[0] if found else None
