"""Block Kit limits: which blocks and views Slack refuses, and how it says so."""

from typing import Any


def message_problems(blocks: list[Any]) -> list[str]:
    return []


def view_problems(view: Any) -> list[str]:
    return []


def too_long(blocks: list[Any]) -> bool:
    return False
