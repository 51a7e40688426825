"""The section `bot:` of config.yaml: types, defaults and bounds."""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path

import msgspec

from wire.configfile import Duration, Size

SHORTEST_WINDOW = timedelta(minutes=5)
FEWEST_WINDOWS = 3


class Mode(StrEnum):
    LIVE = "live"
    SHADOW = "shadow"
    DEMO = "demo"


class EmbeddedBus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listen: str = "127.0.0.1:4222"
    monitor: str = "127.0.0.1:8222"
    max_store: Size = Size(512 * 1024 * 1024)


class Bus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `embedded` (default) or `servers` with `credentials`, never both."""

    embedded: EmbeddedBus | None = None
    servers: list[str] = []
    credentials: Path | None = None
    insecure: bool = False
    nats_server: Path | None = None


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channel ids; None means the default channel."""

    default: str | None = None
    candidates: str | None = None


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    transport: str = "socket"
    api_url: str | None = None
    channels: Channels = msgspec.field(default_factory=Channels)
    language: str = "en"
    time_zone: str = "UTC"
    edit_every: Duration = Duration(seconds=10)


class Candidates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    windows: int = FEWEST_WINDOWS
    gather: Duration = Duration(seconds=60)
    heartbeat_max_age: Duration = Duration(seconds=60)
    sample_max_age: Duration = Duration(seconds=30)


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    windows: Duration = Duration(days=30)
    hourly: Duration = Duration(days=400)


class BotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: Mode = Mode.LIVE
    data_dir: Path = Path("/var/lib/gpu-oncall")
    database: str | None = None
    bus: Bus = msgspec.field(default_factory=Bus)
    slack: Slack = msgspec.field(default_factory=Slack)
    candidates: Candidates = msgspec.field(default_factory=Candidates)
    retention: Retention = msgspec.field(default_factory=Retention)
