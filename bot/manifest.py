"""The Slack app as a manifest: the commands that there are, and no scope that nothing here needs."""

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from bot.render.words import Words
from bot.slack.commands import COMMANDS
from bot.slack.shortcuts import ACKNOWLEDGE_SHORTCUT


class Scope(msgspec.Struct, frozen=True):
    """Why the bot asks for it. `optional`: without it something is missing, and everything else works."""

    why: str
    optional: bool = False


SCOPES: Mapping[str, Scope] = {
    "chat:write": Scope("posts and edits cards"),
    "commands": Scope("answers slash commands"),
    "channels:history": Scope("looks whether a post whose answer was lost is there, before it posts again"),
    "groups:history": Scope("the same in private channels"),
    "channels:read": Scope("check tells whether a channel is archived and the app is in it", optional=True),
    "groups:read": Scope("the same for private channels", optional=True),
    "users:read": Scope("check and approvals tell members from guests", optional=True),
    "usergroups:read": Scope("approvers may be a user group", optional=True),
}
EVENTS = ("app_home_opened",)
LONGEST_DESCRIPTION = 140


# The messages tab is where a claim that ends is asked about; nobody types there.
_HOME = {"home_tab_enabled": True, "messages_tab_enabled": True, "messages_tab_read_only_enabled": True}


def manifest(words: Words) -> dict[str, Any]:
    """Field names as in docs.slack.dev/reference/app-manifest."""
    return {
        "_metadata": {"major_version": 1, "minor_version": 1},
        "display_information": {"name": "gpu-oncall", "description": words.plain("manifest.description")},
        "features": {
            "app_home": _HOME,
            "bot_user": {"display_name": "gpu-oncall", "always_online": False},
            "slash_commands": [_command(words, name) for name in COMMANDS],
            "shortcuts": [
                {
                    "name": words.plain("manifest.acknowledge"),
                    "type": "message",
                    "callback_id": ACKNOWLEDGE_SHORTCUT,
                    "description": words.plain("manifest.acknowledge.description"),
                }
            ],
        },
        "oauth_config": {
            "scopes": {
                "bot": list(SCOPES),
                "bot_optional": [name for name, scope in SCOPES.items() if scope.optional],
            }
        },
        "settings": {
            "event_subscriptions": {"bot_events": list(EVENTS)},
            "interactivity": {"is_enabled": True},
            "org_deploy_enabled": False,
            "socket_mode_enabled": True,
            "token_rotation_enabled": False,
        },
    }


def _command(words: Words, name: str) -> dict[str, Any]:
    key = name.removeprefix("/")
    command = {"command": name, "description": words.plain(f"manifest.{key}"), "should_escape": True}
    usage = COMMANDS[name].usage
    return command | ({"usage_hint": usage} if usage else {})


def as_yaml(words: Words) -> str:
    return yaml.safe_dump(manifest(words), sort_keys=False, allow_unicode=True, width=200)
