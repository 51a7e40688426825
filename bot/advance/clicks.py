"""What people press, and what it came to."""

from enum import StrEnum

import msgspec

from bot.incident import Incident


class Click(msgspec.Struct, frozen=True):
    """A press on a button or menu. All are Slack's ids; `token` is what the button carried."""

    token: str
    action: str
    user: str
    team: str


class Outcome(StrEnum):
    """What a click came to. STALE: the card was drawn before somebody decided something that this click needs."""

    DONE = "done"
    ALREADY = "already"
    STALE = "stale"
    CLOSED = "closed"
    UNKNOWN_BUTTON = "unknown_button"


class Clicked(msgspec.Struct, frozen=True):
    outcome: Outcome
    incident: Incident | None = None
