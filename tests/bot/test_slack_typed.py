"""What people type on keyboards and phones."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.slack.typed import gpus_named, moment, nearest, words_of

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


@given(st.text(max_size=40))
def test_no_text_is_ever_an_exception(text):
    for word in words_of(text):
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
