"""The answer to "why": one GPU, what its window showed, and why it is or is not called free."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bot.incident import CardState
from bot.judge.runner import busy_without_work
from bot.judge.verdict import Because, Presence, Standing
from bot.offer import is_baseline_only
from bot.render import message
from bot.render.message import Message
from bot.render.values import because, bytes_or_not_read, instant, length, percent, process, reason
from bot.render.words import Mrkdwn, Words, code
from wire.messages import GpuWindow, Observation

MOST_PROCESSES = 8
MOST_REASONS = 8


class Why(msgspec.Struct, frozen=True):
    """One GPU now (`at` None) or at a time in the past.

    `window` is the report in which that time lies, None where none is recorded; `before` the last report before it.
    `streak` counts candidate windows in a row up to `window`. `standing` and `on_card` are of now only.
    """

    node: str
    uuid: str
    index: int
    model: str | None
    at: datetime | None
    window: Observation | None
    gpu: GpuWindow | None
    before: Observation | None
    streak: int
    windows: int
    standing: Standing | None = None
    on_card: CardState | None = None


def why(words: Words, found: Why) -> Message:
    return several(words, [found])


def several(words: Words, found: Sequence[Why]) -> Message:
    """One section for each GPU."""
    more = words.say("answer.more")
    details = [_lines(words, one) for one in found]
    texts = [Mrkdwn("\n".join(lines)) for lines in details]
    fitting = message.sections_that_fit(texts)
    blocks = [message.section(lines, more) for lines in details[:fitting]]
    if details[fitting:]:
        blocks.append(message.context(more))
    return message.message([line for lines in details for line in lines], blocks, more)


def _lines(words: Words, found: Why) -> list[Mrkdwn]:
    model = code(found.model, 60) if found.model is not None else words.say("gpu.model_unknown")
    name = words.say("why.gpu", node=found.node, index=found.index, model=model, uuid=code(found.uuid, 60))
    return [name, *_verdict(words, found), *_window(words, found)]


# --- is it called free? ---------------------------------------------------------------------------------------------


def _verdict(words: Words, found: Why) -> list[Mrkdwn]:
    if found.at is not None:
        return [_verdict_then(words, found, found.at)]
    if found.standing is None:
        return [words.say("why.never_judged")]
    standing = found.standing
    lines = [words.say(_verdict_key(found, standing), why=because(words, standing.because, _detail(standing)))]
    return lines + [words.say("why.reason", reason=reason(words, one)) for one in standing.reasons[:MOST_REASONS]]


def _verdict_key(found: Why, standing: Standing) -> str:
    if standing.presence is Presence.PRESENT and found.on_card in (CardState.DISPUTED, CardState.NOT_JUDGED):
        return f"why.card_{found.on_card}"
    if standing.because in (Because.ALLOCATED, Because.CLAIMED):
        return f"why.{standing.because}"
    return f"why.{standing.presence}"


def _detail(standing: Standing) -> str:
    return (
        str(standing.reasons[0].code) if standing.presence is Presence.ABSENT and standing.reasons else standing.detail
    )


def _verdict_then(words: Words, found: Why, at: datetime) -> Mrkdwn:
    if found.window is None:
        return words.say("why.then_unknown", at=instant(at))
    key = "why.then_confirmed" if found.streak >= found.windows else "why.then_not_confirmed"
    return words.say(key, at=instant(at), streak=found.streak, windows=found.windows)


# --- what the window showed -----------------------------------------------------------------------------------------


def _window(words: Words, found: Why) -> list[Mrkdwn]:
    if found.window is None:
        return _no_window(words, found)
    window = found.window
    lines = [words.say("why.errored", reason=reason(words, one)) for one in window.errors[:MOST_REASONS]]
    span = {"since": instant(window.started_at), "until": instant(window.closed_at)}
    if found.gpu is None:
        return [words.say("why.not_in_window", **span), *lines]
    lines.append(
        words.say("why.streak", streak=found.streak, windows=found.windows, length=length(window.window_seconds))
    )
    if busy := busy_without_work(window.ticks):
        percent_shown, quiet = str(busy.gpu_utilization_percent), length(busy.no_progress_seconds)
        lines.append(words.say("why.busy_without_work", runner=busy.runner, length=quiet, percent=percent_shown))
    if is_baseline_only(found.gpu):
        lines.append(words.say("why.baseline"))
    verdict = words.say(f"verdict.{found.gpu.verdict}")
    return [words.say("why.window", verdict=verdict, **span), *_values(words, found.gpu), *lines]


def _no_window(words: Words, found: Why) -> list[Mrkdwn]:
    if found.before is None:
        return [words.say("why.nothing_recorded")]
    return [words.say("why.last_before", until=instant(found.before.closed_at))]


def _values(words: Words, gpu: GpuWindow) -> list[Mrkdwn]:
    count = len(gpu.processes) + gpu.processes_cut
    lines = [
        words.say(
            "why.values",
            utilization=percent(words, gpu.utilization_max_percent),
            memory=bytes_or_not_read(words, gpu.memory_max_bytes),
            processes=count,
            samples=gpu.samples,
            expected=gpu.expected_samples,
        )
    ]
    lines += [words.say("why.reason", reason=reason(words, one)) for one in gpu.reasons[:MOST_REASONS]]
    lines += [words.say("why.process", process=process(words, one)) for one in gpu.processes[:MOST_PROCESSES]]
    left_out = count - min(len(gpu.processes), MOST_PROCESSES)
    return lines + ([words.counted("why.more_processes", left_out)] if left_out else [])
