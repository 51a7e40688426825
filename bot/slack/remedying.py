"""Remedies as people ask for them and decide about them: dialogs, buttons, and the same at the terminal."""

import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from bot.act.desk import Desk, Planned, Wish
from bot.advance import Click
from bot.advance.remedies import Ask, Asking, Decided
from bot.incident import Incident
from bot.judge.verdict import Said
from bot.notify import DeliveryError, Notifier
from bot.remedy.model import State
from bot.render import modal, reply
from bot.render.drawing import people
from bot.render.message import Message
from bot.render.modal import REASON, View
from bot.render.remedy_card import APPROVE, DENY, STOP
from bot.render.remedy_modal import TITLES, CarriedPlan, Form, accepted, asking, blocked, typed
from bot.render.values import instant
from bot.render.words import Words
from wire.orders import Action

log = logging.getLogger(__name__)

BUTTONS = (APPROVE, DENY, STOP)
ASKS = tuple(map(str, TITLES))
REMEMBERED = 200


class Filled(msgspec.Struct, frozen=True):
    """A submitted dialog: who, the name of what was shown in it, and what was filled in."""

    click: Click
    plan: str
    values: Mapping[str, Any]


class _Shown(msgspec.Struct, frozen=True):
    """What one dialog showed: only that may be asked for by it."""

    planned: Planned
    about: int | None


class Remedying:
    """`notifier` None: there is no Slack, so nobody opens a dialog. `wake` makes the outbox look at once."""

    def __init__(self, desk: Desk, words: Words, notifier: Notifier | None, wake: Callable[[], None]) -> None:
        self._desk = desk
        self._words = words
        self._notifier = notifier
        self._wake = wake
        self._shown: OrderedDict[str, _Shown] = OrderedDict()

    # --- asking -----------------------------------------------------------------------------------------------------

    async def open(self, wish: Wish, user: str, trigger: str) -> Message | None:
        """Opens the dialog at once, and fills it in then. None where it stands."""
        if self._notifier is None or not trigger:
            return reply.reply(self._words, "reply.remedy_in_slack")
        try:
            view_id = await self._notifier.open_view(trigger, modal.waiting(self._words, TITLES[wish.action]))
        except DeliveryError as error:
            log.warning("A dialog could not be opened; action=%s error=%s", wish.action, error)
            return reply.reply(self._words, "reply.remedy_too_late")
        view = self._view(wish, await self._desk.planned(wish, user))
        try:
            await self._notifier.update_view(view_id, view)
        except DeliveryError as error:  # the person closed it meanwhile, or Slack went away
            log.warning("A dialog could not be filled in; error=%s", error)
        return None

    def _view(self, wish: Wish, planned: Planned) -> View:
        key = self._remember(_Shown(planned, wish.about))
        form = Form(
            action=wish.action,
            node=wish.node,
            subject=f"{wish.node} {wish.runner}" if wish.runner else wish.node,
            has_evidence=wish.about is not None,
            kills=planned.plan.shown if planned.plan else (),
            notes=(Said("remedy.own_host"),) if planned.is_own_host else (),
            blockers=planned.blockers,
        )
        carried = CarriedPlan(key, wish.node if wish.action is Action.REBOOT_NODE else "")
        return asking(self._words, form, msgspec.json.encode(carried).decode())

    def _remember(self, shown: _Shown) -> str:
        key = secrets.token_urlsafe(16)
        self._shown[key] = shown
        while len(self._shown) > REMEMBERED:
            self._shown.popitem(last=False)
        return key

    async def submitted(self, filled: Filled) -> Message:
        """What the request came to, for the dialog to show."""
        shown = self._shown.pop(filled.plan, None)
        if shown is None or shown.planned.plan is None:
            return reply.reply(self._words, "reply.remedy_dialog_old")
        ask = Ask(
            plan=shown.planned.plan,
            by=filled.click.user,
            reason=typed(filled.values, REASON),
            accepted=accepted(filled.values),
            about=shown.about,
        )
        return self._asked(await self._desk.ask(ask))

    def _asked(self, asked: Asking) -> Message:
        self._wake()
        if asked.incident is None or asked.incident.remedy is None:
            return reply.lines(self._words, blocked(self._words, asked.blockers))
        until = instant(asked.incident.remedy.expires_at)
        return reply.reply(self._words, "reply.remedy_asked", number=asked.incident.id, until=until)

    # --- deciding ---------------------------------------------------------------------------------------------------

    async def pressed(self, click: Click) -> tuple[Message, Incident | None]:
        """The answer, and the request whose card must be drawn again where the press changed nothing."""
        decided = await _DEEDS[click.action](self._desk, click)
        self._wake()
        return self.outcome(click, decided), decided.incident if decided.refused else None

    async def refused(self, click: Click, why: str) -> None:
        """A press of somebody who may not press at all is recorded like every other one."""
        await self._desk.refused(click, why)

    async def by_number(self, action: str, number: int, user: str, reason: str) -> tuple[Message, bool]:
        """At the terminal, and in Slack by its number."""
        click = Click("", action, user, "")
        if action == APPROVE:
            decided = await self._desk.approve(click, reason, number)
        elif action == DENY:
            decided = await self._desk.deny(click, reason, number)
        else:
            decided = await self._desk.stop(click, number)
        self._wake()
        if decided.incident is None or decided.incident.remedy is None:
            return reply.reply(self._words, "reply.no_request", number=number), False
        return self.outcome(click, decided), not decided.refused

    def outcome(self, click: Click, decided: Decided) -> Message:
        request = decided.incident.remedy if decided.incident else None
        if request is None:
            return reply.reply(self._words, "reply.unknown_button")
        if decided.refused == "reply.decided":
            return reply.lines(self._words, [self._words.say("reply.decided", state=self._state(request.state))])
        if decided.refused == "refused.not_approver":
            named = self._desk.approvers(request.node).people()
            shown = people(named) if named else self._words.say("reply.nobody")
            return reply.reply(self._words, decided.refused, people=shown)
        if decided.refused:
            return reply.reply(self._words, decided.refused)
        return reply.reply(self._words, f"reply.{click.action}", state=self._state(request.state))

    def _state(self, state: State) -> str:
        return self._words.plain(f"remedy.state.{state}")

    # --- all of them ------------------------------------------------------------------------------------------------

    async def stop_all(self, by: str, reason: str) -> Message:
        count = await self._desk.stop_all(by, reason)
        sent = await self._desk.sent()
        self._wake()
        lines = [self._words.counted("reply.remedies_stopped", count)]
        return reply.lines(self._words, [*lines, *([self._words.counted("reply.remedies_sent", sent)] if sent else ())])

    async def resume(self, by: str) -> Message:
        key = "reply.remedies_resumed" if await self._desk.resume(by) else "reply.remedies_not_stopped"
        return reply.reply(self._words, key)


_DEEDS: Mapping[str, Callable[[Desk, Click], Awaitable[Decided]]] = {
    APPROVE: Desk.approve,
    DENY: Desk.deny,
    STOP: Desk.stop,
}
