"""Durations and sizes as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.units import duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5m", 300), ("1h30m", 5400), ("30d", 2_592_000), ("250ms", 0.25), ("1m5ms", 60.005), ("0s", 0)],
)
def test_a_duration_is_read(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "wrong", ["", "10", 10, "1.5s", "5 m", "-5m", "30m1h", "1w", "٣s", "5m ", None, True, "9" * 30 + "d"]
)
def test_anything_else_is_no_duration(wrong):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(wrong)


@pytest.mark.parametrize(
    ("value", "size"), [(0, 0), (512, 512), ("512", 512), ("64KiB", 65536), ("512MiB", 512 << 20), ("1GiB", 1 << 30)]
)
def test_a_size_is_read(value, size):
    assert parse_size(value) == size


@pytest.mark.parametrize("wrong", ["", "1MB", "1.5GiB", -1, "-1", True, None, 1.5, "1 GiB", "GiB"])
def test_anything_else_is_no_size(wrong):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(wrong)


@given(st.integers(0, 10**12))
def test_what_is_written_is_read_back(number):
    assert parse_size(size_text(number)) == number
    duration = timedelta(milliseconds=number)
    assert parse_duration(duration_text(duration)) == duration
