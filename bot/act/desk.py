"""What people want of remedies, in Slack and at the terminal: plan, ask, approve, deny, stop."""

from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import Connection

from bot import clock
from bot.act.lists import ApproverLists
from bot.advance import Advance, Click
from bot.advance.remedies import Ask, Asking, Decided
from bot.fleet import Fleet
from bot.remedy.approvers import Approvers
from bot.remedy.blockers import Blocker
from bot.remedy.look import Plan, plan
from bot.store import incidents, remedies, windows
from bot.store.writer import Store
from wire.messages import Process
from wire.orders import Action


class Wish(msgspec.Struct, frozen=True):
    """What somebody has in mind. `about` is the incident that it is to end, None without a stall."""

    action: Action
    node: str
    runner: str = ""
    about: int | None = None


class Planned(msgspec.Struct, frozen=True):
    """What somebody who asks is shown. `plan` None: the node was not heard since this bot's start."""

    plan: Plan | None
    blockers: Sequence[Blocker]
    is_own_host: bool = False


class Desk:
    """`has_bus` says whether an order could leave this moment; `own_boot_id` is that of the bot's own host."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        lists: ApproverLists,
        has_bus: Callable[[], bool],
        own_boot_id: str = "",
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._remedies = advance.remedies
        self._lists = lists
        self._has_bus = has_bus
        self._own_boot_id = own_boot_id

    async def planned(self, wish: Wish, user: str) -> Planned:
        """Everything that a person must know before asking, and all that stands in the way."""
        await self._lists.refresh(wish.node, user)
        seen = self._fleet.seen(wish.node)
        if seen is None:
            nothing = Plan(wish.action, wish.node, wish.runner, "", "", None, 0, (), (), (), None)
            return Planned(None, await self._blockers(Ask(nothing, user, "", about=wish.about)))
        made = plan(wish.action, wish.runner, seen.heartbeat, await self._owners(wish.node), clock.now())
        found = await self._blockers(Ask(made, user, "", about=wish.about))
        return Planned(made, found, made.boot_id == self._own_boot_id)

    async def _blockers(self, ask: Ask) -> Sequence[Blocker]:
        return await self._remedies.in_the_way(ask, self._lists.of(ask.plan.node), has_bus=self._has_bus())

    async def _owners(self, node: str) -> dict[int, Process]:
        newest = await self._store.read(lambda connection: windows.newest_windows(connection, node, 1))
        return {one.pid: one for window in newest for gpu in window.gpus for one in gpu.processes}

    async def ask(self, ask: Ask) -> Asking:
        await self._lists.refresh(ask.plan.node, ask.by)
        return await self._remedies.ask(ask, self._lists.of(ask.plan.node), has_bus=self._has_bus())

    # --- deciding ---------------------------------------------------------------------------------------------------

    async def approve(self, click: Click, reason: str = "", number: int | None = None) -> Decided:
        await self._refresh(click, number)
        return await self._remedies.approve(click, self._lists.of, reason, number)

    async def deny(self, click: Click, reason: str = "", number: int | None = None) -> Decided:
        await self._refresh(click, number)
        return await self._remedies.deny(click, self._lists.of, reason, number)

    async def stop(self, click: Click, number: int | None = None) -> Decided:
        return await self._remedies.stop(click, number)

    async def refused(self, click: Click, why: str) -> None:
        await self._remedies.refused(click, why)

    async def stop_all(self, by: str, reason: str) -> int:
        return await self._remedies.stop_all(by, reason)

    async def sent(self) -> int:
        """How many orders have left and have not ended: nobody can call them back."""
        unfinished = await self._store.read(remedies.unfinished)
        return sum(one.remedy is not None and one.remedy.sent_at is not None for one in unfinished)

    async def resume(self, by: str) -> bool:
        return await self._remedies.resume(by)

    async def _refresh(self, click: Click, number: int | None) -> None:
        def node_of(connection: Connection) -> str:
            found = incidents.incident_of_token(connection, click.token) if number is None else None
            incident = found[0] if found else incidents.load(connection, number) if number else None
            return incident.node if incident else ""

        if node := await self._store.read(node_of):
            await self._lists.refresh(node, click.user)

    # --- for people who look ----------------------------------------------------------------------------------------

    def approvers(self, node: str) -> Approvers:
        return self._lists.of(node)
