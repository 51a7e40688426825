"""Sentences from one catalogue per language; what is put into them is made safe for Slack on the way in."""

import functools
import unicodedata
from collections.abc import Mapping
from importlib import resources

import yaml

LONGEST_VALUE = 120


class Mrkdwn(str):
    """Text in Slack's markup that is safe already: ours, or foreign text that was escaped."""

    __slots__ = ()


def clean(text: str, longest: int = LONGEST_VALUE) -> str:
    """Foreign text on one line: without control, direction and lone surrogate characters, cut with an ellipsis."""
    shown = "".join(" " if unicodedata.category(char) in _UNSEEN else char for char in text[: longest * 4])
    shown = " ".join(shown.split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def escape(text: str) -> Mrkdwn:
    """Without `<` and `>` there are no mentions, links or dates in Slack's markup."""
    return Mrkdwn(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def code(text: str, longest: int = LONGEST_VALUE) -> Mrkdwn:
    """Foreign text as it is, in fixed width: no emphasis, no emoji."""
    return Mrkdwn("`" + escape(clean(text, longest).replace("`", "'") or "-") + "`")


class Words:
    """The sentences of one language. Raises KeyError for a key that is not in the catalogue: a bug of ours."""

    def __init__(self, sentences: Mapping[str, str]) -> None:
        self.sentences = sentences

    def say(self, key: str, **values: object) -> Mrkdwn:
        """Markup. Values that are not Mrkdwn are foreign: they are cleaned and escaped."""
        return Mrkdwn(self.sentences[key].format(**{name: _safe(value) for name, value in values.items()}))

    def plain(self, key: str, **values: object) -> str:
        """For places where Slack reads no markup: titles, buttons, cells of tables."""
        return self.sentences[key].format(**{name: clean(str(value)) for name, value in values.items()})

    def counted(self, key: str, count: int, **values: object) -> Mrkdwn:
        return self.say(self._form(key, count), count=count, **values)

    def plain_counted(self, key: str, count: int, **values: object) -> str:
        return self.plain(self._form(key, count), count=count, **values)

    def _form(self, key: str, count: int) -> str:
        """A language that does not tell one from many has the other form only."""
        one = f"{key}.one"
        return one if count == 1 and one in self.sentences else f"{key}.other"


def _safe(value: object) -> Mrkdwn:
    return value if isinstance(value, Mrkdwn) else escape(clean(str(value)))


@functools.cache
def words(language: str) -> Words:
    """Raises FileNotFoundError where there is no such language."""
    text = resources.files("bot.render.language").joinpath(f"{language}.yaml").read_text(encoding="utf-8")
    return Words({str(key): str(sentence) for key, sentence in yaml.safe_load(text).items()})
