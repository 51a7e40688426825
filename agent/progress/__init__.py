"""Readings of a runner -> ticks with all their clocks, and when a canary is sent. No IO, no clock."""

from agent.progress.due import Why, canary_due
from agent.progress.fold import fold
from agent.progress.memory import CanaryPlan, Memory, Plan

__all__ = ["CanaryPlan", "Memory", "Plan", "Why", "canary_due", "fold"]
