"""A heartbeat is as old as its sending: by how much it came later than others of the same boot."""

import pytest

from bot.judge.transit import KEPT_SECONDS, arrived, is_overtaken
from tests.build import FIRST_WINDOW, OTHER_BOOT, heartbeat

BOOTED = 70_000.0  # seconds by which the bot's clock is ahead of the node's time since boot


def beat(uptime_seconds, **changes):
    return heartbeat(FIRST_WINDOW, uptime_seconds=uptime_seconds, **changes)


def ages(*said_and_late, **changes):
    """How old each heartbeat is when it comes: time since boot at its sending, seconds on its way."""
    transit, found = None, []
    for uptime, late in said_and_late:
        now_seconds = BOOTED + uptime + late
        transit = arrived(transit, beat(uptime, **changes), now_seconds)
        found.append(round(now_seconds - transit.sent_seconds, 3))
    return found


def every_30_s(count, late, begins=100.0):
    return [(begins + 30 * i, late) for i in range(count)]


@pytest.mark.parametrize(
    ("said_and_late", "expected"),
    [
        (every_30_s(3, 0.2), [0, 0, 0]),
        ([(100, 0.2), (130, 90.2)], [0, 90]),
        ([(100, 0.2), (130, 90.2), (220, 0.2)], [0, 90, 0]),
        ([(100, 5.2), (130, 0.2), (160, 5.2)], [0, 0, 5]),
        ([(100, 0), (130, 900), (430, 600), (730, 300), (1030, 0)], [0, 900, 600, 300, 0]),  # all at once
    ],
)
def test_what_came_later_than_others_is_older_by_that(said_and_late, expected):
    assert ages(*said_and_late) == expected


def test_a_node_whose_time_stood_still_is_believed_again_after_ten_minutes():
    found = ages((100, 0), *every_30_s(30, 400, 130))
    assert found[1] == 400
    assert found[-1] == 0
    assert found.index(0, 1) <= 2 * KEPT_SECONDS / 30 + 2


def test_a_new_boot_begins_anew():
    before = arrived(None, beat(9000.0), BOOTED + 9000)
    after = arrived(before, beat(20.0, boot_id=OTHER_BOOT), BOOTED + 9100)
    assert after.sent_seconds == BOOTED + 9100


def test_the_delay_of_an_older_agent_is_not_known():
    before = arrived(None, beat(None), 50.0)
    assert before.sent_seconds == 50.0
    assert arrived(before, beat(None), 80.0).sent_seconds == 80.0
    assert arrived(before, beat(100.0), 80.0).sent_seconds == 80.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"uptime_seconds": 99.9}, True),
        ({"uptime_seconds": 100.0}, False),
        ({"uptime_seconds": None}, False),
        ({"uptime_seconds": 5.0, "boot_id": OTHER_BOOT}, False),
        ({"uptime_seconds": 5.0, "spool_epoch": "f" * 32}, False),
    ],
)
def test_one_that_a_later_one_of_the_same_agent_overtook_is_known(changes, expected):
    before = arrived(None, beat(100.0), BOOTED + 100)
    assert is_overtaken(before, heartbeat(FIRST_WINDOW, **changes)) is expected
    assert not is_overtaken(None, heartbeat(FIRST_WINDOW, **changes))
