"""A replay as lines for a terminal."""

import html
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from bot.incident import CardState, Incident
from bot.render.card import Drawing, card
from bot.render.finding_card import lasted, sentence, title_of
from bot.render.message import Message
from bot.render.plain import plain_text
from bot.render.values import length, utc
from bot.render.words import Words
from bot.replay.compare import MOMENT, Difference
from bot.replay.past import Change


def change_line(words: Words, change: Change) -> str:
    return f"{utc(change.at)}  {title(words, change.incident, change.at)}{_how_it_ended(words, change.incident)}"


def title(words: Words, incident: Incident, now: datetime) -> str:
    """The first line of its card, as it was then."""
    if incident.finding is not None:
        return title_of(words, incident, incident.finding)
    free = frozenset(gpu.uuid for gpu in incident.gpus if gpu.state is CardState.CONFIRMED)
    return html.unescape(card(words, Drawing(incident, "-", free, now)).text.partition("\n")[0])


def _how_it_ended(words: Words, incident: Incident) -> str:
    if not incident.closed_at:
        return ""
    said = "; ".join(plain_text(Message(sentence(words, one), []))[1] for one in incident.ending)
    return f" ({lasted(incident)}{': ' if said else ''}{said})"


def comparison(words: Words, same: int, differences: Sequence[Difference]) -> Iterator[str]:
    yield f"Against what was said: {same} the same, {len(differences)} different"
    for difference in differences:
        yield f"  {_difference(words, difference)}"


def _difference(words: Words, difference: Difference) -> str:
    then, now = difference.then, difference.now
    if then is None:
        assert now is not None
        return f"only now   {utc(now.opened_at)}  {_named(words, now)}"
    if now is None:
        return f"only then  {utc(then.opened_at)}  {_named(words, then)}"
    return f"both       {utc(then.opened_at)}  {_named(words, then)}: {', '.join(_turned(words, then, now))}"


def _turned(words: Words, then: Incident, now: Incident) -> Iterator[str]:
    later = now.opened_at - then.opened_at
    if abs(later) > MOMENT:
        yield f"now {length(abs(later) / timedelta(seconds=1))} {'later' if later > timedelta(0) else 'earlier'}"
    if then.what != now.what:
        yield f"now {words.plain(f'what.{now.what}')}"


def _named(words: Words, incident: Incident) -> str:
    where = incident.subject.replace("/", " ")
    return f"{where}: {words.plain(f'what.{incident.what}')}"
