"""The edge to Slack's Web API: post, edit, find; whatever goes wrong comes out as one DeliveryError."""

import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.guarded import Guard, GuardedClient
from bot.render.advice import APP_TOKEN, advice
from bot.render.message import Message
from bot.render.words import words

TIMEOUT_SECONDS = 10
EVENT_TYPE = "gpu_oncall"
PAGE = 200
AUTH_TEST = "auth.test"
CONNECTIONS_OPEN = "apps.connections.open"  # the only method that wants the app-level token


class DeliveryKind(StrEnum):
    """What went wrong, by what must be done. After UNSURE alone Slack may have carried it out."""

    UNREACHABLE = "unreachable"
    UNSURE = "unsure"
    RATE_LIMITED = "rate_limited"
    INVALID_BLOCKS = "invalid_blocks"
    TOKEN = "token"
    SCOPE = "scope"
    CHANNEL = "channel"
    GONE = "gone"
    UNEDITABLE = "uneditable"
    REFUSED = "refused"


class DeliveryError(Exception):
    """`method` is Slack's name of what was tried; `retry_after_seconds` is Slack's own wish, only for RATE_LIMITED."""

    def __init__(self, kind: DeliveryKind, method: str, message: str, retry_after_seconds: float = 0.0) -> None:
        super().__init__(f"{method}: {message}")
        self.kind = kind
        self.method = method
        self.retry_after_seconds = retry_after_seconds


class Own(msgspec.Struct, frozen=True):
    """A message of ours in a channel."""

    ts: str
    delivery_key: str
    text: str


class Identity(msgspec.Struct, frozen=True):
    """Who the bot is in its workspace."""

    team: str
    user: str


_ENGLISH = words("en")  # of logs, of `check`, and of what is written down
_KINDS: dict[str, DeliveryKind] = {
    "ratelimited": DeliveryKind.RATE_LIMITED,
    "invalid_blocks": DeliveryKind.INVALID_BLOCKS,
    "invalid_blocks_format": DeliveryKind.INVALID_BLOCKS,
    "msg_blocks_too_long": DeliveryKind.INVALID_BLOCKS,
    "invalid_auth": DeliveryKind.TOKEN,
    "not_authed": DeliveryKind.TOKEN,
    "not_allowed_token_type": DeliveryKind.TOKEN,
    "token_revoked": DeliveryKind.TOKEN,
    "token_expired": DeliveryKind.TOKEN,
    "account_inactive": DeliveryKind.TOKEN,
    "missing_scope": DeliveryKind.SCOPE,
    "no_permission": DeliveryKind.SCOPE,
    "not_in_channel": DeliveryKind.CHANNEL,
    "channel_not_found": DeliveryKind.CHANNEL,
    "is_archived": DeliveryKind.CHANNEL,
    "is_inactive": DeliveryKind.CHANNEL,
    "restricted_action": DeliveryKind.CHANNEL,
    "message_not_found": DeliveryKind.GONE,
    "thread_not_found": DeliveryKind.GONE,
    "cant_update_message": DeliveryKind.UNEDITABLE,
    "edit_window_closed": DeliveryKind.UNEDITABLE,
    "internal_error": DeliveryKind.UNSURE,
    "fatal_error": DeliveryKind.UNSURE,
    "service_unavailable": DeliveryKind.UNSURE,
    "request_timeout": DeliveryKind.UNSURE,
}


def make_client(token: str, api_url: str | None, guard: Guard | None = None) -> AsyncWebClient:
    """Without retries: a post that is sent again by itself could be there twice. `api_url` None means Slack itself.
    With a `guard`, each request asks it right before it leaves.
    """
    base_url = AsyncWebClient.BASE_URL if api_url is None else api_url
    kind = GuardedClient if guard else AsyncWebClient
    client = kind(token=token, base_url=base_url, timeout=TIMEOUT_SECONDS, retry_handlers=[])
    if isinstance(client, GuardedClient) and guard:
        client.guard = guard
    if api_url is not None and _is_loopback(urlsplit(api_url).hostname):
        client.proxy = None
    return client


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


class Notifier:
    """Slack out. Every method raises DeliveryError and nothing else for what Slack or the network does."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def identity(self) -> Identity:
        answer = await asked(AUTH_TEST, lambda: self._client.auth_test())
        return Identity(str(answer.get("team_id") or ""), str(answer.get("user_id") or ""))

    async def post(self, channel: str, message: Message, delivery_key: str, thread_ts: str | None = None) -> str:
        """The new message's ts."""
        return (await self.post_to(channel, message, delivery_key, thread_ts))[1]

    async def post_to(
        self, channel: str, message: Message, delivery_key: str, thread_ts: str | None = None
    ) -> tuple[str, str]:
        """The channel that it is in and its ts. A user's id means the direct messages of that user and the bot."""
        answer = await asked(
            "chat.postMessage",
            lambda: self._client.chat_postMessage(
                channel=channel,
                text=message.text,
                blocks=message.blocks,
                thread_ts=thread_ts,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"delivery": delivery_key}},
                unfurl_links=False,
                unfurl_media=False,
                parse="none",
            ),
        )
        return str(answer.get("channel") or channel), str(answer["ts"])

    async def update(self, channel: str, ts: str, message: Message) -> None:
        """An edit; the metadata stays. Empty blocks take away those that are there."""
        await asked(
            "chat.update",
            lambda: self._client.chat_update(
                channel=channel, ts=ts, text=message.text, blocks=message.blocks, parse="none"
            ),
        )

    async def open_view(self, trigger_id: str, view: dict[str, Any]) -> str:
        """The dialog's id. Slack takes a trigger for 3 seconds, and once."""
        answer = await asked("views.open", lambda: self._client.views_open(trigger_id=trigger_id, view=view))
        return str(answer["view"]["id"])

    async def update_view(self, view_id: str, view: dict[str, Any]) -> None:
        await asked("views.update", lambda: self._client.views_update(view_id=view_id, view=view))

    async def publish_home(self, user: str, view: dict[str, Any]) -> None:
        await asked("views.publish", lambda: self._client.views_publish(user_id=user, view=view))

    async def group_members(self, user_group: str) -> list[str]:
        """The ids of a user group's members."""
        answer = await asked("usergroups.users.list", lambda: self._client.usergroups_users_list(usergroup=user_group))
        return [str(user) for user in answer.get("users") or []]

    async def is_guest(self, user: str) -> bool:
        """Whether the person is a guest, of another workspace, or not there any more."""
        answer = await asked("users.info", lambda: self._client.users_info(user=user))
        known = answer.get("user") or {}
        return any(known.get(one) for one in ("is_restricted", "is_ultra_restricted", "is_stranger", "deleted"))

    async def find(self, channel: str, delivery_key: str, oldest: datetime, thread_ts: str | None = None) -> str | None:
        """The ts of the message with this key, posted after `oldest`; None when it is not there."""
        async for one in self.own(channel, oldest, thread_ts):
            if one.delivery_key == delivery_key:
                return one.ts
        return None

    async def own(self, channel: str, oldest: datetime, thread_ts: str | None = None) -> AsyncIterator[Own]:
        """Our messages that were posted after `oldest`, as they are now."""
        cursor: str | None = None
        while True:
            page = await self._page(channel, oldest, thread_ts, cursor)
            for message in page.get("messages") or []:
                key = ((message.get("metadata") or {}).get("event_payload") or {}).get("delivery")
                if isinstance(key, str):
                    yield Own(str(message["ts"]), key, str(message.get("text") or ""))
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return

    async def _page(self, channel: str, oldest: datetime, thread_ts: str | None, cursor: str | None) -> dict[str, Any]:
        since = f"{oldest.timestamp():.6f}"
        if thread_ts is None:
            return await asked(
                "conversations.history",
                lambda: self._client.conversations_history(
                    channel=channel, oldest=since, limit=PAGE, cursor=cursor, include_all_metadata=True
                ),
            )
        return await asked(
            "conversations.replies",
            lambda: self._client.conversations_replies(
                channel=channel, ts=thread_ts, oldest=since, limit=PAGE, cursor=cursor, include_all_metadata=True
            ),
        )


async def asked(method: str, call: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """Slack's answer to one call; raises DeliveryError."""
    try:
        answer = await call()
    except SlackApiError as error:
        raise _refusal(method, error) from error
    except aiohttp.ClientConnectorError as error:
        raise DeliveryError(DeliveryKind.UNREACHABLE, method, f"no connection ({type(error).__name__})") from error
    except (aiohttp.ClientError, SlackClientError, OSError, TimeoutError) as error:
        raise DeliveryError(DeliveryKind.UNSURE, method, f"no answer ({type(error).__name__})") from error
    return dict(answer.data)


def _refusal(method: str, error: SlackApiError) -> DeliveryError:
    response: Any = error.response
    data = getattr(response, "data", None)
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    code = data.get("error") if isinstance(data, dict) else None
    if status == 429:
        code = "ratelimited"
    if not isinstance(code, str):
        return DeliveryError(DeliveryKind.UNSURE, method, f"no answer of Slack's (HTTP status {status})")
    kind, todo = _KINDS.get(code, DeliveryKind.REFUSED), advice(_ENGLISH, code)
    if method == CONNECTIONS_OPEN and kind in (DeliveryKind.TOKEN, DeliveryKind.SCOPE):
        todo = _ENGLISH.plain(APP_TOKEN)
    if isinstance(data, dict) and data.get("needed"):
        todo = f"{todo} (needed: {data['needed']})"
    return DeliveryError(kind, method, f"{code}: {todo}", _retry_after(response))


def _retry_after(response: Any) -> float:
    """Slack sends whole seconds; anything else counts as 30."""
    text = str((getattr(response, "headers", None) or {}).get("Retry-After", ""))
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 30.0
