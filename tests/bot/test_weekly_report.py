"""The weekly report, once a week whatever happens; `/gpu-report`; and `gpu-oncall report`."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from bot import clock
from bot.__main__ import cli
from bot.store.migrate import migrate
from bot.store.writer import Store
from bot.weekly import Weekly, due, last, parse
from bot.weekly_report import WeeklyReports
from tests.bot.build_reports import MONDAY, add_hours, week
from tests.bot.outward import Bot, sent
from tests.bot.slack_bot import ask

TOKYO = ZoneInfo("Asia/Tokyo")
SEVEN_PAST_NINE = Weekly(0, time(9, 7))
DUE = datetime(2026, 11, 30, 9, 7, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def reports(store, wake=lambda: None):
    return WeeklyReports(store, SEVEN_PAST_NINE, "C0ONCALL", UTC, wake)


# --- when -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "weekly"), [("Mon 09:07", SEVEN_PAST_NINE), ("Sun 23:59", Weekly(6, time(23, 59)))])
def test_a_time_of_the_week_is_read(text, weekly):
    assert parse(text) == weekly


@pytest.mark.parametrize("text", ["mon 09:07", "Mon 9:07", "Mon 24:00", "Monday 09:07", "", "Xyz 09:07"])
def test_what_is_no_time_of_the_week_is_refused(text):
    with pytest.raises(ValueError, match=r"^|."):
        parse(text)


@pytest.mark.parametrize(
    ("now", "zone", "before"),
    [
        (DUE, UTC, DUE),
        (DUE - SECOND, UTC, DUE - timedelta(days=7)),
        (DUE + timedelta(days=6), UTC, DUE),
        (DUE, TOKYO, DUE.replace(hour=0)),  # 09:07 there is 00:07 here
    ],
)
def test_the_last_time_is_on_the_channels_clock(now, zone, before):
    assert last(SEVEN_PAST_NINE, now, zone) == before


def test_a_day_late_is_late_enough():
    assert due(SEVEN_PAST_NINE, DUE + timedelta(hours=24), UTC) == DUE
    assert due(SEVEN_PAST_NINE, DUE + timedelta(hours=24) + SECOND, UTC) is None


# --- once -----------------------------------------------------------------------------------------------------------


async def test_it_is_written_once_a_week_whatever_starts_and_stops(store):
    await add_hours(store, week(idle=1.0))
    assert not await reports(store).look(DUE - timedelta(days=5))
    assert await reports(store).look(DUE)
    for later in (SECOND, timedelta(hours=3), timedelta(days=2)):
        assert not await reports(store).look(DUE + later)
    assert await reports(store).look(DUE + timedelta(days=7, hours=1))


async def test_a_bot_that_is_new_has_nothing_to_report_on(store):
    assert not await reports(store).look(DUE)
    await add_hours(store, week(idle=1.0, days=1))
    assert not await reports(store).look(DUE - timedelta(days=14))
    assert await reports(store).look(DUE)


async def test_it_is_posted_in_its_channel_and_mentions_nobody(store, fleet, advance, workspace):
    await add_hours(store, week(idle=0.96, held=0.04), week(gpu=1, held=1.0))
    channel = workspace.channel("gpu-oncall")
    bot = Bot(store, fleet, advance, workspace)
    weekly = WeeklyReports(store, SEVEN_PAST_NINE, channel.id, UTC, bot.outbox.wake)
    await weekly.look(DUE)
    bot.start()
    await sent(bot, "notice")
    await bot.stop()
    bot = Bot(store, fleet, advance, workspace)
    bot.start()
    await weekly.look(DUE)
    await sent(bot, "notice")
    await bot.stop()
    (message,) = channel.cards
    assert message.text.startswith("GPU report\n")
    assert "was free in 96 % of windows" in message.text
    assert not any(mention in message.text for mention in ("<@", "<!here", "<!channel"))


# --- on demand ------------------------------------------------------------------------------------------------------


async def test_the_command_answers_for_as_many_days_as_one_asks(bot, workspace):
    shift = clock.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=50) - MONDAY
    hours = [(node, uuid, replace(one, at=one.at + shift)) for node, uuid, one in week(idle=1.0, days=1)]
    await add_hours(bot.store, hours)
    assert "*GPU-hours*: 24 idle (100 % of what was judged)" in await ask(workspace, "/gpu-report")
    assert "Nothing was recorded" in await ask(workspace, "/gpu-report", "1d")
    assert "*GPU-hours*: 24 idle" in await ask(workspace, "/gpu-report", "90")


@pytest.mark.parametrize("typed", ["0", "401", "-1", "week", "7 days", "٣", "9999999999"])
async def test_a_wrong_number_of_days_is_told(bot, workspace, typed):
    assert "is no number of days from 1 to 400" in await ask(workspace, "/gpu-report", typed)


def test_the_page_is_written_from_the_record_of_a_bot_that_need_not_run(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"bot:\n  data_dir: {tmp_path}\n")
    page = tmp_path / "report.html"
    command = ["report", "30", "--html", str(page), "--config", str(config)]
    done = CliRunner().invoke(cli, command)
    assert "there is no record yet" in str(done.exception)
    store = Store(f"sqlite:///{tmp_path}/gpu-oncall.sqlite")
    migrate(store.engine)
    store.close()
    done = CliRunner().invoke(cli, command)
    assert done.output == f"written: {page}\n"
    assert page.read_text().startswith("<!doctype html>")
    done = CliRunner().invoke(cli, [*command[:3], str(tmp_path / "nowhere" / "x.html"), *command[4:]])
    assert "cannot be written: No such file or directory: name a place that is there" in str(done.exception)


async def test_a_report_whose_blocks_slack_refuses_comes_as_text_once(store, fleet, advance, workspace):
    await add_hours(store, week(idle=1.0))
    channel = workspace.channel("gpu-oncall")
    bot = Bot(store, fleet, advance, workspace)
    workspace.faults.refuse("chat.postMessage", "invalid_blocks", times=1)
    await WeeklyReports(store, SEVEN_PAST_NINE, channel.id, UTC, bot.outbox.wake).look(DUE)
    bot.start()
    await sent(bot, "notice")
    await bot.stop()
    (message,) = channel.cards
    assert (message.blocks, message.text[:10]) == ([], "GPU report")
