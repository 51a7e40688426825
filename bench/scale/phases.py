"""What happens to the fleet in one scale run, and what each phase comes to."""

import asyncio
import time
from dataclasses import dataclass

from bench.scale.crowd import HEARTBEAT_SECONDS, Total
from bench.scale.disk import seconds_per_sync
from bench.scale.measured import Measured
from bench.scale.place import GATHER_SECONDS, Place, look_until
from bench.scale.processes import Usage
from bench.scale.reports import GPUS

SPREAD_SECONDS = 10.0  # windows that are due "at once" come within this time, as clocks are never the same
SILENT_SECONDS = 180.0  # as the bot has it
SLOW_SHARE = 0.25  # a server syncs every window: with all nodes a disk of 10 ms is two minutes of waiting
AFTER_SILENCE_SECONDS = 15.0  # a flood would have begun by then


@dataclass(frozen=True)
class Row:
    """One figure of the table. `wanted` is the goal of the project, or ""."""

    nodes: int
    phase: str
    name: str
    value: str
    wanted: str = ""


class Phases:
    """Run in order on one place; `rows` grows, and `measured` is filled."""

    def __init__(self, place: Place, steady_seconds: float, spread_seconds: float = SPREAD_SECONDS) -> None:
        self._place = place
        self._spread_seconds = spread_seconds
        self._steady_seconds = steady_seconds
        self.rows: list[Row] = []
        self.measured = Measured(place.nodes)
        self._empty = place.usage()

    def _row(self, phase: str, name: str, value: str, wanted: str = "") -> None:
        self.rows.append(Row(self._place.nodes, phase, name, value, wanted))
        print(f"{self._place.nodes:>6,} {phase}: {name} {value} {wanted and f'(wanted {wanted})'}", flush=True)

    async def connect(self) -> None:
        """All come within seconds, as after a new start of everything; then each has one window behind it."""
        place = self._place
        await self._tell("connect", 0.001 * place.nodes)
        _, seconds = await self._until(lambda total: total.connected == place.nodes, "all are connected", 300)
        self._row("start", "all nodes connected after", f"{seconds:.0f} s")
        await self._tell("close_windows", 1, self._spread_seconds)
        await self._all_stored("the first windows")

    async def steady(self) -> None:
        """Windows every 5 minutes and heartbeats every 30 s, at the real rates."""
        await self._tell("live")
        await asyncio.sleep(HEARTBEAT_SECONDS / 2)  # until it is steady
        before, total_before, begun = self._place.usage(), await self._tell("look"), time.monotonic()
        await asyncio.sleep(self._steady_seconds)
        seconds = time.monotonic() - begun
        spent = {name: now - before[name] for name, now in self._place.usage().items()}
        total = await self._tell("look")
        windows = (total.acked - total_before.acked) / seconds
        beats = (total.beats - total_before.beats) / seconds
        self._row("steady", "windows and heartbeats per second", f"{windows:.1f} and {beats:.0f}")
        goal = "under 50 %" if self._place.nodes >= 10_000 else ""
        self._note_steady(spent, seconds)
        for name, usage in spent.items():
            self._row("steady", f"CPU of {name}", f"{100 * usage.cpu_seconds / seconds:.1f} % of one core", goal)
            goal = ""
        self._memory("steady", spent)
        self._row("steady", "windows waiting on nodes at the end", f"{total.waiting}")
        await self._tell("fall_silent")
        await self._tell("only_beat")

    async def slow_herd(self, sync_ms: int) -> None:
        """A herd of one window on a disk that syncs in so much more; the next server that is started is fast again."""
        server = self._place.server
        if server is None:
            print("a slow disk cannot be played: there is no strace on this machine", flush=True)
            return
        server.slow_down(sync_ms)
        label = f", from a quarter of all, a disk that syncs in {sync_ms} ms more"
        await self.herd(windows=1, label=label, share=SLOW_SHARE)
        server.slow_down(0)

    async def herd(self, windows: int, label: str, share: float = 1.0) -> None:
        """The broker dies; meanwhile nodes close windows; all come back and flush."""
        place, phase = self._place, f"herd: broker killed, {windows} windows a node{label}"
        before, total_before, bytes_before = place.usage()["bot"], await self._tell("look"), place.database_bytes()
        old = place.broker_pid
        await self._tell("close_windows", windows, 0.0, share)
        await asyncio.to_thread(place.kill_broker)
        begun = time.monotonic()
        await look_until(lambda: place.broker_pid != old, 60, every_seconds=0.05)
        self._row(phase, "broker back after", f"{time.monotonic() - begun:.1f} s")
        total, _ = await self._until(lambda now: now.connected == place.nodes, "all are back", 600)
        self._row(phase, "all nodes back after", f"{time.monotonic() - begun:.0f} s")
        await self._all_stored("the herd's windows")
        seconds = time.monotonic() - begun
        total, goal = await self._tell("look"), "under 60 s" if windows == 12 and place.nodes >= 10_000 else ""
        closed = total.given - total_before.given
        self._row(phase, f"{closed:,} windows judged and stored after", f"{seconds:.0f} s", goal)
        spent = place.usage()["bot"] - before
        self._row(phase, "CPU of the bot", f"{spent.cpu_seconds:.1f} s")
        again, known = total.sent_again - total_before.sent_again, total.duplicates - total_before.duplicates
        self._row(phase, "sent again, and known already", f"{again} and {known}")
        if not label:
            await self._row_of_disk(phase, closed)
            self._note_herd(closed, seconds, spent, place.database_bytes() - bytes_before)
        self._nothing_lost(phase, total)

    async def _row_of_disk(self, phase: str, windows: int) -> None:
        """The server cannot be faster than its syncs."""
        each = await asyncio.to_thread(seconds_per_sync, self._place.folder)
        self._row(phase, f"{windows:,} syncs of the disk alone, {1000 * each:.2f} ms each", f"{windows * each:.0f} s")

    def _note_steady(self, spent: dict[str, Usage], seconds: float) -> None:
        one, bot, server = self.measured, spent["bot"], spent["nats-server"]
        one.bot_cores, one.server_cores = bot.cpu_seconds / seconds, server.cpu_seconds / seconds
        one.bot_mib = bot.pss_mib - self._empty["bot"].pss_mib
        one.server_mib = server.pss_mib - self._empty["nats-server"].pss_mib
        more = f"bot {1024 * one.bot_mib / one.nodes:.1f} KiB, nats-server {1024 * one.server_mib / one.nodes:.1f} KiB"
        self._row("steady", "memory per node (PSS), since before they came", more)

    def _note_herd(self, windows: int, seconds: float, spent: Usage, grown_bytes: int) -> None:
        one = self.measured
        one.herd_windows_per_second = windows / seconds
        one.herd_cpu_seconds_per_window = spent.cpu_seconds / windows
        one.database_bytes_per_window = grown_bytes / windows
        told = f"{one.database_mib_per_node_and_day():.2f} MiB ({one.database_bytes_per_window:,.0f} bytes a window)"
        self._row("herd", "database per node and day", told)

    def note_peaks(self) -> None:
        """At the end of everything."""
        peaks = self._place.peaks_mib()
        self.measured.bot_peak_mib, self.measured.server_peak_mib = peaks["bot"], peaks["nats-server"]
        told = ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items())
        self._row("all", "peak memory (RSS), of the server since it was killed", told)

    async def mass_idle(self, quiet_seconds: float = 10.0) -> None:
        """Half of the nodes are idle for three windows, of which the last comes within seconds; then cards settle."""
        place, phase = self._place, "mass idle: half of the fleet in one window"
        cards_before = len(place.cards())
        await self._tell("become_idle", 0.5)
        await self._tell("close_windows", 2, self._spread_seconds)
        await self._all_stored("idle windows")
        wanted = (place.nodes // 2) * GPUS
        assert place.free_gpus() == 0, "called free before the third window"
        await self._tell("close_windows", 1, self._spread_seconds)
        await asyncio.sleep(self._spread_seconds)
        begun = time.monotonic()
        await look_until(lambda: place.free_gpus() >= wanted, 300)
        goal = "under 30 s" if place.nodes >= 10_000 else ""
        decided = f"{time.monotonic() - begun:.0f} s"
        self._row(phase, f"{wanted:,} GPUs called free after the last window, after", decided, goal)
        await asyncio.sleep(GATHER_SECONDS + quiet_seconds)
        self._row(phase, "cards", f"{len(place.cards()) - cards_before}", "at most 6")
        self._memory(phase, place.usage())

    async def mass_silence(self) -> None:
        """Every node falls silent at once; its connection stays."""
        place, phase = self._place, "mass silence: all nodes"
        cards_before = len(place.cards())
        await self._tell("fall_silent")
        before, begun = place.usage()["bot"], time.monotonic()
        await look_until(lambda: len(place.cards()) > cards_before, SILENT_SECONDS + 300)
        self._row(phase, "said after", f"{time.monotonic() - begun:.0f} s")
        await asyncio.sleep(AFTER_SILENCE_SECONDS)
        seconds = time.monotonic() - begun
        spent = place.usage()["bot"] - before
        self._row(phase, "cards", f"{len(place.cards()) - cards_before}", "at most 6")
        self._row(phase, "CPU of the bot", f"{100 * spent.cpu_seconds / seconds:.0f} % of one core")
        self._row(phase, "database", f"{place.database_mib():.0f} MiB")

    # --- helpers ----------------------------------------------------------------------------------------------------

    async def _tell(self, command: str, *arguments: float) -> Total:
        return await asyncio.to_thread(self._place.crowd.tell, command, *arguments)

    async def _until(self, is_so: object, what: str, seconds: float) -> tuple[Total, float]:
        return await asyncio.to_thread(self._place.crowd.until, is_so, what, seconds)

    async def _all_stored(self, what: str) -> None:
        """Everything that was ever closed is in the database."""
        await asyncio.sleep(self._spread_seconds if what != "the herd's windows" else 0)
        total = await self._tell("look")
        await look_until(lambda: self._place.stored() >= total.given, 1800)

    def _nothing_lost(self, phase: str, total: Total) -> None:
        stored, refused = self._place.stored(), self._place.refused()
        lost = f"{total.given - stored} lost, {refused} refused or missing"
        self._row(phase, "windows", f"{total.given:,} closed, {stored:,} stored: {lost}", "0 lost")

    def _memory(self, phase: str, usages: dict[str, Usage]) -> None:
        told = ", ".join(f"{name} {usage.pss_mib:.0f} MiB" for name, usage in usages.items())
        self._row(phase, "memory (PSS)", told)
