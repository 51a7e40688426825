"""What the answers are made of: the fleet this moment, and the record."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from bot.advance import Advance
from bot.fleet import Fleet
from bot.incident import CardState, Incident, Kind
from bot.offer import Known, Offer, Offered, offers
from bot.render.why import Why
from bot.store import incidents, windows
from bot.store.writer import Store
from wire.messages import GpuWindow, Observation, Verdict

LONGEST_STREAK = 48  # windows that are read to count one in the past


class Queries:
    """Reads only; before an answer about now, the node is judged afresh."""

    def __init__(self, store: Store, fleet: Fleet, advance: Advance) -> None:
        self._store = store
        self._fleet = fleet
        self._advance = advance

    def nodes(self) -> list[str]:
        return self._fleet.nodes()

    async def offered(self, nodes: Sequence[str]) -> list[Offered]:
        """What may be said of the GPUs of these nodes now, the most useful first."""
        order = list(Offer)
        found = [one for node in nodes for one in await self._offered(node)]
        return sorted(found, key=lambda one: order.index(one.offer))

    async def _offered(self, node: str) -> list[Offered]:
        await self._advance.refresh(node)
        card, newest = await self._store.read(lambda connection: _card_and_newest(connection, node))
        known = Known(self._fleet.judged(node), card, newest, self._fleet.seen(node))
        return offers(known, self._fleet.rule)

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

    def _why(
        self, node: str, uuid: str, at: datetime | None, reported: Sequence[Observation], card: Incident | None
    ) -> Why:
        newest = reported[0] if reported else None
        window = newest if newest and (at is None or newest.started_at <= at < newest.closed_at) else None
        gpu = _gpu_of(window, uuid) if window else None
        known = next((found for one in reported if (found := _gpu_of(one, uuid))), None)
        facts = self._fleet.judged(node).gpus.get(uuid) if at is None else None
        return Why(
            node=node,
            uuid=uuid,
            index=facts.index if facts else known.index if known else -1,
            model=facts.model if facts else known.model if known else None,
            at=at,
            window=window,
            gpu=gpu,
            before=None if window else newest,
            streak=facts.standing.streak if facts else streak_up_to(reported, uuid) if window else 0,
            windows=self._fleet.rule.windows,
            standing=facts.standing if facts else None,
            on_card=_state_on(card, uuid) if at is None else None,
        )


def _card_and_newest(connection: Connection, node: str) -> tuple[Incident | None, Observation | None]:
    newest = windows.newest_windows(connection, node, 1)
    return incidents.open_of(connection, Kind.CANDIDATE, node), newest[0] if newest else None


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
