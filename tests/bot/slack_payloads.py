"""Payloads of every kind as Slack sends them, drawn by a number and then mutated."""

import json
import random

import msgspec

from bot.render import card as buttons
from bot.render import claims
from bot.slack.commands import COMMANDS
from bot.slack.dialogs import TITLES
from bot.slack.remedying import ASKS
from bot.slack.remedying import BUTTONS as DECISIONS
from bot.slack.shortcuts import ACKNOWLEDGE_SHORTCUT
from tests.mutate import WORDS, changed

APPROVER, COLLEAGUE = "U0ALICE", "U0CAROL"
TEAM, OTHER_TEAM = "T0OURS", "T0THEIRS"
CHANNELS = {"gpu-candidates": "C0CANDIDATES", "gpu-oncall": "C0ONCALL"}
ACTIONS = [
    *(buttons.ACKNOWLEDGE, buttons.IN_USE, buttons.UNSNOOZE, buttons.WHY, buttons.EVIDENCE, *TITLES, *claims.BUTTONS),
    *(*ASKS, *DECISIONS, *DECISIONS, "", "x" * 300),
]
TYPED = [
    *("", "gpu-01", "gpu-01 0", "gpu-07 chat", "12", "1", "1 2h", "gpu-01 2h new fans", "gpu-01 off", "share", "mine"),
    *("gpu-01 0 2026-11-30T03:00", "gpu-01 share", "'", '"', "1 999999999999d", "1 for", "\\", "gpu-01 0 1h", *WORDS),
]


def interaction(kind: str, run: int, team: str) -> dict:
    return {
        "type": kind,
        "user": {"id": (APPROVER, COLLEAGUE)[run % 2], "username": "alice", "name": "alice", "team_id": team},
        "team": {"id": team, "domain": "example"},
        "api_app_id": "A0",
        "token": "verification",
        "trigger_id": f"trigger.{run}",
        "enterprise": None,
        "is_enterprise_install": False,
        "response_url": "https://hooks.slack.example/actions/1",
    }


def pressed(run: int, rng: random.Random, token: str, team: str, where: str) -> dict:
    action = rng.choice(ACTIONS)
    one = {"type": "button", "action_id": action, "block_id": "b", "action_ts": "1.1", "value": token}
    if rng.random() < 0.3:
        menu = {"text": {"type": "plain_text", "text": "More"}, "value": f"{action}:{token}"}
        one = {"type": "overflow", "action_id": buttons.CARD_MENU, "block_id": "b", "selected_option": menu}
    return interaction("block_actions", run, team) | {
        "container": {"type": "message", "message_ts": "1.2", "channel_id": where, "is_ephemeral": False},
        "channel": {"id": where, "name": "gpu-oncall"},
        "message": {"type": "message", "ts": "1.2", "text": "a card", "blocks": [], "user": "U0BOT"},
        "state": {"values": {}},
        "actions": [one],
    }


def submitted(run: int, rng: random.Random, token: str, team: str, where: str) -> dict:
    carried = json.dumps({"token": token, "channel": where, "message_ts": "1.2"})
    if token.startswith("{"):  # what a dialog of ours carried
        carried = token
    length = {"selected_option": {"value": rng.choice(["1h", "4h", "morning", "custom", "soon"])}}
    values = {
        "length": {"length": {"type": "radio_buttons", **length}},
        "custom": {"custom": {"type": "plain_text_input", "value": rng.choice([None, "3h", "tomorrow", *WORDS])}},
        "reason": {"reason": {"type": "plain_text_input", "value": rng.choice([None, *WORDS])}},
        "scope": {"scope": {"type": "radio_buttons", "selected_option": {"value": rng.choice(["incident", "node"])}}},
    }
    view = {
        "id": "V1",
        "type": "modal",
        "callback_id": rng.choice(["snooze", "not_a_stall", "remedy", "remedy", "claim", "other"]),
    }
    view |= {"private_metadata": carried, "state": {"values": values}, "hash": "1.a", "blocks": []}
    kind = rng.choice(["view_submission", "view_submission", "view_submission", "view_closed"])
    return interaction(kind, run, team) | {"view": view, "is_cleared": False, "response_urls": []}


def typed(run: int, rng: random.Random, token: str, team: str, where: str) -> dict:
    return {
        "token": "verification",
        "team_id": team,
        "channel_id": where,
        "user_id": "U0ALICE",
        "user_name": "alice",
        "command": rng.choice([*COMMANDS, "/gpu-nothing"]),
        "text": rng.choice(TYPED),
        "response_url": "https://hooks.slack.example/commands/1",
        "trigger_id": f"trigger.{run}",
    }


def shortcut(run: int, rng: random.Random, token: str, team: str, where: str) -> dict:
    return interaction("message_action", run, team) | {
        "callback_id": rng.choice([ACKNOWLEDGE_SHORTCUT, "other"]),
        "channel": {"id": where, "name": "gpu-oncall"},
        "message_ts": "1.2",
        "message": {"type": "message", "ts": "1.2", "thread_ts": "1.2", "text": "x"},
    }


def event(run: int, rng: random.Random, token: str, team: str, where: str) -> dict:
    kind = rng.choice(["app_home_opened", "app_home_opened", "message", "app_mention", "member_joined_channel"])
    body = {"type": kind, "user": "U0ALICE", "channel": where, "tab": rng.choice(["home", "messages"]), "text": "x"}
    return {"token": "v", "team_id": team, "type": "event_callback", "event_id": f"Ev{run}", "event": body}


KINDS = {
    "interactive": [pressed, pressed, pressed, submitted, submitted, shortcut],
    "slash_commands": [typed],
    "events_api": [event],
}


def envelope(run: int, rng: random.Random, tokens: list[str]) -> tuple[dict, bool]:
    """An envelope before it is mutated, and whether its sender may do something."""
    kind = rng.choice(["interactive", "interactive", "interactive", "slash_commands", "events_api"])
    team = OTHER_TEAM if rng.random() < 0.2 else TEAM
    token = rng.choice([*tokens, *tokens, "unknown", ""])
    where = rng.choice([*CHANNELS.values(), "D0ALICE"])
    payload = rng.choice(KINDS[kind])(run, rng, token, team, where)
    whole = {"envelope_id": f"e{run}", "type": kind, "accepts_response_payload": kind != "events_api"}
    return whole | {"payload": payload}, team == TEAM


def mutated_envelope(run: int, tokens: list[str]) -> tuple[dict, bool]:
    """The team of a stranger stays: it is Slack that says it."""
    rng = random.Random(run)
    whole, is_ours = envelope(run, rng, tokens)
    if rng.random() < 0.1:
        changed(whole, rng)
    elif rng.random() < 0.9:
        changed(whole["payload"], rng)
    return whole, is_ours or TEAM in msgspec.json.encode(whole).decode()
