"""A report as one page of HTML that needs nothing else: readable without colour, in light and in dark."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import pairwise

from bot.render.report_css import CSS
from bot.render.report_text import DAYS, Row, finding_lines, fleet_slots, hours, idle_percent, name_of, percent, rows
from bot.render.values import length, utc
from bot.render.words import Words, clean
from bot.report.findings import is_empty
from bot.report.model import GpuUse, Report, Stall, Sums

MOST_GPUS = 256  # in the heat map: the idlest; all others are in the table of nodes
MOST_STALLS = 200
_LEVELS = (5, 25, 50, 75)


def page(words: Words, report: Report, now: datetime) -> str:
    title = words.plain("report.title")
    parts = [_head(words, report, title, now)]
    if is_empty(report):
        parts.append(f"<p>{_text(words, 'report.empty')}</p>")
    else:
        parts += [_facts(rows(words, report)), _findings(words, report), *_maps(words, report)]
        parts += [_nodes(words, report.gpus), _stalls(words, report.stalls)]
    parts.append(f"<p class=foot>{_text(words, 'report.how')}</p>")
    body = "\n".join(part for part in parts if part)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    language = escape(words.plain("language.code"))
    head += f"<title>{escape(title)}</title><style>{CSS}</style>"
    return (
        f'<!doctype html>\n<html lang="{language}"><head>{head}</head>\n<body><main>\n{body}\n</main></body></html>\n'
    )


def _head(words: Words, report: Report, title: str, now: datetime) -> str:
    span = words.plain("report.span", since=utc(report.since), until=utc(report.until))
    made = words.plain("report.made", at=utc(now))
    shadow = f"<p class=note>{_text(words, 'report.shadow')}</p>" if report.is_shadow else ""
    return f"<header><h1>{escape(title)}</h1><p>{escape(span)} · {escape(made)}</p>{shadow}</header>"


def _facts(found: Sequence[Row]) -> str:
    items = "".join(f"<div><dt>{escape(row.name)}</dt><dd>{escape(row.says)}</dd></div>" for row in found)
    return f"<dl>{items}</dl>"


def _findings(words: Words, report: Report) -> str:
    lines = finding_lines(words, report)
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<section><h2>{_text(words, 'report.name.findings')}</h2><ul>{items}</ul></section>"


# --- the heat map ---------------------------------------------------------------------------------------------------


def _maps(words: Words, report: Report) -> Iterator[str]:
    gpus = sorted(report.gpus, key=lambda use: -use.total.candidate)[:MOST_GPUS]
    shown = {id(use) for use in gpus}
    names = _slot_names(words)
    left_out = len(report.gpus) - len(gpus)
    note = f"<p>{escape(words.plain_counted('report.left_out', left_out))}</p>" if left_out else ""
    rows = [_map_row(words.plain("report.all_gpus"), "", fleet_slots(report.gpus), names)]
    rows += [
        _map_row(f"{use.node} {name_of(use)}", _title_of(use), use.slots, names)
        for use in report.gpus
        if id(use) in shown
    ]
    name = _text(words, "report.name.map")
    yield (
        f"<section><h2>{name}</h2><p>{_text(words, 'report.map_help')}</p>{_legend(words)}{note}"
        f'<div class=scroll tabindex=0 role=region aria-label="{name}"><table class=map>'
        f"{_map_head(words)}<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _map_head(words: Words) -> str:
    days = "".join(f"<th scope=colgroup colspan=24 class=day>{_text(words, f'weekday.{day}')}</th>" for day in DAYS)
    hour = "".join(f"<th scope=col{' class=day' if number == 0 else ''}>{number}</th>" for number in range(24))
    gpu = _text(words, "column.gpu")
    return f"<thead><tr><th rowspan=2 scope=col>{gpu}</th>{days}</tr><tr>{hour * 7}</tr></thead>"


def _slot_names(words: Words) -> list[str]:
    return [f"{_text(words, f'weekday.{day}')} {hour:02}:00" for day in DAYS for hour in range(24)]


def _map_row(name: str, title: str, slots: Sequence[Sums | None], names: Sequence[str]) -> str:
    cells = "".join(_cell(slot, idle_percent(sums), names[slot]) for slot, sums in enumerate(slots))
    return f'<tr><th scope=row title="{escape(title)}">{escape(clean(name, 60))}</th>{cells}</tr>'


def _cell(slot: int, shown: int | None, name: str) -> str:
    day = " day" if slot % 24 == 0 else ""
    if shown is None:
        return f'<td class="n{day}" title="{name}: –">·</td>'
    level = sum(shown >= limit for limit in _LEVELS)
    return f'<td class="l{level}{day}" title="{name}: {shown} %">{shown}</td>'


def _legend(words: Words) -> str:
    limits = [0, *_LEVELS, 100]
    spans = "".join(
        f"<span class=l{level}>{low}–{high - (level < 4)} %</span>"
        for level, (low, high) in enumerate(pairwise(limits))
    )
    return f"<p class=legend>{_text(words, 'report.legend')} {spans}</p>"


def _title_of(use: GpuUse) -> str:
    return clean(f"{use.model or '-'} · {use.uuid}")


# --- tables ---------------------------------------------------------------------------------------------------------


def _nodes(words: Words, gpus: Sequence[GpuUse]) -> str:
    """One line for each node: usage of all its GPUs."""
    by_node: dict[str, list[GpuUse]] = {}
    for use in gpus:
        by_node.setdefault(use.node, []).append(use)
    heads = ("node", "gpus", "idle_hours", "idle_percent", "held_hours", "held_idle_hours", "unknown_hours")
    lines = [_node_row(node, found) for node, found in by_node.items()]
    return _table(words, "report.name.nodes", heads, lines)


def _node_row(node: str, gpus: Sequence[GpuUse]) -> list[str]:
    sums = [use.total for use in gpus]
    candidate, held = sum(one.candidate for one in sums), sum(one.held for one in sums)
    share = candidate / (candidate + held) if candidate + held else None
    held_idle, unknown = sum(one.held_idle for one in sums), sum(one.unknown for one in sums)
    return [
        node,
        str(len(gpus)),
        hours(candidate),
        f"{percent(share)} %",
        hours(held),
        hours(held_idle),
        hours(unknown),
    ]


def _stalls(words: Words, stalls: Sequence[Stall]) -> str:
    heads = ("subject", "what", "since", "detect", "acknowledge", "recover", "lost", "wrong")
    lines = [_stall_row(words, one) for one in stalls[-MOST_STALLS:]]
    return _table(words, "report.name.stalls", heads, lines) if lines else ""


def _stall_row(words: Words, one: Stall) -> list[str]:
    times = (one.detect_seconds, one.acknowledge_seconds, one.recover_seconds)
    return [
        one.subject.replace("/", " "),
        words.plain(f"what.{one.what}"),
        utc(one.opened_at),
        *("–" if seconds is None else length(seconds) for seconds in times),
        "–" if one.lost is None else f"{one.lost:,.0f}",
        words.plain("report.said_wrong") if one.is_wrong else "–",
    ]


def _table(words: Words, title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th scope=col>{_text(words, f'column.{one}')}</th>" for one in heads)
    body = "".join(_table_row(line) for line in lines)
    name = _text(words, title)
    return (
        f'<section><h2>{name}</h2><div class=scroll tabindex=0 role=region aria-label="{name}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _table_row(line: Sequence[str]) -> str:
    first, *rest = (escape(clean(cell)) for cell in line)
    return f"<tr><th scope=row>{first}</th>{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>"


def _text(words: Words, key: str) -> str:
    return escape(words.plain(key))
