"""What the bot knows of every node right now: committed tracks, and the latest heartbeat in memory."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from bot import clock
from bot.claims import Claim
from bot.incident import BOT_SUBJECT, Finding, Judged, Kind, gpu_facts
from bot.judge.candidate import CandidateRule, SeenHeartbeat, judge
from bot.judge.presence import RULES, PresenceRule, Seen, View, is_too_early, last_known, lost
from bot.judge.pulse import Pulse, heard
from bot.judge.track import NodeTrack
from bot.judge.transit import KEPT_BOOTS, Transit, arrived, is_overtaken
from bot.judge.verdict import Because, Presence, Said, Standing
from bot.runners import Runners
from wire.messages import Heartbeat

_RULES = {Kind(name): rule for name, rule in RULES.items()}


class Backlog(msgspec.Struct, frozen=True):
    """What is not read in time, since when on the monotonic clock, and why."""

    since_seconds: float
    since: datetime
    why: Said


def _everybody(node: str) -> bool:
    return True


class Fleet:
    """Tracks are set by the writer thread after its commit; heartbeats by the event loop. Values are frozen."""

    def __init__(
        self,
        rule: CandidateRule,
        tracks: Mapping[str, NodeTrack] | None = None,
        presence_rule: PresenceRule | None = None,
        runners: Runners | None = None,
        is_member: Callable[[str], bool] = _everybody,
    ) -> None:
        """`is_member` says whether a node still belongs to the fleet; one that does not is missed by nobody."""
        self.rule = rule
        self.runners = runners or Runners()
        self.presence_rule = presence_rule or PresenceRule()
        self.tracks: dict[str, NodeTrack] = dict(tracks or {})
        self._pulses: dict[str, Pulse] = {}
        self._transits: dict[str, dict[str, Transit]] = {}  # by boot: one of before a reboot may come after it
        self._sorted: tuple[tuple[int, int], tuple[str, ...]] = (0, 0), ()
        self._began_seconds = clock.monotonic_seconds()
        self._listening_seconds: float | None = None
        self._backlog: Backlog | None = None
        self._has_read = False
        self._is_member = is_member
        self.removed: frozenset[str] = frozenset()
        # What the bot cannot see of a node, by open incidents; set by the writer thread after its commit.
        self.hidden: dict[str, frozenset[Kind]] = {}
        # By GPU UUID and node; set by the writer thread after its commit.
        self._claims: dict[str, dict[str, Claim]] = {}

    def heard(self, heartbeat: Heartbeat) -> None:
        transits = self._transits.get(heartbeat.node, {})
        transit = transits.get(heartbeat.boot_id)
        if is_overtaken(transit, heartbeat):
            return
        before = self._pulses.get(heartbeat.node)
        self._pulses[heartbeat.node] = heard(before, heartbeat, clock.monotonic_seconds(), clock.now())
        # After it: the writer thread must never see the old one as if it were new.
        others = [one for one in transits.values() if one.boot_id != heartbeat.boot_id]
        latest = [*others[-KEPT_BOOTS:], arrived(transit, heartbeat, clock.boot_seconds())]
        self._transits[heartbeat.node] = {one.boot_id: one for one in latest}
        self.runners.heard(heartbeat, clock.monotonic_seconds())

    def seen(self, node: str) -> SeenHeartbeat | None:
        """The node's latest heartbeat and its age; None when none came since this bot started.

        It grows older while the bot's machine sleeps, and on its way.
        """
        pulse = self._pulses.get(node)
        transit = self._transits.get(node, {}).get(pulse.heartbeat.boot_id) if pulse else None
        if pulse is None or transit is None:
            return None
        return SeenHeartbeat(pulse.heartbeat, clock.boot_seconds() - transit.sent_seconds)

    def order_keys(self) -> Mapping[str, str]:
        """The newest key for orders that each node believes, by its latest heartbeat; "": it takes none."""
        return {node: pulse.heartbeat.order_key for node, pulse in self._pulses.items()}

    def clock_skew_seconds(self, node: str) -> float:
        """How far the node's wall clock is from the bot's, the least of its latest heartbeats; 0: not heard."""
        pulse = self._pulses.get(node)
        return min((abs(offset) for offset in pulse.offsets), default=0.0) if pulse else 0.0

    def listens(self, is_listening: bool) -> None:
        """Whether heartbeats can reach the bot; the silence of a node counts only while they can."""
        if not is_listening:
            self._listening_seconds = None
        elif self._listening_seconds is None:
            self._listening_seconds = clock.monotonic_seconds()

    def stream_behind(self, why: Said | None) -> None:
        """Why windows are not read in time; None: they are."""
        self._has_read = True
        if why is None:
            self._backlog = None
        elif self._backlog is None or self._backlog.why != why:
            since = (self._backlog.since_seconds, self._backlog.since) if self._backlog else None
            self._backlog = Backlog(*(since or (clock.monotonic_seconds(), clock.now())), why)

    def note_blind(self, node: str, kind: Kind, *, is_blind: bool) -> None:
        before = self.hidden.get(node, frozenset())
        after = before | {kind} if is_blind else before - {kind}
        if after:
            self.hidden[node] = after
        else:
            self.hidden.pop(node, None)

    def note_claim(self, claim: Claim) -> None:
        """It holds its GPU, on whatever node that is seen, until its time is over, or until `forget_claim`."""
        self._claims.setdefault(claim.gpu_uuid, {})[claim.node] = claim

    def forget_claim(self, claim: Claim) -> None:
        self._claims.get(claim.gpu_uuid, {}).pop(claim.node, None)

    def claims_of(self, node: str) -> dict[str, Claim]:
        """What holds now, by GPU UUID."""
        now = clock.now()
        here = [(uuid, by_node.get(node)) for uuid, by_node in list(self._claims.items())]
        return {uuid: one for uuid, one in here if one is not None and one.holds(now)}

    def has_two_lives(self, node: str) -> bool:
        """Whether two boots or spools take turns under its name."""
        return RULES["two_agents"](self._view(node), self.presence_rule).presence is Presence.PRESENT

    def note_removed(self) -> None:
        """Looks for nodes that are silent because somebody took them out of the fleet."""
        silent = [
            node for node in self.nodes() if lost(self._view(node), self.presence_rule).presence is Presence.PRESENT
        ]
        self.removed = frozenset(node for node in silent if not self._is_member(node))

    def nodes(self) -> Sequence[str]:
        """All names, sorted. None ever goes, so that they are sorted anew only where one came."""
        sizes = len(self.tracks), len(self._pulses)
        if self._sorted[0] != sizes:
            self._sorted = sizes, tuple(sorted({*self.tracks, *self._pulses}))
        return self._sorted[1]

    def findings(self, node: str, opened: Container[tuple[Kind, str]]) -> Iterator[Finding]:
        """What cannot be seen of the node this moment, and what is said of it by an open incident and may be over."""
        view = self._view(node)
        if node in self.removed:
            return
        for kind, rule in _RULES.items():
            seen = rule(view, self.presence_rule)
            says_nothing = seen.presence is Presence.UNKNOWN and is_too_early(view, self.presence_rule)
            if seen.presence is Presence.PRESENT or ((kind, node) in opened and not says_nothing):
                yield _finding(kind, view, seen)
        yield from self.runners.findings(node, view.now_seconds, self._silent_seconds(view))

    def _silent_seconds(self, view: View) -> float:
        """Since the latest heartbeat; where none came, since heartbeats can come."""
        heard_seconds = view.pulse.heard_seconds if view.pulse else self._listening_seconds
        return 0.0 if heard_seconds is None else view.now_seconds - heard_seconds

    def stream_finding(self) -> Finding:
        """Whether the bot reads windows in time."""
        backlog = self._backlog
        if backlog is None:
            return self._backlog_finding(Kind.STREAM_BACKLOG, None, 0.0, is_known=self._has_read)
        seconds = clock.monotonic_seconds() - backlog.since_seconds
        return self._backlog_finding(Kind.STREAM_BACKLOG, backlog.since, seconds, (backlog.why,))

    def slack_finding(self, oldest: datetime | None) -> Finding:
        """Whether messages reach Slack in time; `oldest` is since when one waits, None for none."""
        seconds = (clock.now() - oldest).total_seconds() if oldest else 0.0
        return self._backlog_finding(Kind.SLACK_BACKLOG, oldest, seconds)

    def _backlog_finding(
        self, kind: Kind, since: datetime | None, seconds: float, lines: tuple[Said, ...] = (), *, is_known: bool = True
    ) -> Finding:
        is_present = seconds > self.presence_rule.backlog_after_seconds
        presence = Presence.PRESENT if is_present else Presence.ABSENT if is_known else Presence.UNKNOWN
        title = Said(f"title.{kind}", seconds={"length": seconds})
        return Finding(kind, BOT_SUBJECT, presence, kind, since or clock.now(), title, lines)

    def _view(self, node: str) -> View:
        return View(
            node=node,
            now=clock.now(),
            now_seconds=clock.monotonic_seconds(),
            listening_seconds=self._listening_seconds,
            pulse=self._pulses.get(node),
            track=self.tracks.get(node),
            began_seconds=self._began_seconds,
        )

    def judged(self, node: str, track: NodeTrack | None = None) -> Judged:
        """Every GPU of the node as it stands this moment, by its committed track or by the one that is given."""
        track = track or self.tracks.get(node)
        if track is None:
            return Judged(node, {}, self.rule.windows)
        seen = self.seen(node)
        facts = {
            uuid: gpu_facts(track, gpu, self._as_seen(node, uuid, judge(track, gpu, seen, self.rule)))
            for uuid, gpu in track.gpus.items()
        }
        return Judged(node, facts, self.rule.windows)

    def _as_seen(self, node: str, uuid: str, standing: Standing) -> Standing:
        """What cannot be seen well, or is claimed, is never called free; that it is in use may be said."""
        if node in self.removed:
            return replace(standing, presence=Presence.ABSENT, because=Because.NODE_REMOVED, reasons=())
        claim = self._claim_of(uuid)
        if claim is not None and standing.presence is not Presence.ABSENT:
            return replace(standing, presence=Presence.ABSENT, because=Because.CLAIMED, detail=claim.by, reasons=())
        if node not in self.hidden or standing.presence is not Presence.PRESENT:
            return standing
        return replace(standing, presence=Presence.UNKNOWN, because=Because.BLIND)

    def _claim_of(self, uuid: str) -> Claim | None:
        """Any that holds now, also one of the name that the node had, or of the node that the GPU was in."""
        by_node = self._claims.get(uuid)
        if not by_node:
            return None
        now = clock.now()
        return next((one for one in list(by_node.values()) if one.holds(now)), None)


def _finding(kind: Kind, view: View, seen: Seen) -> Finding:
    return Finding(
        kind=kind,
        subject=view.node,
        presence=seen.presence,
        what=kind,
        since=seen.since or view.now,
        title=seen.title or Said(f"title.{kind}"),
        lines=seen.lines,
        last_known=last_known(view) if seen.presence is Presence.PRESENT and kind is Kind.NODE_LOST else (),
    )
