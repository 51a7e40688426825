"""Dialogs that buttons open: at once as "one moment", then filled in; and what their submissions come to."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from typing import Any

import msgspec

from bot import clock
from bot.advance import Advance, Click, Outcome
from bot.incident import CardState, Incident, SnoozeChoice, snooze_until
from bot.notify import DeliveryError, Notifier
from bot.render import modal, reply
from bot.render.card import CLAIM, NOT_A_STALL, SHOW_ALL, SNOOZE
from bot.render.message import Message
from bot.render.modal import ALL_GPUS, CUSTOM, GPUS, LENGTH, OTHER, REASON, SCOPE, WHOLE_NODE, View
from bot.render.remedy_modal import REMEDY_VIEW, carried_plan, problems
from bot.render.values import instant
from bot.render.words import Words
from bot.slack.claims import Wanted
from bot.slack.outcomes import said
from bot.slack.queries import Queries
from bot.slack.typed import LONGEST_SNOOZE, SHORTEST_SNOOZE, snooze_end, words_of
from bot.store import incidents
from bot.store.writer import Store

log = logging.getLogger(__name__)

TITLES = {
    SNOOZE: "modal.snooze",
    CLAIM: "modal.claim",
    NOT_A_STALL: "modal.not_a_stall",
    SHOW_ALL: "modal.show_all",
}
_TITLES = {**TITLES, REMEDY_VIEW: "modal.remedy"}


class Carried(msgspec.Struct, frozen=True):
    """What a dialog keeps between its opening and its submission: the card's button."""

    token: str
    channel: str
    message_ts: str


class Submitted(msgspec.Struct, frozen=True):
    """A submission that may be carried out: what was chosen, by whom, on which card.

    `values` and `metadata` are as Slack delivers them.
    """

    callback_id: str
    view_id: str
    carried: Carried
    user: str
    team: str
    until: datetime | None
    whole_node: bool
    reason: str
    metadata: str = ""
    values: Mapping[str, Any] = {}


class Dialogs:
    """`opened` never raises for what Slack does."""

    def __init__(
        self, store: Store, advance: Advance, queries: Queries, notifier: Notifier, words: Words, zone: tzinfo
    ) -> None:
        self._store = store
        self._advance = advance
        self._queries = queries
        self._notifier = notifier
        self._words = words
        self._zone = zone

    async def open(self, action: str, trigger_id: str, carried: Carried) -> Message | None:
        """None where the dialog stands; else the answer for the one who pressed."""
        try:
            view_id = await self._notifier.open_view(trigger_id, modal.waiting(self._words, TITLES[action]))
        except DeliveryError as error:
            log.warning("A dialog could not be opened; action=%s error=%s", action, error)
            found = await self._incident(carried.token)
            return reply.reply(self._words, "reply.dialog_too_late", number=found.id if found else "12")
        found = await self._incident(carried.token)
        await self._fill(view_id, await self._view(action, found, carried))
        return None

    async def _incident(self, token: str) -> Incident | None:
        found = await self._store.read(lambda connection: incidents.incident_of_token(connection, token))
        return found[0] if found else None

    async def _view(self, action: str, found: Incident | None, carried: Carried) -> View:
        if found is None:
            return modal.told(self._words, TITLES[action], reply.reply(self._words, "reply.unknown_button"))
        if found.closed_at is not None and action != SHOW_ALL:
            over = reply.reply(self._words, "reply.closed", at=instant(found.closed_at))
            return modal.told(self._words, TITLES[action], over)
        return await _VIEWS[action](self, found, msgspec.json.encode(carried).decode())

    async def _snooze(self, found: Incident, carried: str) -> View:
        return modal.snooze(self._words, await self._queries.title(found), found.node, carried)

    async def _claim(self, found: Incident, carried: str) -> View:
        gpus = self.gpus_on(found)
        if not gpus:
            return modal.told(self._words, TITLES[CLAIM], reply.reply(self._words, "reply.stale"))
        return modal.claim(self._words, await self._queries.title(found), gpus, carried)

    def gpus_on(self, found: Incident) -> dict[str, int]:
        """Those that may be claimed from its card, UUID to index."""
        return {gpu.uuid: gpu.index for gpu in found.gpus if gpu.state is not CardState.LEFT}

    async def wanted(self, submitted: Submitted) -> Wanted | None:
        """What was chosen in the dialog of a claim; None where the card is not known any more."""
        found = await self._incident(submitted.carried.token)
        if found is None or submitted.until is None:
            return None
        on_card, chosen = self.gpus_on(found), _chosen(submitted.values, GPUS)
        gpus = on_card if chosen == ALL_GPUS else {uuid: on_card[uuid] for uuid in on_card if uuid == chosen}
        return Wanted(found.node, gpus, submitted.until, submitted.reason) if gpus else None

    async def _not_a_stall(self, found: Incident, carried: str) -> View:
        return modal.not_a_stall(self._words, await self._queries.title(found), carried)

    async def _show_all(self, found: Incident, carried: str) -> View:
        return modal.everything(self._words, await self._queries.rows(found))

    async def _fill(self, view_id: str, view: View) -> None:
        try:
            await self._notifier.update_view(view_id, view)
        except DeliveryError as error:  # the person closed it meanwhile, or Slack went away
            log.warning("A dialog could not be filled in; error=%s", error)

    # --- submissions ------------------------------------------------------------------------------------------------

    def submitted(self, body: Mapping[str, Any]) -> Submitted | dict[str, str]:
        """What was submitted, or what is wrong with it by block: decided at once, so that Slack can show it."""
        view = body.get("view") or {}
        values = (view.get("state") or {}).get("values") or {}
        now = clock.now()
        has_length = view.get("callback_id") in (modal.SNOOZE_VIEW, modal.CLAIM_VIEW)
        until = self._until(values, now) if has_length else None
        if has_length and (until is None or not SHORTEST_SNOOZE <= until - now <= LONGEST_SNOOZE):
            return {CUSTOM: self._words.plain("modal.custom.wrong")}
        metadata = str(view.get("private_metadata") or "")
        is_remedy = view.get("callback_id") == REMEDY_VIEW
        if is_remedy and (wrong := problems(self._words, values, carried_plan(metadata).node)):
            return wrong
        return Submitted(
            callback_id=str(view.get("callback_id") or ""),
            view_id=str(view.get("id") or ""),
            carried=_carried(metadata),
            user=str((body.get("user") or {}).get("id") or ""),
            team=str((body.get("team") or {}).get("id") or ""),
            until=until,
            whole_node=_chosen(values, SCOPE) == WHOLE_NODE,
            reason=_typed(values, REASON),
            metadata=metadata,
            values=values,
        )

    def _until(self, values: Mapping[str, Any], now: datetime) -> datetime | None:
        choice, typed = _chosen(values, LENGTH), words_of(_typed(values, CUSTOM))
        if typed or choice == OTHER:  # what somebody took the trouble to type is what they mean
            return snooze_end(typed[0], now, self._zone) if len(typed) == 1 else None
        return snooze_until(SnoozeChoice(choice), now, self._zone) if choice in list(SnoozeChoice) else None

    async def carry_out(self, submitted: Submitted) -> Message:
        """The decision, in the database."""
        done = _DEEDS.get(submitted.callback_id)
        return await done(self, submitted) if done else reply.reply(self._words, "reply.unknown_action")

    def waiting(self, submitted: Submitted) -> View:
        return modal.waiting(self._words, _TITLES.get(submitted.callback_id, "modal.snooze"))

    def told(self, submitted: Submitted, answer: Message) -> View:
        return modal.told(self._words, _TITLES.get(submitted.callback_id, "modal.snooze"), answer)

    async def tell(self, submitted: Submitted, answer: Message) -> None:
        await self._fill(submitted.view_id, self.told(submitted, answer))

    async def _carry_out_snooze(self, submitted: Submitted) -> Message:
        until = submitted.until or clock.now() + timedelta(hours=1)
        click = _click(submitted, SNOOZE)
        found = await self._incident(submitted.carried.token)
        if submitted.whole_node and found is not None and found.node:
            snooze = await self._advance.snooze_node(found.node, until, click, submitted.reason)
            return reply.reply(self._words, "reply.node_snoozed", node=found.node, until=instant(snooze.until))
        clicked = await self._advance.snooze(click, until, submitted.reason)
        return said(self._words, SNOOZE, submitted.user, clicked, until)

    async def _carry_out_not_a_stall(self, submitted: Submitted) -> Message:
        clicked = await self._advance.not_a_stall(_click(submitted, NOT_A_STALL), submitted.reason)
        if clicked.outcome is Outcome.UNKNOWN_BUTTON:
            return reply.reply(self._words, "reply.unknown_button")
        return said(self._words, NOT_A_STALL, submitted.user, clicked)


_VIEWS: Mapping[str, Callable[[Dialogs, Incident, str], Awaitable[View]]] = {
    SNOOZE: Dialogs._snooze,
    CLAIM: Dialogs._claim,
    NOT_A_STALL: Dialogs._not_a_stall,
    SHOW_ALL: Dialogs._show_all,
}
_DEEDS: Mapping[str, Callable[[Dialogs, Submitted], Awaitable[Message]]] = {
    modal.SNOOZE_VIEW: Dialogs._carry_out_snooze,
    modal.NOT_A_STALL_VIEW: Dialogs._carry_out_not_a_stall,
}


def _click(submitted: Submitted, action: str) -> Click:
    return Click(submitted.carried.token, action, submitted.user, submitted.team)


def _carried(metadata: str) -> Carried:
    try:
        return msgspec.json.decode(metadata, type=Carried)
    except msgspec.DecodeError:  # a dialog of another version
        return Carried("", "", "")


def _element(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (values.get(name) or {}).get(name) or {}


def _chosen(values: Mapping[str, Any], name: str) -> str:
    return str((_element(values, name).get("selected_option") or {}).get("value") or "")


def _typed(values: Mapping[str, Any], name: str) -> str:
    return str(_element(values, name).get("value") or "")
