"""What the bot knows of every runner right now: its latest tick, and what that comes to after the one before."""

from collections.abc import Iterator, Mapping

import msgspec

from bot.incident import Finding, Incident, Kind
from bot.incident.runner import finding_of, not_seen, not_watched, opened_of
from bot.judge.runner import Conclusion, conclude
from bot.judge.stall import DEFAULTS, StallSettings
from wire.messages import Heartbeat
from wire.ticks import Tick, present_seconds

# A heartbeat is due every 30 s and each holds every tick that is not older than three of them.
FRESH_SECONDS = 60.0  # nothing is opened by what was heard longer ago
SILENT_SECONDS = 180.0
MISSING_SECONDS = 90.0
NOT_WATCHED_SECONDS = 600.0


class KnownRunner(msgspec.Struct, frozen=True):
    """One runner: the latest conclusion, and when its tick came, on the bot's monotonic clock."""

    conclusion: Conclusion
    heard_seconds: float

    @property
    def tick(self) -> Tick:
        return self.conclusion.tick


class Runners:
    """Ticks are set by the event loop; `note` by the writer thread after its commit. Values are frozen."""

    def __init__(self, settings: StallSettings = DEFAULTS) -> None:
        self.settings = settings
        self._known: dict[str, dict[str, KnownRunner]] = {}
        self._open: dict[str, Mapping[str, Incident]] = {}
        self._missing_since: dict[tuple[str, str], float] = {}

    def of(self, node: str) -> Mapping[str, KnownRunner]:
        """Every runner of the node that was heard of, by name."""
        return self._known.get(node, {})

    def heard(self, heartbeat: Heartbeat, now_seconds: float) -> None:
        node, known = heartbeat.node, self._known.setdefault(heartbeat.node, {})
        for tick in heartbeat.runners:
            before = known.get(tick.runner)
            if tick.age_seconds > present_seconds(tick.tick_seconds) or (before and _is_same(before.tick, tick)):
                continue
            opened = opened_of(self._open_of(node).get(tick.runner))
            conclusion = conclude(before.tick if before else None, tick, opened, self.settings)
            known[tick.runner] = KnownRunner(conclusion, now_seconds)
        self._note_missing(heartbeat, now_seconds)

    def note(self, incident: Incident) -> None:
        """An incident as it was committed."""
        if incident.kind is not Kind.RUNNER:
            return
        others = {name: one for name, one in self._open_of(incident.node).items() if name != incident.runner}
        self._open[incident.node] = others if incident.closed_at else {**others, incident.runner: incident}

    def findings(self, node: str, now_seconds: float, silent_seconds: float) -> Iterator[Finding]:
        """What may be said of the node's runners now; `silent_seconds` since its last heartbeat, or since we listen."""
        opened = self._open_of(node)
        for name in self._names(node):
            incident = opened.get(name)
            said = incident.finding if incident else None
            finding = self._finding(node, name, said, now_seconds, silent_seconds)
            if finding is not None:
                yield finding

    def _finding(
        self, node: str, name: str, said: Finding | None, now_seconds: float, silent_seconds: float
    ) -> Finding | None:
        known = self.of(node).get(name)
        missing_seconds = now_seconds - self._missing_since.get((node, name), now_seconds)
        if silent_seconds > SILENT_SECONDS or missing_seconds > MISSING_SECONDS:
            is_gone = missing_seconds > NOT_WATCHED_SECONDS and silent_seconds <= SILENT_SECONDS
            return (not_watched(said) if is_gone else not_seen(said)) if said else None
        is_fresh = silent_seconds <= FRESH_SECONDS
        return finding_of(node, known.conclusion, said) if known and (said or is_fresh) else None

    def _open_of(self, node: str) -> Mapping[str, Incident]:
        return self._open.get(node, {})

    def _names(self, node: str) -> list[str]:
        return sorted(self.of(node).keys() | self._open_of(node).keys())

    def _note_missing(self, heartbeat: Heartbeat, now_seconds: float) -> None:
        here = {tick.runner for tick in heartbeat.runners}
        for name in self._names(heartbeat.node):
            if name in here:
                self._missing_since.pop((heartbeat.node, name), None)
            else:
                self._missing_since.setdefault((heartbeat.node, name), now_seconds)


def _is_same(one: Tick, other: Tick) -> bool:
    return (one.at_seconds, one.epoch) == (other.at_seconds, other.epoch)
