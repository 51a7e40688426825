"""Reports: what the record comes to, what is said of it, and what an empty or broken record gives."""

import html.parser
import re
from datetime import timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from bot.incident import Incident, Kind
from bot.judge.hours import alone, hour_of, summed
from bot.judge.verdict import Said
from bot.remedy.model import State
from bot.render.report import report_card
from bot.render.report_css import CSS
from bot.render.report_html import MOST_GPUS, page
from bot.render.report_text import finding_lines, rows
from bot.render.words import words
from bot.report.model import Price
from bot.reporting import Reporter, ReportSettings
from bot.store import schema, windows
from bot.store.reports import hours_by_slot
from tests.bot.build_remedies import remedy
from tests.bot.build_reports import (
    HOUR,
    MINUTE,
    MONDAY,
    NEXT_MONDAY,
    add_hours,
    add_incident,
    free_card,
    stall,
    week,
)
from tests.build import FIRST_WINDOW, gpu_uuid, gpu_window, observation
from wire.messages import Process, Verdict

EN = words("en")
WEEK = timedelta(days=7)
PRICE = Price(50.0, 0.5, "EUR")


async def reported(store, **settings):
    return await Reporter(store, ReportSettings(**settings)).report(NEXT_MONDAY, WEEK)


def said(report):
    return {row.name: row.says for row in rows(EN, report)}


# --- hours ----------------------------------------------------------------------------------------------------------


def test_an_hour_counts_energy_where_the_power_was_read_and_held_time_in_which_nothing_was_computed():
    held = gpu_window(Verdict.HELD, power_mean_watts=100.0)
    busy = gpu_window(Verdict.HELD, utilization_max_percent=80)
    one = observation(FIRST_WINDOW)
    at = hour_of(one)
    free = gpu_window(Verdict.CANDIDATE, power_mean_watts=40.0)
    hour = None
    for window in (free, held, busy, gpu_window(Verdict.CANDIDATE), gpu_window(Verdict.UNKNOWN)):
        hour = summed(hour, alone(window, one, at))
    assert (hour.candidate_seconds, hour.held_seconds, hour.unknown_seconds) == (600.0, 600.0, 300.0)
    assert (hour.held_idle_seconds, hour.held_idle_joules, hour.held_idle_read_seconds) == (300.0, 30000.0, 300.0)
    assert (hour.idle_joules, hour.idle_read_seconds) == (12000.0, 300.0)


def test_hours_of_the_week_are_those_of_the_channels_clock_also_where_it_changes():
    berlin = ZoneInfo("Europe/Berlin")
    since = MONDAY.replace(month=10, day=19)  # summer time ends on the 25th
    slots = hours_by_slot(since, since + timedelta(days=14), berlin)
    assert sum(map(len, slots.values())) == 14 * 24
    assert [hour.hour for hour in slots[24 + 9]] == [7, 8]  # Tuesday 09:00, in summer and in winter
    assert len(slots[6 * 24 + 2]) == 3  # the hour that came twice


# --- what is counted ------------------------------------------------------------------------------------------------


async def test_a_report_adds_up_hours_energy_and_cost(store):
    await add_hours(store, week(idle=0.5, held=0.5, held_idle=0.25, watts=100), week(gpu=1, idle=1.0))
    report = await reported(store, price=PRICE)
    assert (report.total.candidate, report.total.held) == (1.5 * 7 * 86400, 0.5 * 7 * 86400)
    assert report.idle_energy.kwh == pytest.approx(84 * 0.1 + 168 * 0.05)  # read for one GPU, assumed for the other
    assert report.idle_energy.cost == pytest.approx(8.4)
    assert said(report)["Energy of idle GPUs"] == "16.8 kWh idle, 8.40 EUR; 4.2 kWh held and idle, 2.10 EUR"


async def test_energy_that_is_not_known_is_never_a_number(store):
    await add_hours(store, week(idle=1.0))
    assert said(await reported(store))["Energy of idle GPUs"].startswith("not known: no power was read")
    await add_hours(store, week(gpu=1, idle=1.0, watts=100))
    assert said(await reported(store))["Energy of idle GPUs"] == (
        "16.8 kWh idle (of 50 % of the hours: of the others the power is not known)"
    )


async def test_hours_outside_the_span_do_not_count(store):
    await add_hours(store, week(idle=1.0, days=14))
    assert (await reported(store)).total.candidate == 7 * 86400


async def test_stalls_tell_the_time_to_detect_acknowledge_and_recover_and_what_was_lost(store):
    lost = stall(
        acknowledged_by="U1", acknowledged_at=MONDAY + HOUR + 4 * MINUTE, closed_at=MONDAY + HOUR + 30 * MINUTE
    )
    await add_incident(store, replace(lost, ending=(Said("runner.lost_in_all", {"lost": "512"}),)))
    await add_incident(store, stall(what="degraded", subject="gpu-08/chat"))
    report = await reported(store)
    assert said(report)["Stalls"] == (
        "1; said after 17 min, acknowledged after 4 min, recovered after 30 min; results not done: 512"
    )
    assert said(report)["“It is stalled”"].startswith("said 1 time, 100 % right")


async def test_people_who_say_that_we_were_wrong_count_against_us(store):
    await add_incident(store, stall(disputed_by="U1", disputed_at=MONDAY + 2 * HOUR))
    await add_incident(store, stall(opened_at=MONDAY + 3 * HOUR, subject="gpu-08/chat"))
    await add_incident(store, free_card(disputed_by="U1", disputed_at=MONDAY + 2 * HOUR))
    report = await reported(store)
    assert report.stall_words.share_right == 0.5
    assert said(report)["“It is free”"] == "said 1 time, 0 % right; wrong by people's word: 1, by the record: 0"


@pytest.mark.parametrize(
    ("owner", "back", "after", "wrong"),
    [
        ("alice", "alice", 5 * MINUTE, 1),
        ("alice", "bob", 5 * MINUTE, 0),  # somebody else took it: it was free
        ("alice", "alice", 11 * MINUTE, 0),
        (None, "alice", 5 * MINUTE, 0),  # who had it is not known
    ],
)
async def test_a_gpu_that_its_owner_took_again_within_ten_minutes_counts_against_us(store, owner, back, after, wrong):
    card = free_card(left_after=after, owner=owner, closed_at=MONDAY + HOUR + after)
    await add_incident(store, card)
    closed_at = card.opened_at + after + MINUTE
    gpu = gpu_window(Verdict.HELD, processes=[Process(77, user=back)])
    seen = observation(gpus=[gpu], started_at=closed_at - 5 * MINUTE, closed_at=closed_at)
    row = windows.window_row(seen, msgspec.json.encode(seen), closed_at)
    await store.write(lambda transaction: windows.add_windows(transaction.connection, [row]))
    report = await reported(store)
    assert (report.free_words.said, report.free_words.wrong_by_record) == (1, wrong)


async def test_in_shadow_mode_it_tells_what_would_have_been_said_and_how_often_it_was_wrong(store):
    await add_incident(store, free_card(), in_slack=False)
    await add_incident(store, stall(), in_slack=False)
    report = await reported(store, is_shadow=True)
    assert said(report)["“It is free”"] == "would have been said 1 time, wrong: 0"
    assert "Shadow mode: nobody was told anything" in report_card(EN, report).text
    assert "Shadow mode: nobody was told anything" in page(EN, report, NEXT_MONDAY)


# --- what stands out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weeks", "finding"),
    [
        (
            [week(gpu=6, idle=0.96, held=0.04), week(gpu=1, held=1.0)],
            "GPU 00000006 of gpu-01 was free in 96 % of windows while others there were busy: look at the scheduler's "
            "request or affinity",
        ),
        ([week(gpu=0, idle=1.0), week(gpu=1, idle=1.0)], "All 2 GPUs of gpu-01 were free in 100 % of windows"),
        ([week(idle=1.0)], "The only GPU of gpu-01 was free in 100 % of windows"),
        (
            [
                week(gpu=gpu, idle=lambda hour: hour >= 22 or hour < 5, held=lambda hour: 5 <= hour < 22)
                for gpu in (0, 1)
            ],
            "All 2 GPUs of gpu-01 are free from 22:00 to 05:00 nearly every day, and busy otherwise",
        ),
        (
            [week(held=1.0, held_idle=0.5)],
            "GPU 00000000 of gpu-01 was held for 84 hours and computed nothing: ask its owner",
        ),
        (
            [week(idle=0.3, held=0.3, unknown=0.4)],
            "gpu-01 could not be judged in 40 % of its windows: gpu-oncall-agent check says why",
        ),
    ],
    ids=["one is idle", "all are idle", "the only one", "nights", "held and idle", "not judged"],
)
async def test_what_stands_out_is_said_in_words(store, weeks, finding):
    await add_hours(store, *weeks)
    assert finding_lines(EN, await reported(store)) == [finding]


async def test_a_node_is_not_called_busy_by_day_while_one_of_its_gpus_is_idle(store):
    nightly = week(gpu=0, idle=lambda hour: hour < 5, held=lambda hour: hour >= 5)
    await add_hours(store, nightly, week(gpu=1, idle=1.0))
    assert not any("busy otherwise" in line for line in finding_lines(EN, await reported(store)))


@pytest.mark.parametrize("shares", [{"idle": 0.5, "held": 0.5}, {"held": 1.0}, {"idle": 1.0, "days": 0}])
async def test_nothing_stands_out_of_a_usual_or_an_empty_week(store, shares):
    await add_hours(store, week(**shares))
    assert finding_lines(EN, await reported(store)) == []


# --- empty and broken records ---------------------------------------------------------------------------------------


async def test_an_empty_record_gives_a_page_and_a_card_that_say_so(store):
    report = await reported(store)
    assert "Nothing was recorded in this time" in page(EN, report, NEXT_MONDAY)
    assert "Nothing was recorded in this time" in report_card(EN, report).text


async def test_rows_that_cannot_be_used_are_left_out_and_counted(store):
    await add_hours(store, week(idle=1.0, days=1))
    await add_incident(store, stall())
    broken = {"kind": "runner", "subject": "x/y", "urgency": 1, "opened_at": MONDAY, "revision": 1, "body": b"{"}
    bad_hour = dict.fromkeys(windows._HOUR_SUMS, -5.0) | {"node": "n", "gpu_uuid": "u", "hour": MONDAY}

    def work(transaction):
        transaction.connection.execute(sa.insert(schema.incident).values(**broken))
        transaction.connection.execute(sa.insert(schema.gpu_hour).values(**bad_hour))

    await store.write(work)
    report = await reported(store)
    assert (report.unreadable, len(report.stalls), len(report.gpus)) == (2, 1, 1)
    assert said(report)["The record"] == "2 rows could not be read and are left out"


# --- the page -------------------------------------------------------------------------------------------------------


class _Reader(html.parser.HTMLParser):
    """Every tag with its attributes, and that they are closed in order."""

    VOID = ("meta", "br")

    def __init__(self):
        super().__init__()
        self.tags, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


async def test_the_page_is_self_contained_escaped_and_readable_without_colour(store):
    node = "<script>alert(1)</script>"
    await add_hours(store, week(node=node, idle=0.42, held=0.58), week(gpu=1, unknown=1.0))
    await add_incident(store, stall(subject="<img src=x>/a&b"))
    text = page(EN, await reported(store), NEXT_MONDAY)
    reader = _Reader()
    reader.feed(text)
    assert reader.open == []
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in reader.tags}
    assert not re.search(r"https?://|url\(|@import", text)
    assert "&lt;script&gt;alert(1)" in text
    assert 'title="Mon 00:00: 42 %">42</td>' in text
    assert 'title="Mon 00:00: –">·</td>' in text
    assert all("scope" in attrs for tag, attrs in reader.tags if tag == "th")
    assert ("html", {"lang": "en"}) in reader.tags


async def test_a_large_fleet_shows_the_idlest_gpus_and_counts_the_rest(store):
    weeks = [week(gpu=gpu, idle=gpu / 300, held=1 - gpu / 300, days=1) for gpu in range(300)]
    await add_hours(store, *weeks)
    text = page(EN, await reported(store), NEXT_MONDAY)
    assert text.count("<th scope=row title=") == MOST_GPUS + 1  # and all together
    assert "44 more are in the table of nodes" in text
    assert gpu_uuid(299) in text
    assert gpu_uuid(0) not in text


async def test_the_card_stays_within_slacks_limits(store):
    await add_hours(store, *[week(node="n" * 60 + str(node), gpu=node, idle=1.0) for node in range(20)])
    card = report_card(EN, await reported(store))
    assert len(card.blocks) <= 50
    assert len(card.text) <= 4000
    assert all(len(block["text"]["text"]) <= 3000 for block in card.blocks if block["type"] == "section")


async def test_restarts_and_reboots_are_counted_by_what_became_of_them(store):
    for number, state in enumerate((State.DONE, State.DENIED, State.EXPIRED, State.ASKED, State.OUTCOME_UNKNOWN)):
        request = remedy(state=state)
        incident = Incident(
            0, Kind.REMEDY, f"gpu-0{number}", MONDAY + HOUR, remedy=request, closed_at=MONDAY + 2 * HOUR
        )
        await add_incident(store, incident)
    assert said(await reported(store))["Restarts and reboots"] == (
        "5 asked for: 1 done and proved, 2 not done, 0 failed, 1 of unknown outcome, 1 not decided yet"
    )


def colours():
    """Of the light and of the dark page, by name."""
    light, dark = re.findall(r":root\{(.*?)\}", CSS, re.DOTALL)
    named = [dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", text)) for text in (light, dark)]
    return [
        {name: one if len(one) == 7 else "#" + "".join(2 * digit for digit in one[1:]) for name, one in part.items()}
        for part in named
    ]


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("page_colours", colours(), ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "back"),
    [("t0", "l0"), ("t0", "l1"), ("t0", "l2"), ("t3", "l3"), ("t3", "l4"), ("soft", "back"), ("text", "card")],
)
def test_text_can_be_read_on_every_shade(page_colours, text, back):
    """4.5 to 1: WCAG AA."""
    lighter, darker = sorted((luminance(page_colours[text]), luminance(page_colours[back])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 4.5
