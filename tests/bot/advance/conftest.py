"""The one that advances incidents, on a real database, in a fleet whose groups have people on call."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from bot.advance import Advance, AdvanceSettings
from bot.fleet import Fleet
from bot.judge.presence import PresenceRule
from tests.bot.build_incidents import GROUPS


@pytest.fixture
def settings():
    return AdvanceSettings(timedelta(0), timedelta(0), shadow=False, groups=GROUPS)


@pytest.fixture
def again(store, fleet, settings):
    """A second bot on the same database, as some minutes after a restart, or with another fleet."""

    async def start(other=None, **changes):
        settled = Fleet(fleet.rule, fleet.tracks, PresenceRule(settles_seconds=0.0))
        advance = Advance(store, other or settled, replace(settings, **changes))
        await advance.start()
        return advance

    return start
