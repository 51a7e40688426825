"""A stall that nobody acknowledges, as the bot looks at it every 5 s: who is told when, with the real settings."""

from datetime import datetime, timedelta

import pytest

from bot.config import BotConfig
from bot.incident import Acknowledged, Incident, Mention, NotAStall, Snoozed, TimePassed, step
from bot.runners import Runners
from bot.sweep import JUDGE_EVERY_SECONDS
from bot.wanted import advance_settings
from tests.build import START, heartbeat
from tests.build_ticks import hung, tick

NODE = "gpu-01"
TICK_SECONDS, HOUR_SECONDS = 30, 3600
POSTED_AFTER = timedelta(seconds=7)
MINUTE = timedelta(minutes=1)
SETTINGS = advance_settings(BotConfig())


class Hour:
    """An hour of a stall: a tick every 30 s, a look of the bot every 5 s. `events` happen at their second."""

    def __init__(self, events: dict[int, object], recovers_at: int = HOUR_SECONDS + 1) -> None:
        self.mentions = list[tuple[timedelta, str]]()
        self._runners, self._events, self._recovers_at = Runners(), events, recovers_at
        self._incident: Incident | None = None
        self._opened_at: datetime | None = None

    def play(self) -> "Hour":
        for second in range(HOUR_SECONDS):
            now = START + timedelta(seconds=second)
            if second % TICK_SECONDS == 0:
                self._hear(second, now)
            if second in self._events:
                self._step(self._events[second], now)
            if second % JUDGE_EVERY_SECONDS == 0 and self._opened_at is not None:
                posted_at = None if now < self._opened_at + POSTED_AFTER else self._opened_at + POSTED_AFTER
                self._step(TimePassed(posted_at, None, SETTINGS.again_after, SETTINGS.second_after), now)
        return self

    def _hear(self, second: int, now: datetime) -> None:
        minutes = second / 60
        works = second >= self._recovers_at
        heard = tick(minutes, has_moved=True, last_moved_seconds=0.0) if works else hung(minutes, 17 + minutes)
        self._runners.heard(heartbeat(None, [], node=NODE, runners=[heard]), second)
        for finding in self._runners.findings(NODE, second, 0.0):
            self._step(finding, now)

    def _step(self, event: object, now: datetime) -> None:
        if self._incident is None and isinstance(event, TimePassed | Acknowledged):
            return
        self._incident, effects = step(self._incident, event, now)
        if self._incident is None:
            return
        self._opened_at = self._opened_at or now
        self._runners.note(self._incident)
        since_posted = now - self._opened_at - POSTED_AFTER
        self.mentions += [(since_posted, effect.key) for effect in effects if isinstance(effect, Mention)]
        if self._incident.closed_at:
            self._incident = None


def after_opening(played: Hour) -> list[tuple[timedelta, str]]:
    return [(at, key) for at, key in played.mentions if key != "thread.opened"]


def test_the_settings_are_ten_and_twenty_minutes():
    assert (SETTINGS.again_after, SETTINGS.second_after) == (10 * MINUTE, 20 * MINUTE)


def test_the_same_people_are_told_again_after_ten_minutes_and_the_second_after_twenty_and_nobody_more():
    """Counted from when the card stood in Slack, within one look of the bot."""
    told = after_opening(Hour({}).play())
    assert [key for _, key in told] == ["thread.nobody_yet", "thread.nobody_still"]
    for (at, _), wanted in zip(told, (10 * MINUTE, 20 * MINUTE), strict=True):
        assert wanted <= at < wanted + timedelta(seconds=JUDGE_EVERY_SECONDS)


LOOKED_AT = {
    "acknowledged after 9 minutes": ({30 + 9 * 60: Acknowledged("U1")}, []),
    "acknowledged after 15 minutes": ({30 + 15 * 60: Acknowledged("U1")}, ["thread.nobody_yet"]),
    "called no stall after 15 minutes": ({30 + 15 * 60: NotAStall("U1")}, ["thread.nobody_yet"]),
    "snoozed after 5 minutes for an hour": ({30 + 5 * 60: Snoozed("U1", START + 65 * MINUTE)}, []),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_who_looks_at_it_ends_the_escalation(name):
    events, expected = LOOKED_AT[name]
    assert [key for _, key in after_opening(Hour(events).play())] == expected


@pytest.mark.parametrize(("recovers_after", "expected"), [(9, []), (15, ["thread.nobody_yet"])])
def test_a_recovery_ends_it_too(recovers_after, expected):
    played = Hour({}, recovers_at=30 + recovers_after * 60).play()
    assert [key for _, key in after_opening(played)] == expected
