"""Any incident as its one card."""

from bot.incident import GROUPS
from bot.render.candidate_card import IN_DETAIL, Shown, candidate_card
from bot.render.drawing import (
    ACKNOWLEDGE,
    CARD_MENU,
    CLAIM,
    EVIDENCE,
    IN_USE,
    NOT_A_STALL,
    SHOW_ALL,
    SNOOZE,
    UNSNOOZE,
    WHY,
    Drawing,
)
from bot.render.finding_card import finding_card
from bot.render.group_card import group_card
from bot.render.message import Message
from bot.render.remedy_card import remedy_card
from bot.render.words import Words

__all__ = [
    "ACKNOWLEDGE",
    "CARD_MENU",
    "CLAIM",
    "EVIDENCE",
    "IN_DETAIL",
    "IN_USE",
    "NOT_A_STALL",
    "SHOW_ALL",
    "SNOOZE",
    "UNSNOOZE",
    "WHY",
    "Drawing",
    "Shown",
    "card",
]


def card(words: Words, drawing: Drawing) -> Message:
    incident = drawing.incident
    if incident.kind in GROUPS:
        return group_card(words, drawing)
    if incident.remedy is not None:
        return remedy_card(words, drawing, incident.remedy)
    if incident.finding is not None:
        return finding_card(words, drawing, incident.finding)
    return candidate_card(words, drawing)
