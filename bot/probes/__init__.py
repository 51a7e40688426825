"""What the bot says of itself: to probes, to Prometheus, to systemd and to a dead man's switch."""

from bot.probes.activity import Activity
from bot.probes.vitals import Vitals, why_hung, why_not_working

__all__ = ["Activity", "Vitals", "why_hung", "why_not_working"]
