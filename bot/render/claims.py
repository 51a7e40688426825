"""What is said of claims: in answers, and to the holder when one is about to end."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from slack_sdk.models.blocks import ButtonElement

from bot.claims import Claim
from bot.render import message
from bot.render.drawing import label, with_reason
from bot.render.message import Message
from bot.render.values import instant, person
from bot.render.words import Mrkdwn, Words

KEEP, KEEP_TOMORROW, RELEASE = "claim_keep", "claim_tomorrow", "claim_release"
BUTTONS = (KEEP, KEEP_TOMORROW, RELEASE)
ASK, KEPT, RELEASED, ENDED = "claim.ask", "claim.kept", "claim.released", "claim.ended"
NOTICES = (ASK, KEPT, RELEASED, ENDED)
MOST_LINES = 8


def claim_lines(words: Words, claims: Sequence[Claim]) -> list[Mrkdwn]:
    """A line for each; further ones are counted."""
    said = [claim_line(words, one) for one in claims[:MOST_LINES]]
    left_out = len(claims) - MOST_LINES
    return [*said, words.counted("claim.left_out", left_out)] if left_out > 0 else said


def claim_line(words: Words, claim: Claim) -> Mrkdwn:
    """Which GPU, who and until when, and why."""
    where = {"node": claim.node, "index": claim.gpu_index}
    said = words.say("claim.line", by=person(claim.by), until=instant(claim.until), **where)
    return with_reason(words, said, claim.reason)


def values_of(claim: Claim) -> dict[str, str]:
    """What a message to the holder is drawn from."""
    return {
        "node": claim.node,
        "index": str(claim.gpu_index),
        "until": claim.until.isoformat(),
        "token": claim.token,
    }


def claim_notice(words: Words, key: str, values: Mapping[str, str]) -> Message:
    """The message to the holder: the question with its buttons, or what came of it."""
    until = instant(datetime.fromisoformat(values["until"]))
    said = [words.say(key, node=values["node"], index=values["index"], until=until)]
    more = words.say("answer.more")
    blocks = [message.section(said, more)]
    if key == ASK:
        blocks.append(message.actions([_button(words, action, values) for action in BUTTONS]))
    return message.message(said, blocks, more)


def _button(words: Words, action: str, values: Mapping[str, str]) -> ButtonElement:
    spoken = words.plain(f"button.{action}.label", subject=f"{values['node']} GPU {values['index']}")
    return ButtonElement(
        text=label(words, f"button.{action}"),
        action_id=action,
        value=values["token"],
        accessibility_label=spoken[:75],
    )
