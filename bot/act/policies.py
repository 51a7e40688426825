"""What may be done without a person: only a confirmed stall, only as both configs say, restart first."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from bot import clock
from bot.act.lists import ApproverLists
from bot.advance import Advance
from bot.advance.obstacles import has_a_person, is_remediable
from bot.advance.remedies import Ask
from bot.fleet import Fleet
from bot.incident import Incident, Kind
from bot.remedy.look import plan, tick_of
from bot.remedy.model import State
from bot.store.remedies import Acted
from wire.orders import Action
from wire.ticks import ApiState, SignalClass, Tick

# The node restarts a runner once an hour; a stall that comes later is a new one, and begins with a restart again.
AGAIN_WITHIN = timedelta(hours=1)
_ENDED = (State.DONE, State.FAILED)


class Policies:
    """Asks in place of a person; the countdown with its Stop button follows."""

    def __init__(self, fleet: Fleet, advance: Advance, lists: ApproverLists, has_bus: Callable[[], bool]) -> None:
        self._fleet = fleet
        self._advance = advance
        self._remedies = advance.remedies
        self._lists = lists
        self._has_bus = has_bus
        self._blocked: dict[tuple[int, Action], Sequence[str]] = {}

    async def turn(self) -> None:
        open_ones = self._advance.open_incidents()
        numbers = {one.id for one in open_ones}
        self._blocked = {key: names for key, names in self._blocked.items() if key[0] in numbers}
        busy = {one.node for one in open_ones if one.kind is Kind.REMEDY}
        for incident in open_ones:
            if incident.node not in busy:
                await self._look_at(incident)

    async def _look_at(self, incident: Incident) -> None:
        action = self._wanted(incident)
        seen = self._fleet.seen(incident.node)
        if action is None or seen is None:
            return
        made = plan(action, incident.runner, seen.heartbeat, {}, clock.now())
        ask = Ask(made, "", "", about=incident.id, policy=self._remedies.obstacles.policy_line(incident.node))
        approvers, has_bus = self._lists.of(incident.node), self._has_bus()
        left = await self._remedies.in_the_way(ask, approvers, has_bus=has_bus)
        names = [one.name for one in left]
        if names and self._blocked.get((incident.id, action)) == names:
            return  # recorded already
        self._blocked[incident.id, action] = names
        await self._remedies.ask(ask, approvers, has_bus=has_bus)

    def _wanted(self, incident: Incident) -> Action | None:
        """Which remedy, None for none. Somebody who acknowledged or stopped it takes care of it."""
        if not is_remediable(incident) or incident.what != "stalled" or has_a_person(incident):
            return None
        seen = self._fleet.seen(incident.node)
        tick = tick_of(seen.heartbeat, incident.runner) if seen else None
        if tick is None or not is_certain(tick):
            return None
        acted = [one for one in self._remedies.acted if one.node == incident.node]
        action = next_action(incident, acted, clock.now())
        was_tried = any(one.action is action for one in incident.tried)
        return action if not was_tried and self._remedies.obstacles.allows_policy(incident.node, action) else None


def is_certain(tick: Tick) -> bool:
    """All three: canaries fail, the API answers, and nothing moves."""
    has_failed = tick.canary_timeouts + tick.canary_errors > 0
    is_asked = tick.signal_class not in (SignalClass.Q, SignalClass.UNKNOWN)
    return is_asked and has_failed and tick.api is ApiState.OK and tick.no_progress_seconds > 0


def next_action(incident: Incident, acted: Sequence[Acted], now: datetime) -> Action:
    """Restart first; a reboot only where the latest thing done was a restart that did not help, or not for long."""
    latest = acted[-1] if acted else None
    if latest is None or latest.action is not Action.RESTART_RUNNER or latest.runner != incident.runner:
        return Action.RESTART_RUNNER
    is_for_this = any(one.action is Action.RESTART_RUNNER and one.state in _ENDED for one in incident.tried)
    is_of_now = latest.state in _ENDED and (is_for_this or abs(now - latest.sent_at) <= AGAIN_WITHIN)
    return Action.REBOOT_NODE if is_of_now else Action.RESTART_RUNNER
