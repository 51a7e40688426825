"""After a remedy: asks the runner for a token as soon as it is up, so that nobody waits for work to prove it."""

import asyncio
import logging
from datetime import timedelta

from agent.runner_reading import CanaryResult
from agent.runners.plan import canary_spec
from agent.ticks import RunnerWatch
from wire.ticks import ApiState, CanaryOutcome, RunnerState, Tick

log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=45)  # the bot's deadlines for the proof and for loading together
LONGEST_PAUSE_SECONDS = 30.0
_UP = (RunnerState.READY, RunnerState.UNLOADED)


async def prove(watch: RunnerWatch) -> None:
    """Until it answered, or for so long; never raises. What came of it is in the ticks, as of every canary."""
    if canary_spec(watch.config) is None:
        return
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await _until_answered(watch)
    except TimeoutError:
        log.warning("no canary was answered after the remedy runner=%s", watch.config.name)
    except Exception:
        log.exception("proving a remedy failed, which is a bug runner=%s", watch.config.name)


async def _until_answered(watch: RunnerWatch) -> None:
    tick = await watch.fresh_tick()
    while not (_is_up(tick) and await _answers(watch)):
        await asyncio.sleep(min(LONGEST_PAUSE_SECONDS, tick.tick_seconds))
        tick = watch.latest or tick


def _is_up(tick: Tick) -> bool:
    return tick.api is ApiState.OK and tick.state in _UP


async def _answers(watch: RunnerWatch) -> bool:
    result = await watch.canaries.fresh(may_load=True)
    return isinstance(result, CanaryResult) and result.outcome is CanaryOutcome.OK
