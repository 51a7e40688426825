"""The section `bot:` of config.yaml: types, defaults and bounds."""

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec

from wire import addresses, bounds
from wire.configfile import Duration, Problem, Size, load_section

FEWEST_WINDOWS = 3
OLDEST_HEARTBEAT = Duration(seconds=60)
OLDEST_SAMPLE = Duration(seconds=30)
SMALLEST_STORE = Size(512 * 1024 * 1024)
MOMENT = Duration(milliseconds=1)
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{2,20}", re.ASCII)


class Mode(StrEnum):
    LIVE = "live"
    SHADOW = "shadow"
    DEMO = "demo"


class EmbeddedBus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:4222"
    monitor: str = "127.0.0.1:8222"
    max_store: Size = SMALLEST_STORE

    def problems(self) -> Iterator[Problem]:
        for key, text in (("listen", self.listen), ("monitor", self.monitor)):
            try:
                addresses.require_loopback(addresses.host_and_port(text)[0])
            except addresses.BadAddressError as error:
                yield Problem(key, str(error))
        if self.listen == self.monitor:
            yield Problem("monitor", "wants another port than listen")
        yield from bounds.outside([("max_store", self.max_store, SMALLEST_STORE, None)])


class Bus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `embedded` (the default) or `servers`, never both. `credentials` None means bot.nkey in the data_dir."""

    embedded: EmbeddedBus | None = None
    servers: list[str] = []
    credentials: Path | None = None
    insecure: bool = False
    nats_server: Path | None = None

    def embedded_server(self) -> EmbeddedBus | None:
        """The server to start; None where one that runs elsewhere is named."""
        return None if self.servers else self.embedded or EmbeddedBus()

    def problems(self) -> Iterator[Problem]:
        if not self.insecure:
            yield Problem("insecure", addresses.INSECURE_SENTENCE)
        if self.embedded is not None and self.servers:
            yield Problem(
                "servers", "stands beside embedded: keep one of them, a server of ours or one that runs already"
            )
        for url in self.servers:
            try:
                addresses.require_loopback(addresses.server_host(url))
            except addresses.BadAddressError as error:
                yield Problem("servers", str(error))


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channel ids; None means the default channel."""

    default: str | None = None
    candidates: str | None = None

    def problems(self) -> Iterator[Problem]:
        for key, channel in (("default", self.default), ("candidates", self.candidates)):
            if channel is not None and not _CHANNEL_ID.fullmatch(channel):
                yield Problem(
                    key,
                    "wants a channel's id, not its name: at the end of the channel's details, for example C0123456789",
                )


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`api_url` None means Slack itself."""

    transport: Literal["socket"] = "socket"
    api_url: str | None = None
    channels: Channels = msgspec.field(default_factory=Channels)
    language: Literal["en"] = "en"
    time_zone: str = "UTC"
    edit_every: Duration = Duration(seconds=10)

    def zone(self) -> tzinfo:
        """Raises ValueError or KeyError for a name that this machine does not know."""
        return UTC if self.time_zone == "UTC" else ZoneInfo(self.time_zone)

    def problems(self) -> Iterator[Problem]:
        try:
            self.zone()
        except (ValueError, KeyError, OSError):
            yield Problem("time_zone", "is not known on this machine, for example Asia/Tokyo or UTC")
        if self.api_url is not None and urlsplit(self.api_url).scheme not in ("http", "https"):
            yield Problem("api_url", "wants a URL that begins with https://, or null for Slack itself")


class Candidates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    windows: int = FEWEST_WINDOWS
    gather: Duration = Duration(seconds=60)
    heartbeat_max_age: Duration = OLDEST_HEARTBEAT
    sample_max_age: Duration = OLDEST_SAMPLE


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    windows: Duration = Duration(days=30)
    hourly: Duration = Duration(days=400)


class BotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`database` None means SQLite in the data_dir."""

    mode: Mode = Mode.LIVE
    data_dir: Path = Path("/var/lib/gpu-oncall")
    database: str | None = None
    bus: Bus = msgspec.field(default_factory=Bus)
    slack: Slack = msgspec.field(default_factory=Slack)
    candidates: Candidates = msgspec.field(default_factory=Candidates)
    retention: Retention = msgspec.field(default_factory=Retention)

    def key_file(self) -> Path:
        """Where the bot's secret key lies."""
        return self.bus.credentials or self.data_dir / "bot.nkey"

    def problems(self) -> Iterator[Problem]:
        if not self.data_dir.is_absolute():
            yield Problem("data_dir", "wants an absolute path, so that every start finds the same folder")
        if self.database is not None and not self.database.startswith("sqlite:///"):
            yield Problem("database", "wants null or sqlite:///FILE: other databases are not there yet")
        yield from _strictness(self)


def load(path: Path) -> BotConfig:
    """The bot's section; raises ConfigError."""
    return load_section(path, "bot", BotConfig)


def _strictness(config: BotConfig) -> Iterator[Problem]:
    """What keeps a word about a free GPU true may be made stricter, never looser."""
    candidates, retention = config.candidates, config.retention
    yield from bounds.outside(
        [
            ("candidates.gather", candidates.gather, Duration(), Duration(minutes=10)),
            ("candidates.heartbeat_max_age", candidates.heartbeat_max_age, MOMENT, OLDEST_HEARTBEAT),
            ("candidates.sample_max_age", candidates.sample_max_age, MOMENT, OLDEST_SAMPLE),
            ("candidates.windows", candidates.windows, 1, None),
            ("slack.edit_every", config.slack.edit_every, MOMENT, None),
        ]
    )
    if config.mode is Mode.DEMO:
        return
    yield from bounds.outside(
        [
            ("candidates.windows", candidates.windows, FEWEST_WINDOWS, None),
            ("slack.edit_every", config.slack.edit_every, Duration(seconds=1), None),
            ("retention.windows", retention.windows, Duration(days=1), None),
            ("retention.hourly", retention.hourly, Duration(days=1), None),
        ],
        unless="mode: demo",
    )
