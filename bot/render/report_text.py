"""The sentences of a report, for Slack and for HTML alike: plain text, keys of the catalogue filled in."""

from collections.abc import Sequence
from statistics import median

import msgspec

from bot.judge.verdict import Said
from bot.render.values import length
from bot.render.words import Words
from bot.report.model import SLOTS, Energy, GpuUse, Precision, Report, Sums
from bot.report.usage import added

_SECONDS_PER_HOUR = 3600.0
DAYS = range(7)


class Row(msgspec.Struct, frozen=True):
    """One line of facts: what it is about, and what is to be said of it."""

    name: str
    says: str


def rows(words: Words, report: Report) -> list[Row]:
    """Usage, energy, stalls, words and blindness, each as one sentence."""
    said = [("usage", usage(words, report)), ("held_idle", held_idle(words, report))]
    said += [("energy", energy(words, report)), ("stalls", stalls(words, report))]
    said += [("free_words", precision(words, report, report.free_words))]
    said += [("stall_words", precision(words, report, report.stall_words))]
    said += [("blind", words.plain_counted("report.blind", report.blind, length=length(report.blind_seconds)))]
    if report.remedies.asked:
        said.append(("remedies", words.plain("report.remedies", **msgspec.structs.asdict(report.remedies))))
    if report.audit_head:
        said.append(("audit", report.audit_head))
    if report.unreadable:
        said.append(("record", words.plain_counted("report.unreadable", report.unreadable)))
    return [Row(words.plain(f"report.name.{name}"), text) for name, text in said]


def usage(words: Words, report: Report) -> str:
    total = report.total
    if not total.judged:
        return words.plain("report.no_hours")
    values = {"idle": hours(total.candidate), "held": hours(total.held), "unknown": hours(total.unknown)}
    return words.plain("report.usage", percent=percent(total.idle_share), count=len(report.gpus), **values)


def held_idle(words: Words, report: Report) -> str:
    return words.plain("report.held_idle_hours", hours=hours(report.total.held_idle))


def energy(words: Words, report: Report) -> str:
    said = [_energy(words, "report.energy_idle", report.idle_energy, report.currency)]
    if report.total.held_idle:
        said.append(_energy(words, "report.energy_held_idle", report.held_idle_energy, report.currency))
    return "; ".join(said)


def _energy(words: Words, key: str, found: Energy, currency: str) -> str:
    if found.kwh is None:
        return words.plain("report.energy_unknown")
    cost = "" if found.cost is None else words.plain("report.cost", cost=f"{found.cost:,.2f}", currency=currency)
    said = words.plain(key, kwh=f"{found.kwh:,.1f}") + cost
    if found.known_share < 0.995:
        said += words.plain("report.energy_part", percent=percent(found.known_share))
    return said


def stalls(words: Words, report: Report) -> str:
    if not report.stalls:
        return words.plain("report.no_stalls")
    lost = [one.lost for one in report.stalls if one.lost is not None]
    return words.plain_counted(
        "report.stalls",
        len(report.stalls),
        detect=_median(words, [one.detect_seconds for one in report.stalls]),
        acknowledge=_median(words, [one.acknowledge_seconds for one in report.stalls]),
        recover=_median(words, [one.recover_seconds for one in report.stalls]),
        lost=f"{sum(lost):,.0f}" if lost else words.plain("report.not_known"),
    )


def _median(words: Words, seconds: Sequence[float | None]) -> str:
    """Of those that came to it."""
    known = [one for one in seconds if one is not None]
    return length(max(median(known), 0.0)) if known else words.plain("report.never")


def precision(words: Words, report: Report, found: Precision) -> str:
    said = []
    if found.said:
        values = {"people": found.wrong_by_people, "record": found.wrong_by_record}
        said.append(words.plain_counted("report.said", found.said, percent=percent(found.share_right), **values))
    if found.kept_quiet:
        key = "report.would_have_said" if report.is_shadow else "report.kept_quiet"
        said.append(words.plain_counted(key, found.kept_quiet, wrong=found.kept_quiet_wrong))
    return "; ".join(said) or words.plain("report.nothing_said")


def finding_lines(words: Words, report: Report) -> list[str]:
    return [_finding(words, one) for one in report.findings]


def _finding(words: Words, said: Said) -> str:
    if "count" not in said.texts:
        return words.plain(said.key, **said.texts)
    others = {name: text for name, text in said.texts.items() if name != "count"}
    return words.plain_counted(said.key, int(said.texts["count"]), **others)


def fleet_slots(gpus: Sequence[GpuUse]) -> list[Sums | None]:
    """All GPUs together by hour of the week."""
    slots = []
    for slot in range(SLOTS):
        known = [one for use in gpus if (one := use.slots[slot]) is not None]
        slots.append(added(known) if known else None)
    return slots


def idle_percent(sums: Sums | None) -> int | None:
    """None: nothing was judged."""
    share = sums.idle_share if sums else None
    return None if share is None else round(share * 100)


def name_of(use: GpuUse) -> str:
    return f"GPU {use.index}" if use.index is not None else use.uuid[:12]


def hours(seconds: float) -> str:
    return f"{seconds / _SECONDS_PER_HOUR:,.0f}"


def percent(share: float | None) -> str:
    return "?" if share is None else f"{share * 100:.0f}"
