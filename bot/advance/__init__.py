"""The only writer of incidents: by what nodes report, by what people press, and by the clock."""

from bot.advance.advance import Advance
from bot.advance.clicks import Click, Clicked, Outcome
from bot.advance.settings import AdvanceSettings

__all__ = ["Advance", "AdvanceSettings", "Click", "Clicked", "Outcome"]
