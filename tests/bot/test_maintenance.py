"""Planned maintenance by the calendar and the clock of a place."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from bot.maintenance import MaintenanceWindow, maintenance, parse_weekly

TOKYO = ZoneInfo("Asia/Tokyo")
BERLIN = ZoneInfo("Europe/Berlin")


def at(text, zone=UTC):
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def weekly(text, **changes):
    return MaintenanceWindow(**{"nodes": ("*",), "weekly": parse_weekly(text), **changes})


# 2026-11-29 is a Sunday.
@pytest.mark.parametrize(
    ("text", "now", "zone", "until"),
    [
        ("Sun 02:00-04:00", "2026-11-29 02:00", UTC, "2026-11-29 04:00"),
        ("Sun 02:00-04:00", "2026-11-29 03:59", UTC, "2026-11-29 04:00"),
        ("Sun 02:00-04:00", "2026-11-29 04:00", UTC, None),
        ("Sun 02:00-04:00", "2026-11-29 01:59", UTC, None),
        ("Sun 02:00-04:00", "2026-11-30 03:00", UTC, None),
        ("Sun 02:00-04:00", "2026-11-29 03:00", TOKYO, "2026-11-29 04:00"),
        ("Mon-Fri 22:00-06:00", "2026-11-30 23:00", UTC, "2026-12-01 06:00"),
        ("Mon-Fri 22:00-06:00", "2026-12-05 05:00", UTC, "2026-12-05 06:00"),  # Friday's, on Saturday
        ("Mon-Fri 22:00-06:00", "2026-11-30 05:00", UTC, None),  # Sunday has none
        ("Fri-Mon 10:00-11:00", "2026-11-29 10:30", UTC, "2026-11-29 11:00"),
        ("Fri-Mon 10:00-11:00", "2026-12-01 10:30", UTC, None),
        ("daily 00:00-00:00", "2026-12-01 10:30", UTC, "2026-12-02 00:00"),
        ("daily 02:30-03:30", "2026-10-25 03:15", BERLIN, "2026-10-25 03:30"),  # the night the clock is put back
    ],
)
def test_weekly_windows(text, now, zone, until):
    going_on = maintenance([weekly(text)], "gpu-07", None, at(now, zone), zone)
    assert (going_on and going_on.until) == (until and at(until, zone))


@pytest.mark.parametrize(
    ("since", "until", "now", "is_on"),
    [
        (None, "2026-12-24 18:00", "2026-12-01 00:00", True),
        (None, "2026-12-24 18:00", "2026-12-24 18:00", False),
        ("2026-12-10 00:00", "2026-12-24 18:00", "2026-12-01 00:00", False),
        ("2026-12-10 00:00", "2026-12-24 18:00", "2026-12-10 00:00", True),
        ("2026-12-30 00:00", "2026-12-24 18:00", "2026-12-26 00:00", False),
    ],
)
def test_dated_windows(since, until, now, is_on):
    window = MaintenanceWindow(
        ("*",), since=since and datetime.fromisoformat(since), until=datetime.fromisoformat(until), reason="move"
    )
    going_on = maintenance([window], "gpu-07", None, at(now, TOKYO), TOKYO)
    assert (going_on is not None) is is_on
    if going_on:
        assert (going_on.until, going_on.reason) == (at(until, TOKYO), "move")


@pytest.mark.parametrize(
    ("nodes", "groups", "is_on"),
    [
        (("gpu-0*",), (), True),
        (("gpu-1*",), (), False),
        ((), ("training",), True),
        ((), ("inference",), False),
        (("gpu-1*",), ("training",), True),
    ],
)
def test_windows_are_for_nodes_or_groups(nodes, groups, is_on):
    window = weekly("daily 00:00-00:00", nodes=nodes, groups=groups)
    assert (maintenance([window], "gpu-07", "training", at("2026-12-01 10:00"), UTC) is not None) is is_on


def test_of_several_the_one_that_lasts_longest_counts():
    windows = [weekly("daily 10:00-11:00", reason="a"), weekly("daily 10:00-12:00", reason="b")]
    assert maintenance(windows, "gpu-07", None, at("2026-12-01 10:30"), UTC).reason == "b"


@pytest.mark.parametrize(
    "text", ["", "Sun", "Sun 2:00-4:00", "Son 02:00-04:00", "Sun 02:00-25:00", "sun 02:00-04:00", "Sun 02:00-04:00 "]
)
def test_what_is_no_weekly_window_is_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_weekly(text)
