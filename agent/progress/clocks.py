"""All clocks of a runner, moved on by one tick. They hold durations, so that a clock can stand still."""

from agent.progress.memory import Clocks, Memory
from agent.progress.step import RESTING, Step
from agent.progress.usual import Rate
from wire.ticks import ApiState, CanaryOutcome, ProcessState, RunnerState

LONGEST_HOLD_SECONDS = 360.0  # by missing readings, in one episode
_NEVER_SECONDS = 1e8


def is_held(was: Memory, step: Step) -> bool:
    """Missing readings stop the clock for a while; where nothing is read, only a failed canary lets it go on."""
    if step.loop_hangs:
        return False
    if step.waiting is None:
        return True
    if not step.moved.missing:
        return False
    if was.episode.held_seconds + step.seconds <= LONGEST_HOLD_SECONDS:
        return True
    return not step.moved.is_read and not was.episode.timeouts


def clocks(was: Memory, step: Step, held: bool) -> Clocks:
    before, seconds = was.clocks, step.seconds
    is_waiting = None if step.waiting is None else step.waiting and not step.is_cut and step.state not in RESTING
    return Clocks(
        waiting=_while(before.waiting, _waited(was, step), is_waiting),
        no_progress=0.0 if step.ends_wait else before.no_progress + (0.0 if held else _waited(was, step)),
        unserved=_unserved(was, step, held),
        no_completion=_no_completion(was, step),
        api_dead=_api_dead(before.api_dead, step),
        process_gone=_while(before.process_gone, seconds, is_gone(step)),
        error=0.0 if step.ends_wait or not was.episode.errors else before.error + seconds,
        config_error=_while(before.config_error, seconds, _has_config_error(was, step)),
        slow=_slow(was, step),
        loading=_loading(was, step),
        paused=_paused(before.paused, step),
        unreadable=_while(before.unreadable, seconds, not _is_readable(step)),
        blocked=_while(before.blocked, seconds, _is_blocked(step)),
        blind=_while(before.blind, seconds, step.moved.missing),
        moved=0.0 if step.clears else before.moved + seconds,
        good=0.0 if step.outcome is CanaryOutcome.OK or step.is_cut else before.good + seconds,
        sent=_sent(before.sent, step),
    )


def is_gone(step: Step) -> bool:
    """An API that answers, or work that moves, is nobody who is gone; nor is a job that ended and nobody waits for."""
    reading = step.reading
    if reading.api is None and step.waiting is False:
        return False
    answers = reading.api is not None and reading.api.state is ApiState.OK
    gone = reading.process is not None and reading.process.state is ProcessState.GONE
    return gone and not answers and not step.moved.progress


def faster_or_slower(before: Rate, was: Memory, step: Step, amount: float | None) -> Rate:
    """The rate with this interval, if work was there all through it."""
    if amount is None or step.is_cut or not was.waiting or step.state in RESTING:
        return before
    return before.with_interval(amount, step.seconds)


def _while(clock: float, seconds: float, holds: bool | None) -> float:
    """None: cannot be told, so the clock stands still."""
    if holds is None:
        return clock
    return clock + seconds if holds else 0.0


def _waited(was: Memory, step: Step) -> float:
    """The time in which somebody is known to have waited; a canary waits since it was sent.

    Who waited before and after some ticks that could not tell has waited all along, if nothing has moved since.
    """
    if was.waiting:
        return step.seconds + was.episode.unsure_seconds
    sent = step.reading.canary.sent_seconds_ago if step.reading.canary is not None else None
    since = step.reading.canary_outstanding_seconds if sent is None else sent
    return 0.0 if since is None else min(since, step.seconds)


def _unserved(was: Memory, step: Step, held: bool) -> float:
    if step.clears or step.waiting is False:
        return 0.0
    return was.clocks.unserved + (0.0 if held else _waited(was, step))


def _no_completion(was: Memory, step: Step) -> float:
    done = step.moved.completed
    if step.is_cut or step.state in RESTING or step.waiting is False or (done is not None and done > 0):
        return 0.0
    is_known = done is not None and step.waiting is not None
    return was.clocks.no_completion + (_waited(was, step) if is_known else 0.0)


def _api_dead(clock: float, step: Step) -> float:
    if step.clears:
        return 0.0
    api = step.reading.api
    return _while(clock, step.seconds, None if api is None else api.state is not ApiState.OK)


def _has_config_error(was: Memory, step: Step) -> bool:
    last = None if was.canary is None else was.canary.outcome
    return step.reading.config_error is not None or (step.outcome or last) is CanaryOutcome.CONFIG


def _slow(was: Memory, step: Step) -> float:
    if step.is_cut or step.state in RESTING or step.waiting is False:
        return 0.0
    rate = faster_or_slower(was.moving, was, step, step.moved.amount)
    return _while(was.clocks.slow, step.seconds, None if step.waiting is None else rate.is_slow)


def _loading(was: Memory, step: Step) -> float:
    if step.state is not RunnerState.LOADING or step.is_cut:
        return 0.0
    load, before = step.reading.load, was.baseline.load
    return _while(was.clocks.loading, step.seconds, None if load is None or before is None else load == before)


def _paused(clock: float, step: Step) -> float:
    if step.state is not RunnerState.PAUSED or step.is_cut:
        return 0.0
    values = [value for value in (step.reading.demand, step.reading.own_demand) if value is not None]
    return _while(clock, step.seconds, any(value > 0 for value in values) if values else None)


def _is_readable(step: Step) -> bool:
    """Without canaries both work and demand must be read, else nothing can be said.

    That it loads is only concluded where it does not say so itself, and then its reading must show it.
    """
    if step.state is RunnerState.LOADING and step.reading.state is RunnerState.READY:
        return step.reading.load is not None
    if step.is_cut or step.state in RESTING or step.loop_hangs:
        return True
    demands = (step.reading.demand, step.reading.own_demand)
    if not step.has_canary:
        return step.moved.is_read and step.waiting is not None
    has_canary = step.reading.canary_outstanding_seconds is not None or step.outcome not in (None, CanaryOutcome.CONFIG)
    return step.moved.is_read or has_canary or any(value is not None for value in demands)


def _is_blocked(step: Step) -> bool | None:
    process = step.reading.process
    return None if process is None else process.state is ProcessState.BLOCKED


def _sent(clock: float, step: Step) -> float:
    ended = step.reading.canary
    since = step.reading.canary_outstanding_seconds if ended is None else ended.sent_seconds_ago
    return min(_NEVER_SECONDS, clock + step.seconds) if since is None else since
