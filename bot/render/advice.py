"""What a person can do about what Slack refused, by Slack's own code for it."""

import re
from collections.abc import Mapping

from bot.render.words import Words

# Slack's codes (docs.slack.dev) to keys of the catalogue.
ADVICE: Mapping[str, str] = {
    "ratelimited": "advice.wait",
    "invalid_blocks": "advice.rendering",
    "invalid_blocks_format": "advice.rendering",
    "msg_blocks_too_long": "advice.rendering",
    "invalid_auth": "advice.token",
    "not_authed": "advice.token",
    "not_allowed_token_type": "advice.token_type",
    "token_revoked": "advice.token_revoked",
    "token_expired": "advice.token_rotation",
    "account_inactive": "advice.account",
    "missing_scope": "advice.scope",
    "no_permission": "advice.scopes",
    "not_in_channel": "advice.invite",
    "channel_not_found": "advice.channel",
    "user_not_found": "advice.user",
    "no_such_subteam": "advice.user_group",
    "is_archived": "advice.archived",
    "is_inactive": "advice.archived",
    "restricted_action": "advice.restricted",
    "message_not_found": "advice.deleted",
    "thread_not_found": "advice.deleted",
    "cant_update_message": "advice.other_app",
    "edit_window_closed": "advice.edit_window",
    "messages_tab_disabled": "advice.messages_tab",
    "internal_error": "advice.slack",
    "fatal_error": "advice.slack",
    "service_unavailable": "advice.slack",
    "request_timeout": "advice.slack",
}
APP_TOKEN = "advice.app_token"
_TOLD = re.compile(r"(?P<method>[a-zA-Z.]+): (?P<code>[a-z_]+): .*", re.DOTALL)


def advice(words: Words, code: str) -> str:
    return words.plain(ADVICE.get(code, "advice.report"))


def told(words: Words, trouble: str) -> str:
    """A trouble as it was written down, `method: code: advice`, with the advice in the reader's language."""
    found = _TOLD.fullmatch(trouble)
    if found is None or found["code"] not in ADVICE:
        return trouble
    return f"{found['method']}: {found['code']}: {advice(words, found['code'])}"
