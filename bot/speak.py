"""People's side of the bot, put together: Slack out, Slack in, the second path, and the terminal's answers."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bot.act.carry_out import CarryOut
from bot.act.desk import Desk
from bot.act.lists import ApproverLists
from bot.advance import Advance
from bot.config import BotConfig, Mode
from bot.fallback import Fallback
from bot.fleet import Fleet
from bot.incident import Kind
from bot.notify import Notifier, make_client
from bot.outbox import Outbox, OutboxSettings
from bot.outbox.second_path import SecondPath
from bot.outbox.troubles import SLACK
from bot.render.words import words
from bot.slack.actions import Actions
from bot.slack.app import make_app
from bot.slack.claiming import Claiming
from bot.slack.claims import Claims
from bot.slack.commands import Commands
from bot.slack.dialogs import Dialogs
from bot.slack.gate import Gate
from bot.slack.home import Homes
from bot.slack.queries import Queries
from bot.slack.remedying import Remedying
from bot.slack.sockets import SOCKETS, Sockets
from bot.store.writer import Store
from bot.wanted import channels, fallback_urls, own_boot_id, report_settings
from bot.weekly_report import WeeklyReports
from wire.configfile import ConfigError
from wire.link import Link
from wire.secrets import secret

# Its name, and what begins it: who only asks a question begins none.
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


@dataclass(frozen=True)
class SlackAccess:
    """Where Slack is, the secrets to get in, and the channel of each kind of incident; `home` is for all others.

    Nothing of it prints: it holds tokens, and `fallback` addresses with passwords.
    """

    api_url: str | None
    bot_token: str
    app_token: str
    channels: Mapping[Kind, str]
    home: str
    fallback: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return "SlackAccess(<secret>)"


def slack_access(config: BotConfig, environment: Mapping[str, str]) -> SlackAccess | None:
    """None in shadow mode without tokens; raises ConfigError where something is missing to speak."""
    tokens = secret("SLACK_BOT_TOKEN", environment), secret("SLACK_APP_TOKEN", environment)
    if config.mode is Mode.SHADOW and None in tokens:
        return None
    for name, token in zip(("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"), tokens, strict=True):
        if token is None:
            raise ConfigError(
                f"{name} is not set: put the app's token into it, or its file's name into {name}_FILE; "
                "to judge and record without Slack, set bot.mode to shadow"
            )
    by_kind, home = channels(config)
    api_url = config.slack.api_url or environment.get("SLACK_API_URL")
    return SlackAccess(api_url, tokens[0] or "", tokens[1] or "", by_kind, home, fallback_urls(config, environment))


def speak(
    config: BotConfig,
    store: Store,
    fleet: Fleet,
    advance: Advance,
    access: SlackAccess | None,
    link: Link | None = None,
) -> tuple[Commands, Sequence[Loop]]:
    """What answers people, and the loops to run. In shadow mode nothing leaves by itself.

    `link` is the bus; None: no order leaves from here.
    """
    language, zone = words(config.slack.language), config.slack.zone()
    queries = Queries(store, fleet, advance, language, report_settings(config))
    if access is None:
        return _at_terminals(config, store, fleet, advance, queries, link)
    notifier = Notifier(make_client(access.bot_token, access.api_url, store))
    settings = OutboxSettings(access.channels, config.slack.edit_every, access.home, report=report_settings(config))
    outbox = Outbox(store, advance, notifier, language, settings)
    claims = Claims(store, fleet, advance, zone, outbox.wake, may_ask=config.mode is not Mode.SHADOW)
    side = RemedySide(config, store, fleet, advance, link, notifier)
    claiming = Claiming(claims, queries, language, zone, side.lists.approves)
    remedying = side.remedying(notifier, outbox.wake)
    commands = Commands(queries, advance, language, zone, outbox.wake, claiming, remedying)
    gate = Gate(notifier, {access.home, *config.slack.channels.all()})
    dialogs = Dialogs(store, advance, queries, notifier, language, zone)
    homes = Homes(store, queries, notifier, language, side.lists)
    actions = Actions(store, advance, queries, gate, language, dialogs, commands, outbox.wake)
    client = make_client("", access.api_url, store)
    app = make_app(client, actions, commands, dialogs, homes, gate, language, store.is_held)
    sockets = Sockets(app, access.app_token, outbox.troubles.note_or_end)
    homes.sockets = lambda: (sockets.connected, SOCKETS)
    loops: list[Loop] = [("slack sockets", sockets.run), ("claims", claims.run)]
    loops += side.loops(partial(can_press, sockets, outbox))
    if config.mode is not Mode.SHADOW:
        second = SecondPath(store, Fallback(access.fallback, store.is_held), outbox.troubles, language, queries.card)
        loops += [("outbox", outbox.run), ("second path", second.run)]
        loops += _weekly(config, store, access, outbox.wake)
    return commands, loops


def _at_terminals(
    config: BotConfig, store: Store, fleet: Fleet, advance: Advance, queries: Queries, link: Link | None
) -> tuple[Commands, Sequence[Loop]]:
    """Without Slack: people ask on the bot's own host."""
    language, zone = words(config.slack.language), config.slack.zone()
    claims = Claims(store, fleet, advance, zone, lambda: None, may_ask=False)
    side = RemedySide(config, store, fleet, advance, link)
    claiming = Claiming(claims, queries, language, zone, side.lists.approves)
    commands = Commands(queries, advance, language, zone, lambda: None, claiming, side.remedying(None, lambda: None))
    return commands, [("claims", claims.run), *side.loops(lambda: False)]


def _weekly(config: BotConfig, store: Store, access: SlackAccess, wake: Callable[[], None]) -> list[Loop]:
    when = config.report.when()
    if when is None:
        return []
    reports = WeeklyReports(store, when, config.report.channel or access.home, config.slack.zone(), wake)
    return [("weekly report", reports.run)]


class RemedySide:
    """What people and the loop share of remedies."""

    def __init__(
        self,
        config: BotConfig,
        store: Store,
        fleet: Fleet,
        advance: Advance,
        link: Link | None,
        notifier: Notifier | None = None,
    ) -> None:
        self._words = words(config.slack.language)
        self._link = link
        self.lists = ApproverLists(config.group_of, notifier)
        self._desk = Desk(store, fleet, advance, self.lists, self._has_bus, own_boot_id())
        self._carry_out = (
            CarryOut(store, fleet, advance, link, self.lists, config.data_dir) if link is not None else None
        )

    def _has_bus(self) -> bool:
        return self._link is not None and self._link.is_connected

    def remedying(self, notifier: Notifier | None, wake: Callable[[], None]) -> Remedying:
        return Remedying(self._desk, self._words, notifier, wake)

    def loops(self, can_press: Callable[[], bool]) -> list[Loop]:
        return [("remedies", partial(self._carry_out.run, can_press))] if self._carry_out else []


def can_press(sockets: Sockets, outbox: Outbox) -> bool:
    """Whether people can see a card as it stands, and a press on it could arrive."""
    return sockets.connected > 0 and not outbox.troubles.seconds_left(SLACK)
