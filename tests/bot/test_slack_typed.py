"""What people type on keyboards and phones."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.slack.typed import gpus_named, incident_number, moment, nearest, rest_of, snooze_end, words_of

NOW = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
TOKYO = ZoneInfo("Asia/Tokyo")
INDEXES = {"GPU-8f1b0000-aaaa": 0, "GPU-8f1b1111-bbbb": 1, "GPU-00031111-cccc": 3, "GPU-deadbeef-dddd": 3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  gpu-07\u00a0 SHARE ", ["gpu-07", "share"]),
        ("“gpu-07” ‘3’", ["gpu-07", "3"]),
        ("gpu–07 gpu—07", ["gpu-07", "gpu-07"]),
        ("`gpu-07` &lt;x&gt;", ["gpu-07", "<x>"]),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("20m ago", NOW - timedelta(minutes=20)),
        ("20 min ago", NOW - timedelta(minutes=20)),
        ("2h", NOW - timedelta(hours=2)),
        ("1d ago", NOW - timedelta(days=1)),
        ("90s ago", NOW - timedelta(seconds=90)),
        ("11:30", datetime(2026, 11, 30, 2, 30, tzinfo=UTC)),  # it is 12:00 in Tokyo
        ("12:00", NOW),
        ("12:01", datetime(2026, 11, 29, 3, 1, tzinfo=UTC)),  # yesterday's
        ("9:05", datetime(2026, 11, 30, 0, 5, tzinfo=UTC)),
        ("2026-11-29t14:30", datetime(2026, 11, 29, 5, 30, tzinfo=UTC)),
        ("2026-11-29 14:30:15", datetime(2026, 11, 29, 5, 30, 15, tzinfo=UTC)),
        ("2026-11-29t14:30z", datetime(2026, 11, 29, 14, 30, tzinfo=UTC)),
        ("2026-11-29t14:30+01:00", datetime(2026, 11, 29, 13, 30, tzinfo=UTC)),
        ("2026-02-30t14:30", None),
        ("25:00", None),
        ("noon", None),
        ("20 parsecs ago", None),
        ("", None),
    ],
)
def test_times(text, at):
    assert moment(text, NOW, TOKYO) == at


@pytest.mark.parametrize(
    ("word", "end"),
    [
        ("90m", NOW + timedelta(minutes=90)),
        ("2h", NOW + timedelta(hours=2)),
        ("1d", NOW + timedelta(days=1)),
        ("until=18:00", datetime(2026, 11, 30, 9, 0, tzinfo=UTC)),  # it is 12:00 in Tokyo
        ("until=12:00", datetime(2026, 12, 1, 3, 0, tzinfo=UTC)),  # tomorrow's
        ("until=9:00", datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
        ("until=2026-12-24t18:00", datetime(2026, 12, 24, 9, 0, tzinfo=UTC)),
        ("until=2026-02-30t18:00", None),
        ("until=25:00", None),
        ("until=", None),
        ("until=2h", None),
        ("18:00", None),
        ("2", None),
        ("99999h", None),
        ("-2h", None),
        ("２h", None),  # a digit that is none of ours
        ("forever", None),
    ],
)
def test_ends_of_a_snooze(word, end):
    assert snooze_end(word, NOW, TOKYO) == end


@pytest.mark.parametrize(
    ("typed", "end"),
    [
        ("12 2h", NOW + timedelta(hours=2)),
        ("12 “2h”", NOW + timedelta(hours=2)),
        ("12 until=18:00", datetime(2026, 11, 30, 9, 0, tzinfo=UTC)),
        ("12 ‘until=18:00’", datetime(2026, 11, 30, 9, 0, tzinfo=UTC)),
        ("12 UNTIL=2026–12–24T18:00", datetime(2026, 12, 24, 9, 0, tzinfo=UTC)),  # a phone's dashes
    ],
)
def test_what_phones_make_of_it_is_understood(typed, end):
    assert snooze_end(words_of(typed)[1], NOW, TOKYO) == end


@pytest.mark.parametrize(
    ("word", "number"), [("12", 12), ("#12", 12), ("inc-12", 12), ("gpu-12", None), ("", None), ("1" * 16, None)]
)
def test_numbers_of_incidents(word, number):
    assert incident_number(word) == number


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("12 2h driver update, it's Bob's", "driver update, it's Bob's"),
        ("12  2h   “the PSU &amp; fans”", "the PSU & fans"),
        ("12 2h", ""),
        ("", ""),
    ],
)
def test_a_reason_stays_as_it_was_typed(text, rest):
    assert rest_of(text, 2) == rest


@given(st.text(max_size=40))
def test_no_text_is_ever_an_exception(text):
    rest_of(text, 2)
    for word in words_of(text):
        snooze_end(word, NOW, TOKYO)
        incident_number(word)
        moment(word, NOW, TOKYO)
        gpus_named(word, INDEXES)


@pytest.mark.parametrize("text", ["99999d ago", "99999h", "0001-01-01t00:00+14:00"])
def test_a_time_long_before_all_records_is_a_time(text):
    assert moment(text, NOW, TOKYO) < NOW
    assert moment("100000d ago", NOW, TOKYO) is None


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("0", ["GPU-8f1b0000-aaaa"]),
        ("gpu1", ["GPU-8f1b1111-bbbb"]),
        ("3", ["GPU-00031111-cccc", "GPU-deadbeef-dddd"]),
        ("gpu-8f1b0", ["GPU-8f1b0000-aaaa"]),
        ("8f1b", ["GPU-8f1b0000-aaaa", "GPU-8f1b1111-bbbb"]),
        ("0003", ["GPU-00031111-cccc", "GPU-deadbeef-dddd"]),
        ("dead", ["GPU-deadbeef-dddd"]),
        ("gpu-", []),
        ("8f", []),
        ("7", []),
    ],
)
def test_gpus(word, found):
    assert gpus_named(word, INDEXES) == found


def test_the_nearest_word():
    assert nearest("gpu-7", ["gpu-07", "node-1"]) == "gpu-07"
    assert nearest("zzz", ["gpu-07"]) is None
