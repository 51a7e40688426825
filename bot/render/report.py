"""A report as a message: facts in lines, what stands out, and the week as digits that need no colour."""

from collections.abc import Sequence

from bot.render import message
from bot.render.message import Message
from bot.render.report_text import DAYS, Row, finding_lines, fleet_slots, idle_percent, rows
from bot.render.values import instant
from bot.render.words import Mrkdwn, Words, escape
from bot.report.findings import is_empty
from bot.report.model import Report, Sums

_FULL = 9


def report_card(words: Words, report: Report) -> Message:
    """Also for an empty record: then it says what is missing."""
    title = words.plain("report.title")
    span = words.say("report.span", since=instant(report.since), until=instant(report.until))
    more = words.say("answer.more")
    if is_empty(report):
        said = [span, words.say("report.empty")]
        return message.message([escape(title), *said], [message.header(title), message.section(said, more)], more)
    facts = [_line(words, one) for one in rows(words, report)]
    found = [words.say("report.finding", line=escape(one)) for one in finding_lines(words, report)]
    map_lines = week(words, fleet_slots(report.gpus)) if report.gpus else []
    blocks = [message.header(title), message.context(span), message.section(facts, more)]
    if report.is_shadow:
        blocks.insert(2, message.context(words.say("report.shadow")))
    if found:
        blocks.append(message.section([words.say("report.stands_out"), *found], more))
    if map_lines:
        blocks.append(message.section([words.say("report.week"), _fixed(map_lines)], more))
    foot = words.say("report.foot")
    blocks.append(message.context(foot))
    head = [escape(title), span, *([words.say("report.shadow")] if report.is_shadow else [])]
    return message.message([*head, *facts, *found, foot], blocks, more)


def week(words: Words, slots: Sequence[Sums | None]) -> list[str]:
    """A line for each day with a digit for each hour: tenths of idle time, 9 for nearly all of it."""
    lines = [f"{'':4}{''.join(f'{hour:<6}' for hour in ('00', '06', '12', '18'))}".rstrip()]
    for day in DAYS:
        digits = "".join(_digit(idle_percent(one)) for one in slots[day * 24 : day * 24 + 24])
        lines.append(f"{words.plain(f'weekday.{day}'):<4}{digits}")
    return lines


def _digit(percent: int | None) -> str:
    return "·" if percent is None else str(min(percent // 10, _FULL))


def _fixed(lines: Sequence[str]) -> Mrkdwn:
    """In fixed width; the lines are ours."""
    return Mrkdwn("```" + escape("\n".join(lines)) + "```")


def _line(words: Words, row: Row) -> Mrkdwn:
    return words.say("report.line", name=row.name, says=escape(row.says))
