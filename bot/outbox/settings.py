"""Where messages go, in which order, and how fast."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from bot.incident import Kind
from bot.pauses import Pace
from bot.reporting import ReportSettings

POST, UPDATE = "chat.postMessage", "chat.update"

# Slack takes about 1 post a second in a channel and 50 edits a minute (docs.slack.dev/apis/web-api/rate-limits).
PACES = {POST: Pace(56, 4), UPDATE: Pace(42, 8)}


class OutboxSettings(msgspec.Struct, frozen=True):
    """`channels` holds the channel's id by kind of incident; `home` is for notices, and for cards whose own is gone.

    After a `long_outage` of Slack one notice says so, and lines of threads are not replayed.
    """

    channels: Mapping[Kind, str]
    edit_every: timedelta
    home: str
    long_outage: timedelta = timedelta(minutes=2)
    paces: Mapping[str, Pace] = msgspec.field(default_factory=lambda: PACES)
    report: ReportSettings = ReportSettings()
