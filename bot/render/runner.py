"""What is known of runners, for those who ask: one line in a status, and all the evidence of one of them."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from bot.incident.runner import evidence, layers, work
from bot.judge.runner import Pending
from bot.judge.stall import HARMLESS, Judgement
from bot.render import message
from bot.render.finding_card import sentence
from bot.render.message import Message
from bot.render.values import instant, length
from bot.render.words import Mrkdwn, Words, code
from wire.ticks import Tick

MOST_LOOKS = 12


class RunnerStatus(msgspec.Struct, frozen=True):
    """One runner this moment, or at a time. `age_seconds` of the tick; None: it was taken at that time."""

    tick: Tick
    judgement: Judgement
    age_seconds: float | None = None
    pending: Pending | None = None


class WhyRunner(msgspec.Struct, frozen=True):
    """One runner now (`at` None) or at a time in the past; `status` None where no tick of then is there.

    `looks` are recorded ticks and what each came to, newest first.
    """

    node: str
    runner: str
    at: datetime | None
    status: RunnerStatus | None
    looks: Sequence[tuple[Tick, Judgement]] = ()
    busy_without_work: bool = False


def status_line(words: Words, status: RunnerStatus) -> Mrkdwn:
    verdict = words.say(f"runs.{status.judgement.verdict}")
    return words.say(
        "status.runner", runner=status.tick.runner, verdict=verdict, layers=sentence(words, layers(status.tick))
    )


def why_runner(words: Words, found: WhyRunner) -> Message:
    lines = list(_lines(words, found))
    looks = [_look(words, *one) for one in found.looks[:MOST_LOOKS]]
    more = words.say("answer.more")
    blocks = [message.section(lines, more)]
    if looks:
        blocks.append(message.section([words.say("why_runner.looks"), *looks], more))
    return message.message([*lines, *looks], blocks, more)


def _lines(words: Words, found: WhyRunner) -> Iterator[Mrkdwn]:
    status = found.status
    if status is None:
        yield words.say("why_runner.name", node=found.node, runner=found.runner)
        yield words.say("why_runner.not_known", at=instant(found.at)) if found.at else words.say("why_runner.not_heard")
        return
    tick, judgement = status.tick, status.judgement
    seen = words.say(f"class.{tick.signal_class.value.lower()}")
    yield words.say("why_runner.named", node=found.node, runner=found.runner, preset=tick.preset, seen=seen)
    verdict = words.say(f"runs.{judgement.verdict}")
    when = {"at": instant(tick.taken_at)}
    yield words.say("why_runner.then" if found.at else "why_runner.now", verdict=verdict, **when)
    if status.pending is not None and judgement.verdict not in HARMLESS:
        yield words.say("why_runner.pending")
    yield sentence(words, layers(tick))
    yield from (words.say("finding.line", line=sentence(words, one)) for one in evidence(tick, judgement))
    if found.busy_without_work:
        yield words.say("why_runner.busy", percent=str(tick.gpu_utilization_percent))
    yield from _canary(words, tick)
    yield from (words.say("why_runner.missing", what=code(one)) for one in tick.missing)


def _canary(words: Words, tick: Tick) -> Iterator[Mrkdwn]:
    if tick.canary_outstanding_seconds is not None:
        yield words.say("why_runner.canary_out", length=length(tick.canary_outstanding_seconds))
    if tick.canary is not None and tick.canary_seconds_ago is not None:
        ago = length(tick.canary_seconds_ago)
        yield words.say("why_runner.canary", outcome=words.say(f"canary.{tick.canary}"), ago=ago)


def _look(words: Words, tick: Tick, judgement: Judgement) -> Mrkdwn:
    completed = "-" if tick.completed is None else f"{tick.completed:g}"
    gpu = words.plain("value.not_read") if tick.gpu_utilization_percent is None else f"{tick.gpu_utilization_percent} %"
    return words.say(
        "why_runner.look",
        at=instant(tick.taken_at),
        verdict=words.say(f"runs.{judgement.verdict}"),
        work=sentence(words, work(tick)),
        completed=completed,
        gpu=gpu,
    )
