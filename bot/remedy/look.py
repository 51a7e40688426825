"""What a heartbeat says for a remedy: what would be killed, what is not known, and later what proves that it worked."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from bot.judge.verdict import Said
from bot.remedy.model import Remedy, RunnerSeen, Seen
from wire.messages import GpuNow, Heartbeat, Process
from wire.orders import MOST_PROCESSES, AcceptedProcess, Action, OrderVerdict, RunnerFacts
from wire.reasons import UNLISTED, ReasonCode
from wire.remedies import JournalEntry
from wire.ticks import CanaryOutcome, RunnerState, Tick

FRESH_TICK_SECONDS = 90.0
FRESH_SAMPLE_SECONDS = 60.0  # of the GPUs, as of the heartbeat
MOST_SHOWN = 12


class Plan(msgspec.Struct, frozen=True):
    """What somebody who asks for a remedy is shown, and what the request then holds.

    `processes` None: not all can be read, so that anything may run. `others` are so many that are not the runner's.
    """

    action: Action
    node: str
    runner: str
    boot_id: str
    spool_epoch: str
    processes: frozenset[AcceptedProcess] | None
    others: int
    shown: tuple[Said, ...]
    gpus: tuple[str, ...]
    sick: tuple[str, ...]
    facts: RunnerFacts | None


def plan(action: Action, runner: str, beat: Heartbeat, owners: Mapping[int, Process], now: datetime) -> Plan:
    """`owners` is who a process belongs to, by PID, from the newest window: heartbeats have no room for it."""
    tick = tick_of(beat, runner)
    is_restart = action is Action.RESTART_RUNNER
    listed = processes_of(beat)
    return Plan(
        action=action,
        node=beat.node,
        runner=runner,
        boot_id=beat.boot_id,
        spool_epoch=beat.spool_epoch,
        processes=_with_runner(listed, tick),
        others=0 if is_restart or listed is None else sum(one.pid != (tick and tick.pid) for one in listed),
        shown=_shown(tuple(_restarted(tick, runner) if is_restart else _rebooted(beat, owners, now))),
        gpus=tuple(sorted(gpu.uuid for gpu in beat.gpus)),
        sick=tuple(sorted(sick_of(beat))),
        facts=facts_of(tick) if tick else None,
    )


def tick_of(beat: Heartbeat, runner: str) -> Tick | None:
    """The runner's latest look, None where it is not fresh."""
    found = (tick for tick in beat.runners if tick.runner == runner and tick.age_seconds <= FRESH_TICK_SECONDS)
    return next(found, None)


def sharing(beat: Heartbeat, runner: str) -> tuple[str, ...]:
    """Other runners that this one's process serves, too: one server may be watched as several, one for each model."""
    tick = tick_of(beat, runner)
    if tick is None or tick.pid is None:
        return ()
    others = (one for one in beat.runners if one.runner != runner)
    return tuple(one.runner for one in others if (one.pid, one.process_started) == (tick.pid, tick.process_started))


def facts_of(tick: Tick) -> RunnerFacts:
    return RunnerFacts(
        runner=tick.runner,
        signal_class=tick.signal_class,
        epoch=tick.epoch,
        pid=tick.pid,
        started=tick.process_started,
        completed=tick.completed,
        progress=dict(tick.progress),
        load=tick.load,
        no_progress_seconds=tick.no_progress_seconds,
    )


def verdict_of(what: str) -> OrderVerdict:
    """In the order's words; NONE for what no order is about."""
    return OrderVerdict(what) if what in set(OrderVerdict) - {"unknown"} else OrderVerdict.NONE


def processes_of(beat: Heartbeat) -> frozenset[AcceptedProcess] | None:
    """Everything on every GPU; None where something of it cannot be read, is old, or had no room."""
    found = []
    for gpu in beat.gpus:
        if gpu.processes is None or not _lists_all(gpu) or not all(one.started for one in gpu.processes):
            return None
        found += [AcceptedProcess(one.pid, one.started) for one in gpu.processes]
    is_all = beat.gpus and not beat.errors and len(found) <= MOST_PROCESSES - 1
    return frozenset(found) if is_all else None


def _lists_all(gpu: GpuNow) -> bool:
    """An empty list proves nothing where the driver leaves processes out, or where it was read long ago."""
    return _is_read(gpu) and not gpu.unlisted


def _is_read(gpu: GpuNow) -> bool:
    is_whole = gpu.processes is not None and not gpu.processes_cut and gpu.age_seconds <= FRESH_SAMPLE_SECONDS
    return is_whole and not any(one.code in UNLISTED for one in gpu.reasons)


def sick_of(beat: Heartbeat) -> frozenset[str]:
    return frozenset(
        gpu.uuid for gpu in beat.gpus if any(one.code is ReasonCode.RECOVERY_ACTION for one in gpu.reasons)
    )


def _with_runner(listed: frozenset[AcceptedProcess] | None, tick: Tick | None) -> frozenset[AcceptedProcess] | None:
    """The runner's own process may hold no GPU itself."""
    if listed is None or tick is None or tick.pid is None or not tick.process_started:
        return listed
    return listed | {AcceptedProcess(tick.pid, tick.process_started)}


# --- what is shown --------------------------------------------------------------------------------------------------


def _shown(lines: tuple[Said, ...]) -> tuple[Said, ...]:
    """What has no room is counted: nobody must believe that the list is the whole one."""
    left_out = len(lines) - MOST_SHOWN
    return lines if left_out <= 0 else (*lines[:MOST_SHOWN], Said("group.more.other", {"count": str(left_out)}))


def _restarted(tick: Tick | None, runner: str) -> Iterator[Said]:
    pid = str(tick.pid) if tick and tick.pid is not None else "?"
    yield Said("remedy.process_of_runner", {"pid": pid, "runner": runner})


def _rebooted(beat: Heartbeat, owners: Mapping[int, Process], now: datetime) -> Iterator[Said]:
    for gpu in sorted(beat.gpus, key=lambda one: one.index):
        if not _is_read(gpu):
            yield Said("remedy.unreadable_process", {"gpu": str(gpu.index)})
        elif gpu.unlisted:
            yield Said("remedy.unlisted_process", {"gpu": str(gpu.index), "why": gpu.unlisted})
        elif not gpu.processes:
            yield Said("remedy.no_process", {"gpu": str(gpu.index)})
        yield from (_process(gpu, one, owners, now) for one in gpu.processes or [])


def _process(gpu: GpuNow, process: Process, owners: Mapping[int, Process], now: datetime) -> Said:
    known = owners.get(process.pid)
    if known is not None and known.started and process.started and known.started != process.started:
        known = None  # the PID was given to another one since
    texts = {
        "gpu": str(gpu.index),
        "pid": str(process.pid),
        "user": process.user or (known.user if known else None) or "?",
        "what": _what(known),
    }
    began_at = process.started_at or (known.started_at if known else None)
    if began_at is None:
        return Said("remedy.process_short", texts)
    ran_seconds = max(now - began_at, timedelta(0)).total_seconds()
    return Said("remedy.process", texts, {"ran": ran_seconds})


def _what(known: Process | None) -> str:
    """Where it belongs, best first."""
    if known is None:
        return "?"
    named = [("pod ", known.pod), ("Slurm job ", known.job), ("container ", known.container), ("", known.command)]
    return next((f"{kind}{name}" for kind, name in named if name), "?")


# --- afterwards -----------------------------------------------------------------------------------------------------


def seen(remedy: Remedy, beat: Heartbeat, heard_at: datetime) -> Seen:
    entry = _entry(remedy, beat)
    return Seen(
        boot_id=beat.boot_id,
        heard_at=heard_at,
        word=entry.state if entry else None,
        why=entry.detail if entry else "",
        gpus=_here(beat),
        sick=sick_of(beat),
        runner=_runner(remedy, beat, heard_at),
    )


def _here(beat: Heartbeat) -> frozenset[str] | None:
    """A node that misses GPUs lists all that it had, and says which are missing. None: it cannot read them now."""
    listed = frozenset(gpu.uuid for gpu in beat.gpus)
    missing = {error.detail.partition(" ")[0] for error in beat.errors if error.code is ReasonCode.GPU_MISSING}
    is_told = listed and len(missing & listed) == len(beat.errors)
    return listed - missing if is_told else None


def _entry(remedy: Remedy, beat: Heartbeat) -> JournalEntry | None:
    journal = beat.remedies.journal if beat.remedies else []
    return next((one for one in journal if one.order_id == remedy.order_id), None)


def _runner(remedy: Remedy, beat: Heartbeat, heard_at: datetime) -> RunnerSeen | None:
    tick = tick_of(beat, remedy.runner) if remedy.runner else None
    if tick is None:
        return None
    return RunnerSeen(
        epoch=tick.epoch,
        pid=tick.pid,
        started=tick.process_started,
        works=_works(tick, remedy, heard_at),
        is_loading=tick.state is RunnerState.LOADING,
    )


def _works(tick: Tick, remedy: Remedy, heard_at: datetime) -> bool:
    """Real progress, or a canary that was answered after the order had left.

    Where its process is not known, what a restart sets back looks like progress: then a canary tells, if it has one.
    """
    since_sent_seconds = (heard_at - remedy.sent_at).total_seconds() if remedy.sent_at else 0.0
    ago_seconds = tick.canary_seconds_ago
    is_good = tick.canary is CanaryOutcome.OK and ago_seconds is not None and ago_seconds < since_sent_seconds
    is_told_apart = tick.pid is not None or tick.canary in (None, CanaryOutcome.CONFIG)
    return is_good or (tick.has_moved and tick.state is RunnerState.READY and is_told_apart)
