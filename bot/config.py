"""The section `bot:` of config.yaml: types, defaults and bounds."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec

from bot.config_addresses import wrong_address, wrong_database
from bot.groups import Group, MaintenanceEntry
from bot.maintenance import MaintenanceWindow, matches
from bot.weekly import Weekly
from bot.weekly import parse as parse_weekly_time
from wire import addresses, bounds
from wire.configfile import Duration, Problem, Size, load_section

FEWEST_WINDOWS = 3
OLDEST_HEARTBEAT = Duration(seconds=60)
OLDEST_SAMPLE = Duration(seconds=30)
LONGEST_EDIT_STEP = Duration(seconds=30)  # a card that calls a GPU free is taken back soon
SMALLEST_STORE = Size(512 * 1024 * 1024)
MOMENT = Duration(milliseconds=1)
Language = Literal["en", "ja"]
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{2,20}", re.ASCII)


class Mode(StrEnum):
    LIVE = "live"
    SHADOW = "shadow"
    DEMO = "demo"


class EmbeddedBus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`names` are host names and addresses, beside the one in `listen`, by which nodes reach it."""

    listen: str = "127.0.0.1:4222"
    names: list[str] = []
    monitor: str = "127.0.0.1:8222"
    max_store: Size = SMALLEST_STORE

    def hosts(self) -> list[str]:
        """What nodes may reach it by, the best first."""
        host = addresses.host_and_port(self.listen)[0]
        return [*self.names, *([] if addresses.is_every_address(host) or host in self.names else [host])]

    def problems(self) -> Iterator[Problem]:
        yield from _unless_address("listen", lambda: addresses.host_and_port(self.listen))
        yield from _unless_address("monitor", lambda: addresses.host_and_port(self.monitor))
        if not addresses.is_loopback(self.monitor.rpartition(":")[0].strip("[]")):
            yield Problem(
                "monitor", "wants an address of this machine only (127.0.0.1): that page asks for no password"
            )
        if self.listen == self.monitor:
            yield Problem("monitor", "wants another port than listen")
        for name in self.names:
            if not addresses.is_host(name) or addresses.is_every_address(name):
                yield Problem("names", f"wants host names or IP addresses without a port, got {name}")
        yield from bounds.outside([("max_store", self.max_store, SMALLEST_STORE, None)])


class Bus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `embedded` (the default) or `servers`, never both. `credentials` None means bot.nkey in the data_dir.

    `ca` None means our own authority. `insecure` turns TLS off, on loopback only. `replicas` is for a cluster.
    """

    embedded: EmbeddedBus | None = None
    servers: list[str] = []
    credentials: Path | None = None
    ca: Path | None = None
    insecure: bool = False
    replicas: Literal[1, 3, 5] | None = None
    nats_server: Path | None = None

    def embedded_server(self) -> EmbeddedBus | None:
        """The server to start; None where one that runs elsewhere is named."""
        return None if self.servers else self.embedded or EmbeddedBus()

    def problems(self) -> Iterator[Problem]:
        if self.embedded is not None and self.servers:
            yield Problem(
                "servers", "stands beside embedded: keep one of them, a server of ours or one that runs already"
            )
        if not self.servers and self.replicas not in (None, 1):
            yield Problem("replicas", "wants a cluster: name its servers in bus.servers")
        if self.embedded is not None:
            yield from self._embedded_problems(self.embedded)
        for key, sentence in addresses.server_problems(self.servers, self.insecure):
            yield Problem(key, sentence)

    def _embedded_problems(self, embedded: EmbeddedBus) -> Iterator[Problem]:
        try:
            host = addresses.host_and_port(embedded.listen)[0]
        except addresses.BadAddressError:
            return  # told by `embedded` itself
        if self.insecure and not addresses.is_loopback(host):
            yield Problem(
                "embedded.listen",
                f"{host} is not this machine, and insecure: true turns TLS off: remove that, or listen on 127.0.0.1",
            )
        elif addresses.is_every_address(host) and not embedded.names:
            yield Problem(
                "embedded.names",
                f"is needed with listen: {embedded.listen}: the host names or addresses by which nodes reach this "
                "machine, for example [bot-host, 10.0.0.5]",
            )


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Channel ids; None means the default channel."""

    default: str | None = None
    incidents: str | None = None
    approvals: str | None = None
    candidates: str | None = None

    def all(self) -> frozenset[str]:
        """Every channel that the bot is at home in."""
        return frozenset(channel for channel in msgspec.structs.astuple(self) if channel is not None)

    def problems(self) -> Iterator[Problem]:
        for key, channel in msgspec.structs.asdict(self).items():
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
    language: Language = "en"
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


StallVerdictName = Literal[
    "stalled", "uncertain", "load_stuck", "erroring", "down", "blind", "runaway", "work_stuck", "degraded"
]
_POSTED: tuple[StallVerdictName, ...] = ("stalled", "uncertain", "load_stuck", "erroring", "down", "blind")
STALL_VERDICTS: frozenset[str] = frozenset(get_args(StallVerdictName))


class Stall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a runner is stalled. The keys are those of `bot.judge.stall.StallSettings`; `post` are told in Slack."""

    stalled_timeouts: int = 3
    stalled_fast: Duration = Duration(minutes=10)
    stalled_slow_a: Duration = Duration(minutes=17)
    stalled_slow_b: Duration = Duration(minutes=20)
    stalled_c: Duration = Duration(minutes=20)
    witness_ticks: int = 2
    gpu_quiet_percent: int = 3
    gap_factor: float = 3.0
    gap_least: Duration = Duration(minutes=15)
    gap_most: Duration = Duration(minutes=26)
    gaps_needed: int = 20
    uncertain: Duration = Duration(minutes=26)
    uncertain_c: Duration = Duration(minutes=30)
    load_stuck: Duration = Duration(minutes=20)
    error_count: int = 3
    error: Duration = Duration(minutes=5)
    process_gone_ticks: int = 2
    process_gone: Duration = Duration(seconds=60)
    api_dead: Duration = Duration(minutes=5)
    blind: Duration = Duration(minutes=10)
    runaway: Duration = Duration(minutes=60)
    work_stuck: Duration = Duration(minutes=20)
    paused: Duration = Duration(minutes=30)
    degraded: Duration = Duration(minutes=20)
    idle_settles: Duration = Duration(minutes=10)
    post: list[StallVerdictName] = msgspec.field(default_factory=lambda: list(_POSTED))

    def problems(self) -> Iterator[Problem]:
        yield from bounds.outside([("gpu_quiet_percent", self.gpu_quiet_percent, 0, Stall().gpu_quiet_percent)])
        if self.gap_most < self.gap_least:
            yield Problem("gap_most", "is less than gap_least: it is the longest silence that is put down to habit")


class Remedies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the parts of a remedy may take. `loading` is for a model, after the other parts of the proof."""

    countdown: Duration = Duration(minutes=10)
    proof: Duration = Duration(minutes=15)
    loading: Duration = Duration(minutes=30)


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`weekly` "off": none is posted. `channel` None means the default channel."""

    weekly: str = "Mon 09:07"
    channel: str | None = None

    def when(self) -> Weekly | None:
        return None if self.weekly == "off" else parse_weekly_time(self.weekly)

    def problems(self) -> Iterator[Problem]:
        try:
            self.when()
        except ValueError:
            yield Problem("weekly", "wants a day and a time, for example Mon 09:07, or off")
        if self.channel is not None and not _CHANNEL_ID.fullmatch(self.channel):
            yield Problem("channel", "wants a channel's id, not its name, for example C0123456789")


class Power(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For reports: what an idle GPU draws where the driver does not tell, and what a kWh costs. None: not known."""

    watts_idle: float | None = None
    price_per_kwh: float | None = None
    currency: str = ""

    def problems(self) -> Iterator[Problem]:
        yield from bounds.outside(
            [
                ("watts_idle", self.watts_idle or 0.0, 0.0, 2000.0),
                ("price_per_kwh", self.price_per_kwh or 0.0, 0.0, 1_000_000.0),
            ]
        )
        if len(self.currency) > 8 or not self.currency.isprintable():
            yield Problem("currency", "wants a short name such as EUR or JPY")
        if self.price_per_kwh is not None and not self.currency:
            yield Problem("currency", "is needed beside price_per_kwh, for example EUR or JPY")


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    windows: Duration = Duration(days=30)
    hourly: Duration = Duration(days=400)


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`listen` None: no pages."""

    listen: str | None = "127.0.0.1:9464"

    def address(self) -> tuple[str, int] | None:
        return addresses.host_and_port(self.listen) if self.listen else None

    def problems(self) -> Iterator[Problem]:
        if self.listen is not None:
            yield from _unless_address("listen", self.address)


class BotConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`database` None means SQLite in the data_dir; else a URL, or the name of a secret with one.

    `fallback` holds Apprise URLs, or names of secrets with one.
    """

    mode: Mode = Mode.LIVE
    data_dir: Path = Path("/var/lib/gpu-oncall")
    database: str | None = None
    bus: Bus = msgspec.field(default_factory=Bus)
    slack: Slack = msgspec.field(default_factory=Slack)
    groups: list[Group] = []
    maintenance: list[MaintenanceEntry] = []
    candidates: Candidates = msgspec.field(default_factory=Candidates)
    stall: Stall = msgspec.field(default_factory=Stall)
    remedies: Remedies = msgspec.field(default_factory=Remedies)
    retention: Retention = msgspec.field(default_factory=Retention)
    report: Report = msgspec.field(default_factory=Report)
    power: Power = msgspec.field(default_factory=Power)
    fallback: list[str] = []
    heartbeat_url: str | None = None
    metrics: Metrics = msgspec.field(default_factory=Metrics)

    def key_file(self) -> Path:
        """Where the bot's secret key lies."""
        return self.bus.credentials or self.data_dir / "bot.nkey"

    def ca_file(self) -> Path:
        """The certificate authority that the bus's servers are checked against."""
        return self.bus.ca or self.data_dir / "tls" / "ca.pem"

    def problems(self) -> Iterator[Problem]:
        if not self.data_dir.is_absolute():
            yield Problem("data_dir", "wants an absolute path, so that every start finds the same folder")
        yield from wrong_database(self.database)
        for address in self.fallback:
            yield from wrong_address("fallback", "addresses that Apprise understands, such as ntfy://topic", address)
        if self.heartbeat_url is not None:
            yield from wrong_address("heartbeat_url", "an address that begins with https://", self.heartbeat_url)
        yield from _unknown_groups(self)
        yield from _strictness(self)

    def group_of(self, node: str) -> Group | None:
        """Who looks after the node; None where no group names it."""
        return next((group for group in self.groups if matches(group.nodes, node)), None)

    def calendar(self) -> tuple[MaintenanceWindow, ...]:
        return tuple(entry.window() for entry in self.maintenance)


def load(path: Path) -> BotConfig:
    """The bot's section; raises ConfigError."""
    return load_section(path, "bot", BotConfig)


def _unless_address(key: str, read: Callable[[], object]) -> Iterator[Problem]:
    try:
        read()
    except addresses.BadAddressError as error:
        yield Problem(key, str(error))


def _unknown_groups(config: BotConfig) -> Iterator[Problem]:
    names = [group.name for group in config.groups]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield Problem("groups", f"two groups have the name {name}")
    for entry in config.maintenance:
        for name in entry.groups:
            if name not in names:
                yield Problem("maintenance", f"names the group {name}, which is not among groups")


def _strictness(config: BotConfig) -> Iterator[Problem]:
    """What keeps a word about a free GPU true may be made stricter, never looser."""
    candidates, retention = config.candidates, config.retention
    yield from bounds.outside(
        [
            ("candidates.gather", candidates.gather, Duration(), Duration(minutes=10)),
            ("candidates.heartbeat_max_age", candidates.heartbeat_max_age, MOMENT, OLDEST_HEARTBEAT),
            ("candidates.sample_max_age", candidates.sample_max_age, MOMENT, OLDEST_SAMPLE),
            ("candidates.windows", candidates.windows, 1, None),
            ("slack.edit_every", config.slack.edit_every, MOMENT, LONGEST_EDIT_STEP),
        ]
    )
    yield from bounds.outside(_stall_bounds(config.stall, Stall(), is_demo=config.mode is Mode.DEMO), _unless(config))
    day = Duration(hours=24)
    yield from bounds.outside(
        [(f"remedies.{name}", value, MOMENT, day) for name, value in msgspec.structs.asdict(config.remedies).items()]
    )
    if config.mode is Mode.DEMO:
        return
    yield from bounds.outside(
        [
            ("remedies.countdown", config.remedies.countdown, Duration(minutes=5), None),
            ("remedies.proof", config.remedies.proof, Duration(minutes=2), None),
            ("candidates.windows", candidates.windows, FEWEST_WINDOWS, None),
            ("slack.edit_every", config.slack.edit_every, Duration(seconds=1), None),
            ("retention.windows", retention.windows, Duration(days=1), None),
            ("retention.hourly", retention.hourly, Duration(days=1), None),
        ],
        unless="mode: demo",
    )


def _unless(config: BotConfig) -> str:
    return "" if config.mode is Mode.DEMO else "mode: demo"


def _stall_bounds(stall: Stall, least: Stall, *, is_demo: bool) -> Iterator[bounds.Bound]:
    """Every threshold is a wait or a count: more of it is stricter. In a demo, something must have been seen."""
    for info in msgspec.structs.fields(stall):
        if info.name in ("post", "gpu_quiet_percent"):
            continue
        default = getattr(least, info.name)
        shortest = MOMENT if isinstance(default, Duration) else type(default)(1)
        yield f"stall.{info.name}", getattr(stall, info.name), shortest if is_demo else default, None
