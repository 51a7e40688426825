"""What the answers are made of: the fleet this moment, and the record."""

import asyncio
import html
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from bot import clock
from bot.advance import Advance
from bot.fleet import Fleet
from bot.incident import CardState, GpuFacts, Incident, Kind
from bot.judge.runner import busy_without_work
from bot.judge.stall import judge
from bot.judge.verdict import Because, Presence
from bot.offer import Known, Offer, Offered, offers
from bot.render.candidates import state
from bot.render.card import Drawing, card
from bot.render.group_card import group_rows
from bot.render.message import Message
from bot.render.report import report_card
from bot.render.runner import RunnerStatus, WhyRunner
from bot.render.status import GpuStatus, NodeStatus, PastClick
from bot.render.values import because
from bot.render.why import Why
from bot.render.words import Mrkdwn, Words, escape
from bot.reporting import Reporter, ReportSettings
from bot.runners import KnownRunner
from bot.store import incidents, windows
from bot.store.writer import Store
from wire.messages import GpuWindow, Observation, Verdict
from wire.reasons import ReasonCode

LOOKS_IN = 3  # reports whose looks at a runner are shown
NEAR = timedelta(minutes=2)  # a look that is older says nothing of that time
MOST_REFRESHED = 50  # nodes whose cards are brought up to date for one answer
LONGEST_STREAK = 48  # windows that are read to count one in the past

_DEFAULT_REPORT = ReportSettings()


class Queries:
    """Reads only; before an answer about now, the node is judged afresh."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        words: Words,
        report: ReportSettings = _DEFAULT_REPORT,
    ) -> None:
        self._reporter = Reporter(store, report)
        self._store = store
        self._fleet = fleet
        self._advance = advance
        self._words = words

    def nodes(self) -> list[str]:
        """Those that reported, and those that something is open about."""
        about = {incident.node for incident in self._advance.open_incidents() if incident.node}
        return sorted({*self._fleet.nodes(), *about})

    async def offered(self, nodes: Sequence[str]) -> list[Offered]:
        """What may be said of the GPUs of these nodes now, the most useful first."""
        order = list(Offer)
        is_of_many = len(nodes) > MOST_REFRESHED
        found = [one for node in nodes for one in await self._offered(node, is_of_many=is_of_many)]
        return sorted(found, key=lambda one: order.index(one.offer))

    async def _offered(self, node: str, *, is_of_many: bool = False) -> list[Offered]:
        """Of many nodes each is judged afresh too, and only its card is as the last look left it, seconds ago."""
        if is_of_many:
            await asyncio.sleep(0)  # clicks go in between
        else:
            await self._advance.refresh(node)
        judged, card = self._fleet.judged(node), self._advance.open_of(Kind.CANDIDATE, node)
        newest = await self._newest(node) if self._may_be_baseline_only(node) else None
        going_on = self._advance.maintenance_of(node)
        until = going_on.until if going_on else None
        known = Known(judged, card, newest, self._fleet.seen(node), self._fleet.claims_of(node), until)
        return offers(known, self._fleet.rule)

    async def _newest(self, node: str) -> Observation | None:
        found = await self._store.read(lambda connection: windows.newest_windows(connection, node, 1))
        return found[0] if found else None

    def _may_be_baseline_only(self, node: str) -> bool:
        """Only then the newest window is read: memory is all that keeps a GPU from being a candidate."""
        track = self._fleet.tracks.get(node)
        held = (gpu for gpu in track.gpus.values() if gpu.verdict is Verdict.HELD) if track else ()
        return any(all(reason.code is ReasonCode.MEMORY_HELD for reason in gpu.reasons) for gpu in held)

    # --- status and incidents ---------------------------------------------------------------------------------------

    async def statuses(self, nodes: Sequence[str]) -> list[NodeStatus]:
        is_of_many = len(nodes) > MOST_REFRESHED
        return [await self._status(node, is_of_many=is_of_many) for node in nodes]

    async def _status(self, node: str, *, is_of_many: bool) -> NodeStatus:
        offered = {one.uuid: one for one in await self._offered(node, is_of_many=is_of_many)}
        facts = sorted(self._fleet.judged(node).gpus.values(), key=lambda gpu: gpu.index)
        presences = [one.standing.presence for one in facts]
        free, idle = (sum(one.offer is offer for one in offered.values()) for offer in (Offer.FREE, Offer.MAINTAINED))
        taken = sum(one.standing.because in (Because.ALLOCATED, Because.CLAIMED) for one in facts)
        seen, snooze = self._fleet.seen(node), self._advance.snoozed_node(node)
        going_on = self._advance.maintenance_of(node)
        return NodeStatus(
            node=node,
            free=free,
            in_use=presences.count(Presence.ABSENT) - taken,
            taken=taken,
            unknown=len(facts) - free - idle - presences.count(Presence.ABSENT),
            heard_seconds=seen.age_seconds if seen else None,
            incidents=[one for one in self._advance.open_incidents() if one.node == node],
            gpus=[self._gpu_status(gpu, offered.get(gpu.uuid)) for gpu in facts],
            snoozed_until=snooze.until if snooze else None,
            maintained_until=going_on.until if going_on else None,
            runners=[self._runner_status(one) for one in self._fleet.runners.of(node).values()],
            claims=sorted(self._fleet.claims_of(node).values(), key=lambda one: one.gpu_index),
        )

    def _runner_status(self, known: KnownRunner) -> RunnerStatus:
        concluded = known.conclusion
        age_seconds = clock.monotonic_seconds() - known.heard_seconds
        return RunnerStatus(known.tick, concluded.judgement, age_seconds, concluded.pending)

    def _gpu_status(self, gpu: GpuFacts, offered: Offered | None) -> GpuStatus:
        if offered is not None:
            return GpuStatus(gpu.index, gpu.uuid, gpu.model, state(self._words, offered))
        standing = gpu.standing
        detail = str(standing.reasons[0].code) if standing.presence is Presence.ABSENT and standing.reasons else ""
        return GpuStatus(
            gpu.index, gpu.uuid, gpu.model, because(self._words, standing.because, detail or standing.detail)
        )

    async def in_use(self, node: str, uuids: Collection[str]) -> list[int]:
        """Of these GPUs the indexes of those that are seen in use this moment."""
        facts = self._fleet.judged(node).gpus
        taken = [facts[uuid] for uuid in uuids if uuid in facts]
        return sorted(one.index for one in taken if one.standing.because in (Because.WINDOW_HELD, Because.SAMPLE_HELD))

    async def report(self, days: int) -> Message:
        """Of the days up to now."""
        return report_card(self._words, await self._reporter.report(clock.now(), timedelta(days=days)))

    def of_no_node(self) -> Sequence[Incident]:
        return [one for one in self._advance.open_incidents() if not one.node]

    def open_incidents(self) -> Sequence[Incident]:
        """The most urgent first."""
        return self._advance.open_incidents()

    async def incident(self, number: int) -> Incident | None:
        return await self._store.read(lambda connection: incidents.load(connection, number))

    async def card(self, incident: Incident) -> Message:
        """As it stands this moment. Its buttons lead nowhere."""
        if incident.closed_at is None:
            await self._advance.refresh_incident(incident)
        present = await self.incident(incident.id) or incident
        members = await self._advance.members(present)
        free_now = self._advance.free_now(members or [present])
        held = sorted(self._fleet.claims_of(present.node).values(), key=lambda one: one.gpu_index)
        return card(self._words, Drawing(present, "-", free_now, clock.now(), members=members, claims=held))

    async def title(self, incident: Incident) -> str:
        """Plain text: the first line of its card."""
        return html.unescape((await self.card(incident)).text.partition("\n")[0])

    async def rows(self, incident: Incident) -> list[Mrkdwn]:
        """Everything on a group's card, a line for each."""
        await self._advance.refresh_incident(incident)
        members = await self._advance.members(incident)
        drawing = Drawing(incident, "-", self._advance.free_now(members), clock.now(), members=members)
        return [escape(" · ".join(row)) for row in group_rows(self._words, drawing)]

    async def history(self, incident: Incident) -> Sequence[PastClick]:
        clicks = await self._store.read(lambda connection: incidents.clicks_of(connection, incident.id))
        return [PastClick(*click) for click in clicks]

    # --- why --------------------------------------------------------------------------------------------------------

    async def gpus(self, node: str, at: datetime | None) -> dict[str, int]:
        """UUID to index, as known now and as reported at that time."""
        reported = await self._store.read(lambda connection: windows.windows_around(connection, node, at, 1))
        then = {gpu.uuid: gpu.index for one in reported for gpu in one.gpus}
        track = self._fleet.tracks.get(node)
        return then | ({gpu.uuid: gpu.index for gpu in track.gpus.values()} if track else {})

    async def why(self, node: str, uuid: str, at: datetime | None) -> Why:
        """`at` None means now."""
        if at is None:
            await self._advance.refresh(node)
        reported = await self._store.read(
            lambda connection: windows.windows_around(connection, node, at, LONGEST_STREAK)
        )
        card = await self._store.read(lambda connection: incidents.open_of(connection, Kind.CANDIDATE, node))
        return self._why(node, uuid, at, reported, card)

    async def runners(self, node: str, at: datetime | None) -> list[str]:
        """By name, as heard of now and as recorded at that time."""
        reported = await self._store.read(lambda connection: windows.windows_around(connection, node, at, 1))
        return sorted({tick.runner for one in reported for tick in one.ticks} | self._fleet.runners.of(node).keys())

    async def why_runner(self, node: str, name: str, at: datetime | None) -> WhyRunner:
        """`at` None means now."""
        reported = await self._store.read(lambda connection: windows.windows_around(connection, node, at, LOOKS_IN))
        ticks = [tick for one in reversed(reported) for tick in one.ticks if tick.runner == name]
        settings = self._fleet.runners.settings
        looks = [(tick, judge(tick, settings)) for tick in reversed(ticks) if at is None or tick.taken_at <= at]
        known = self._fleet.runners.of(node).get(name)
        if at is None:
            status = self._runner_status(known) if known else None
        else:
            is_near = looks and at - looks[0][0].taken_at <= NEAR
            status = RunnerStatus(*looks[0]) if is_near else None
        is_busy = status is not None and busy_without_work([status.tick], settings) is not None
        return WhyRunner(node, name, at, status, looks, is_busy)

    def _why(
        self, node: str, uuid: str, at: datetime | None, reported: Sequence[Observation], card: Incident | None
    ) -> Why:
        newest = reported[0] if reported else None
        window = newest if newest and (at is None or newest.started_at <= at < newest.closed_at) else None
        gpu = _gpu_of(window, uuid) if window else None
        recorded = next((found for one in reported if (found := _gpu_of(one, uuid))), None)
        present = self._fleet.judged(node).gpus.get(uuid)
        facts = present if at is None else None
        known = facts or recorded or present
        return Why(
            node=node,
            uuid=uuid,
            index=known.index if known else -1,
            model=known.model if known else None,
            at=at,
            window=window,
            gpu=gpu,
            before=None if window else newest,
            streak=facts.standing.streak if facts else streak_up_to(reported, uuid) if window else 0,
            windows=self._fleet.rule.windows,
            standing=facts.standing if facts else None,
            on_card=_state_on(card, uuid) if at is None else None,
        )


def _gpu_of(observation: Observation, uuid: str) -> GpuWindow | None:
    return next((gpu for gpu in observation.gpus if gpu.uuid == uuid), None)


def _state_on(card: Incident | None, uuid: str) -> CardState | None:
    return next((gpu.state for gpu in card.gpus if gpu.uuid == uuid), None) if card else None


def streak_up_to(newest_first: Sequence[Observation], uuid: str) -> int:
    """Candidate windows of the GPU in a row, of one boot and without a gap, that end with the first one."""
    count = 0
    for one in newest_first:
        gpu = _gpu_of(one, uuid)
        is_next = one.boot_id == newest_first[0].boot_id and one.window_number == newest_first[0].window_number - count
        if not is_next or gpu is None or gpu.verdict is not Verdict.CANDIDATE:
            break
        count += 1
    return count
