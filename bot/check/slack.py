"""Slack as this bot needs it: tokens, scopes, channels, people, and the same time."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from slack_sdk.web.async_client import AsyncWebClient

from bot import clock
from bot.check.finding import Finding, advice, ok, problem
from bot.config import BotConfig
from bot.groups import Approvers
from bot.manifest import SCOPES
from bot.notify import CONNECTIONS_OPEN, DeliveryError, DeliveryKind, Notifier, asked, make_client
from bot.render.message import Message
from bot.render.words import Words, words
from bot.speak import SlackAccess

CLOCKS_MAY_DIFFER = timedelta(seconds=5)
CLOCKS_MUST_NOT_DIFFER = timedelta(seconds=60)  # a lost post is looked for since a minute before it was sent
MANIFEST = "compare the app with `gpu-oncall slack manifest`, and install it again"


class Known(msgspec.Struct, frozen=True):
    """What Slack said of the bot token. `scopes` None: it did not say them."""

    team: str
    user: str
    scopes: frozenset[str] | None
    their_time: datetime | None


async def about_slack(config: BotConfig, access: SlackAccess, post: bool) -> list[Finding]:
    client = make_client(access.bot_token, access.api_url)
    try:
        known = await _known(client)
    except DeliveryError as error:
        why = "nobody hears of anything"
        return [problem("bot token", str(error), why, _todo(error)), await _app_token(access)]
    findings = [ok("bot token", f"is {known.user} in {known.team}"), await _app_token(access)]
    findings += [*_about_scopes(known), *about_clock(known)]
    for name, channel in _channels(config, access).items():
        findings.append(await _about_channel(client, name, channel, post, words(config.slack.language)))
    for group in config.groups:
        findings += await _about_approvers(client, group.name, group.approvers)
    return findings


async def _known(client: AsyncWebClient) -> Known:
    headers: dict[str, str] = {}

    async def call() -> Any:
        response = await client.auth_test()
        headers.update({str(name).lower(): str(value) for name, value in response.headers.items()})
        return response

    answer = await asked("auth.test", call)
    scopes = headers.get("x-oauth-scopes")
    return Known(
        team=str(answer.get("team") or answer.get("team_id")),
        user=str(answer.get("user")),
        scopes=None if scopes is None else frozenset(scope.strip() for scope in scopes.split(",")),
        their_time=_time(headers.get("date")),
    )


def _time(header: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(header) if header else None
    except ValueError:
        return None


async def _app_token(access: SlackAccess) -> Finding:
    """A new connection's address; nothing connects to it."""
    client = make_client("", access.api_url)
    try:
        await asked(CONNECTIONS_OPEN, lambda: client.apps_connections_open(app_token=access.app_token))
    except DeliveryError as error:
        return problem("app token", str(error), "no click and no command arrives", _todo(error))
    return ok("app token", "opens Socket Mode connections")


def _about_scopes(known: Known) -> Iterator[Finding]:
    if known.scopes is None:
        yield advice("scopes", "Slack did not say them", "a missing one shows only when it is needed", MANIFEST)
        return
    missing = [name for name in SCOPES if name not in known.scopes]
    for name in missing:
        make = advice if SCOPES[name].optional else problem
        yield make("scopes", f"{name} is missing", f"without it the bot cannot do this: {SCOPES[name].why}", MANIFEST)
    if not missing:
        yield ok("scopes", f"all {len(SCOPES)} are there")
    if more := sorted(known.scopes - set(SCOPES) - {""}):
        yield advice("scopes", f"more than needed: {', '.join(more)}", "a stolen token could do more", MANIFEST)


def about_clock(known: Known) -> Iterator[Finding]:
    if known.their_time is None:
        return
    apart = abs(clock.now() - known.their_time)
    if apart <= CLOCKS_MAY_DIFFER:
        yield ok("clock", "agrees with Slack's")
        return
    make = problem if apart > CLOCKS_MUST_NOT_DIFFER else advice
    why = "times in messages are wrong, and a message whose answer was lost may not be found"
    yield make("clock", f"is {apart.total_seconds():.0f} s away from Slack's", why, "let this host follow NTP")


# --- channels -------------------------------------------------------------------------------------------------------


def _channels(config: BotConfig, access: SlackAccess) -> Mapping[str, str]:
    named = {name: channel for name, channel in msgspec.structs.asdict(config.slack.channels).items() if channel}
    report = {"report": config.report.channel} if config.report.channel else {}
    return (named or {"default": access.home}) | report


async def _about_channel(client: AsyncWebClient, name: str, channel: str, post: bool, language: Words) -> Finding:
    topic = f"channel {name}"
    why = "its cards cannot be posted"
    try:
        problem_of = await _channel_problem(client, channel)
        if problem_of is None and post:
            said = Message(language.plain("check.post"), [])
            await Notifier(client).post(channel, said, f"check {clock.now().isoformat()}")
    except DeliveryError as error:
        if error.kind is DeliveryKind.SCOPE:
            return advice(
                topic, f"{channel} could not be looked at", "whether it takes messages is not known", MANIFEST
            )
        return problem(topic, f"{channel}: {error}", why, _todo(error))
    if problem_of is not None:
        return problem(topic, f"{channel} {problem_of[0]}", why, problem_of[1])
    return ok(topic, f"{channel} took a message" if post else f"{channel} is there, and the app is in it")


async def _channel_problem(client: AsyncWebClient, channel: str) -> tuple[str, str] | None:
    """What is wrong, and what to do."""
    answer = await asked("conversations.info", lambda: client.conversations_info(channel=channel))
    found = answer["channel"]
    if found.get("is_archived"):
        return "is archived", "bring it back, or set another one in bot.slack.channels"
    if not found.get("is_member") and not found.get("is_im"):
        return "is there, and the app is not in it", "in the channel: /invite @gpu-oncall"
    return None


# --- approvers ------------------------------------------------------------------------------------------------------


async def _about_approvers(client: AsyncWebClient, group: str, approvers: Approvers) -> list[Finding]:
    topic, why = (
        f"approvers of {group}",
        "who is not a member cannot approve, and a group that is empty approves nothing",
    )
    findings, users = [], list(approvers.users)
    try:
        if approvers.user_group is not None:
            wanted = approvers.user_group
            answer = await asked("usergroups.users.list", lambda: client.usergroups_users_list(usergroup=wanted))
            users += answer.get("users") or []
            if not answer.get("users"):
                findings.append(problem(topic, f"the user group {wanted} is empty", why, "put people into it"))
        for user in dict.fromkeys(users):
            findings += await _about_user(client, topic, user, why)
    except DeliveryError as error:
        return [*findings, problem(topic, str(error), why, _todo(error))]
    return findings or ([ok(topic, f"{len(set(users))} people")] if users else [])


async def _about_user(client: AsyncWebClient, topic: str, user: str, why: str) -> list[Finding]:
    try:
        answer = await asked("users.info", lambda: client.users_info(user=user))
    except DeliveryError as error:
        if error.kind is not DeliveryKind.REFUSED:
            raise  # it concerns all of them
        return [problem(topic, f"{user}: {error}", why, _todo(error))]
    found = answer["user"]
    wrong = [word for flag, word in _NO_APPROVER.items() if found.get(flag)]
    if not wrong:
        return []
    return [problem(topic, f"{user} is {' and '.join(wrong)}", why, "name members of this workspace")]


_NO_APPROVER = {
    "deleted": "deactivated",
    "is_bot": "a bot",
    "is_restricted": "a guest",
    "is_ultra_restricted": "a guest of one channel",
    "is_stranger": "of another workspace",
}


def _todo(error: DeliveryError) -> str:
    """The error says it itself, after Slack's word."""
    return str(error).rpartition(": ")[2]
