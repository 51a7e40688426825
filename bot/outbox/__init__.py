"""Delivers what the database says must be in Slack: asks freshness again, sends, records; never twice."""

from bot.outbox.loop import Outbox
from bot.outbox.settings import OutboxSettings

__all__ = ["Outbox", "OutboxSettings"]
