"""What the workspace remembers: people, channels, messages with every version, calls, envelopes."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Team:
    id: str
    domain: str
    name: str


@dataclass
class User:
    id: str
    name: str
    real_name: str
    team_id: str
    tz: str = "Europe/London"
    locale: str = "en-GB"
    is_restricted: bool = False
    is_stranger: bool = False
    is_bot: bool = False
    deleted: bool = False


@dataclass
class UserGroup:
    id: str
    handle: str
    name: str
    members: list[str]
    disabled: bool = False


@dataclass(frozen=True)
class Version:
    """One state of a message and since when it was shown."""

    at: datetime
    text: str
    blocks: list[Json]


@dataclass
class Message:
    """`versions[-1]` is what people see now; `versions[0]` is what was posted."""

    channel_id: str
    ts: str
    user_id: str
    versions: list[Version]
    by_app: bool = True
    thread_ts: str | None = None
    metadata: Json | None = None
    unfurl_links: bool = True
    unfurl_media: bool = True
    reactions: dict[str, list[str]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    deleted_at: datetime | None = None

    @property
    def text(self) -> str:
        return self.versions[-1].text

    @property
    def blocks(self) -> list[Json]:
        return self.versions[-1].blocks

    @property
    def edits(self) -> int:
        return len(self.versions) - 1

    @property
    def is_reply(self) -> bool:
        return self.thread_ts is not None and self.thread_ts != self.ts


@dataclass
class Ephemeral:
    """Seen by one person only and in no history. `via` is the method, `response_url` or `command`."""

    channel_id: str
    user_id: str
    ts: str
    via: str
    versions: list[Version]
    thread_ts: str | None = None
    deleted_at: datetime | None = None

    @property
    def text(self) -> str:
        return self.versions[-1].text

    @property
    def blocks(self) -> list[Json]:
        return self.versions[-1].blocks


@dataclass
class Channel:
    """`messages` holds deleted ones too; `shown` is what people see, oldest first, replies included."""

    id: str
    name: str
    members: list[str] = field(default_factory=list)
    is_private: bool = False
    is_archived: bool = False
    is_shared: bool = False
    is_im: bool = False
    messages: dict[str, Message] = field(default_factory=dict)

    @property
    def shown(self) -> list[Message]:
        return [message for message in self.messages.values() if message.deleted_at is None]

    @property
    def cards(self) -> list[Message]:
        """Messages that the app wrote into the channel itself, not into a thread."""
        return [message for message in self.shown if message.by_app and not message.is_reply]

    def replies(self, message: Message) -> list[Message]:
        return [reply for reply in self.shown if reply.thread_ts == message.ts and reply.is_reply]


@dataclass
class View:
    """A modal or a home. `versions` holds every view body shown, with block ids filled in."""

    id: str
    user_id: str
    kind: str
    hash: str
    versions: list[Json]
    root_id: str
    previous_id: str | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Json:
        return self.versions[-1]

    @property
    def blocks(self) -> list[Json]:
        blocks: list[Json] = self.body.get("blocks", [])
        return blocks

    @property
    def title(self) -> str:
        return str((self.body.get("title") or {}).get("text", ""))

    @property
    def callback_id(self) -> str:
        return str(self.body.get("callback_id") or "")


@dataclass
class File:
    id: str
    name: str
    length_bytes: int
    alt_text: str = ""
    title: str = ""
    content: bytes | None = None
    channels: list[str] = field(default_factory=list)
    thread_ts: str | None = None


@dataclass
class ApiCall:
    """`outcome` is `ok`, Slack's error, or the fault that hit it. `retry_after` in whole seconds."""

    at: datetime
    method: str
    arguments: Json
    outcome: str = "pending"
    response: Json | None = None
    answered_at: datetime | None = None


@dataclass
class Envelope:
    """One envelope on one socket. `failure` says why the user saw an error; None while waiting or when acked."""

    id: str
    type: str
    payload: Json
    socket: int | None
    sent_at: datetime
    retry_attempt: int = 0
    acked_at: datetime | None = None
    answer: Json | None = None
    failure: str | None = None


@dataclass
class Trigger:
    id: str
    user_id: str
    issued_at: datetime
    used: bool = False
    view_id: str | None = None


@dataclass
class ResponseUrl:
    """The source is a message, an ephemeral, or a slash command (both None)."""

    token: str
    user_id: str
    channel_id: str
    issued_at: datetime
    message: Message | None = None
    ephemeral: Ephemeral | None = None
    uses: int = 0
