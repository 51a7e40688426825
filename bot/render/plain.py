"""A message as plain text, for places that know nothing of Slack's markup."""

import html
import re

from bot.render.message import Message

_DATE = re.compile(r"<!date\^[^|>]*\|([^>]*)>")
_MENTION = re.compile(r"<[@#!]([^|>]*)(?:\|[^>]*)?>")
_EMPHASIS = re.compile(r"\*([^*\n]+)\*|`([^`\n]+)`")


def plain_text(message: Message) -> tuple[str, str]:
    """The first line as a title, and all of it. Times are UTC; people are ids."""
    text = _DATE.sub(r"\1", message.text)
    text = _MENTION.sub(r"\1", text)
    text = html.unescape(_EMPHASIS.sub(lambda found: found[1] or found[2], text))
    return text.partition("\n")[0], text
