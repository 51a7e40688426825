"""One sentence for the person who pressed or typed something."""

from collections.abc import Sequence

from bot.render import message
from bot.render.message import Message
from bot.render.words import Mrkdwn, Words


def reply(words: Words, key: str, **values: object) -> Message:
    return lines(words, [words.say(key, **values)])


def lines(words: Words, said: Sequence[Mrkdwn]) -> Message:
    more = words.say("answer.more")
    return message.message(said, [message.section(said, more)], more)


def not_understood(words: Words, command: str, wrong: Mrkdwn, close: str | None) -> Message:
    """What was not understood, the nearest right word, and the usage with examples."""
    said = [wrong]
    if close is not None:
        said.append(words.say("usage.did_you_mean", word=close))
    return lines(words, [*said, words.say(f"usage.{command}")])


def usage(words: Words, command: str) -> Message:
    return lines(words, [words.say(f"usage.{command}")])


def help_of(words: Words, commands: Sequence[str]) -> Message:
    return lines(
        words, [words.say("help.head"), *(words.say(f"help.{one}") for one in commands), words.say("help.foot")]
    )
