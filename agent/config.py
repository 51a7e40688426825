"""The section `agent:` of config.yaml: types, defaults and bounds."""

import os
import re
import socket
from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from agent.remedy_config import Remedies, remedy_problems
from agent.runner_config import RunnerConfig, runner_problems
from wire import addresses, bounds, subjects
from wire.configfile import ConfigError, Duration, Problem, Size, load_section

SHORTEST_WINDOW = Duration(minutes=5)
LONGEST_SAMPLE_STEP = Duration(seconds=10)  # a GPU that was taken must be known within 45 s
LONGEST_HEARTBEAT_STEP = Duration(seconds=30)
LONGEST_SAMPLE_DEADLINE = Duration(minutes=1)
SHORTEST_RUNNER_STEP = Duration(seconds=30)  # a runner that is asked too often froze (llama.cpp issue 29104)
LONGEST_RUNNER_STEP = Duration(minutes=1)
LARGEST_BASELINE_BYTES = 64 * 1024 * 1024
MOMENT = Duration(milliseconds=1)
NODE_VARIABLE = "GPU_ONCALL_NODE"  # the host's name where the agent's own is another: in a pod
_MIB = 1024 * 1024
_HTTP_URL = re.compile(r"http://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[^\s@]*", re.ASCII)


class Mode(StrEnum):
    LIVE = "live"
    DEMO = "demo"


class Bus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`credentials` None means node.nkey in the state_dir, `ca` None ca.pem there. `insecure` allows nats://."""

    servers: list[str] = msgspec.field(default_factory=lambda: ["tls://127.0.0.1:4222"])
    credentials: Path | None = None
    ca: Path | None = None
    insecure: bool = False

    def problems(self) -> Iterator[Problem]:
        if not self.servers:
            yield Problem("servers", "wants at least one server, for example [tls://bot-host:4222]")
        for key, sentence in addresses.server_problems(self.servers, self.insecure):
            yield Problem(key, sentence)


class Dcgm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read with `collector: dcgm` only. `collect_interval` is the exporter's own option, so that a stale page shows."""

    url: str = "http://127.0.0.1:9400/metrics"
    collect_interval: Duration = Duration(seconds=30)
    processes: Literal["nvml", "nvidia-smi"] = "nvml"

    def problems(self) -> Iterator[Problem]:
        if not _HTTP_URL.fullmatch(self.url):
            yield Problem("url", "wants a URL without user and password, such as http://127.0.0.1:9400/metrics")
        yield from bounds.outside([("collect_interval", self.collect_interval, Duration(seconds=1), None)])


class Schedulers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where kubelet and Slurm say which GPU they gave away. `slurm_job_dir` None: by the jobs' control groups."""

    kubelet_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    slurm_job_dir: Path | None = None

    def problems(self) -> Iterator[Problem]:
        for key, path in (("kubelet_socket", self.kubelet_socket), ("slurm_job_dir", self.slurm_job_dir)):
            if path is not None and not path.is_absolute():
                yield Problem(key, "wants an absolute path")


class Spool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_size: Size = Size(256 * _MIB)

    def problems(self) -> Iterator[Problem]:
        yield from bounds.outside([("max_size", self.max_size, Size(_MIB), None)])


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_size: Size = Size(16 * _MIB)
    files: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 5

    def problems(self) -> Iterator[Problem]:
        yield from bounds.outside([("max_size", self.max_size, Size(_MIB // 16), None)])


class Metrics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`listen` None: no pages."""

    listen: str | None = None

    def address(self) -> tuple[str, int] | None:
        return addresses.host_and_port(self.listen) if self.listen else None

    def problems(self) -> Iterator[Problem]:
        try:
            self.address()
        except addresses.BadAddressError as error:
            yield Problem("listen", str(error))


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`node` "" in the file means the host's name, made to fit; `load` fills it in."""

    node: str = ""
    mode: Mode = Mode.LIVE
    state_dir: Path = Path("/var/lib/gpu-oncall-agent")
    bus: Bus = msgspec.field(default_factory=Bus)
    collector: Literal["nvml", "nvidia-smi", "dcgm", "replay"] = "nvml"
    dcgm: Dcgm = msgspec.field(default_factory=Dcgm)
    replay_file: Path | None = None
    sample_every: Duration = LONGEST_SAMPLE_STEP
    sample_deadline: Duration = Duration(seconds=15)
    window: Duration = SHORTEST_WINDOW
    heartbeat_every: Duration = LONGEST_HEARTBEAT_STEP
    ignore_graphics: list[str] = []
    idle_memory_bytes: dict[str, int | str] = {}
    schedulers: Schedulers = msgspec.field(default_factory=Schedulers)
    spool: Spool = msgspec.field(default_factory=Spool)
    record: Record = msgspec.field(default_factory=Record)
    metrics: Metrics = msgspec.field(default_factory=Metrics)
    runners_every: Duration = SHORTEST_RUNNER_STEP
    runners: list[RunnerConfig] = []
    remedies: Remedies = msgspec.field(default_factory=Remedies)

    def key_file(self) -> Path:
        """Where the node's secret key lies."""
        return self.bus.credentials or self.state_dir / "node.nkey"

    def ca_file(self) -> Path:
        """The certificate authority that the bus's servers are checked against."""
        return self.bus.ca or self.state_dir / "ca.pem"

    def problems(self) -> Iterator[Problem]:
        if self.node and not subjects.is_node_name(self.node):
            yield Problem("node", "wants lower-case letters, digits and hyphens, 63 at most, for example gpu-01")
        if not self.state_dir.is_absolute():
            yield Problem("state_dir", "wants an absolute path, so that every start finds the same folder")
        if self.collector == "replay" and self.replay_file is None:
            yield Problem("replay_file", "is missing: the collector `replay` reads its answers from a file")
        if "" in self.ignore_graphics:
            yield Problem("ignore_graphics", "holds an empty name, for example `ignore_graphics: [Xorg]`")
        yield from _timing(self)
        yield from _baseline(self.idle_memory_bytes)
        yield from runner_problems(self.runners)
        if self.collector == "replay" and self.remedies.are_offered and self.mode is not Mode.DEMO:
            why = "cannot be on with collector: replay: a recording does not tell who is on the GPUs now"
            yield Problem("remedies", why)
        names = {runner.name for runner in self.runners}
        yield from remedy_problems(self.remedies, names, self.mode is Mode.DEMO)


def load(path: Path) -> AgentConfig:
    """The agent's section, with the node's name filled in; raises ConfigError."""
    config = load_section(path, "agent", AgentConfig)
    if config.node:
        return config
    try:
        return replace(config, node=subjects.node_name_from_host(os.environ.get(NODE_VARIABLE) or socket.gethostname()))
    except ValueError as error:
        raise ConfigError(f"{path}: agent.node: {error}") from error


def _timing(config: AgentConfig) -> Iterator[Problem]:
    second = Duration(seconds=1)
    lower = [
        ("window", config.window, SHORTEST_WINDOW, None),
        ("sample_every", config.sample_every, second, None),
        ("sample_deadline", config.sample_deadline, second, None),
        ("heartbeat_every", config.heartbeat_every, second, None),
        ("runners_every", config.runners_every, SHORTEST_RUNNER_STEP, None),
    ]
    if config.mode is Mode.DEMO:
        yield from bounds.outside((key, value, MOMENT, None) for key, value, _, _ in lower)
    else:
        yield from bounds.outside(lower, unless="mode: demo")
    yield from bounds.outside(
        [
            ("sample_every", config.sample_every, None, LONGEST_SAMPLE_STEP),
            ("sample_deadline", config.sample_deadline, None, LONGEST_SAMPLE_DEADLINE),
            ("heartbeat_every", config.heartbeat_every, None, LONGEST_HEARTBEAT_STEP),
            ("runners_every", config.runners_every, None, LONGEST_RUNNER_STEP),
        ]
    )
    if config.sample_every and config.window % config.sample_every != timedelta(0):
        yield Problem("window", "wants a whole multiple of sample_every, for example window: 5m and sample_every: 10s")


def _baseline(idle_memory_bytes: dict[str, int | str]) -> Iterator[Problem]:
    models = {name: value for name, value in idle_memory_bytes.items() if name != "driver"}
    for name, value in models.items():
        if not isinstance(value, int) or not 0 <= value <= LARGEST_BASELINE_BYTES:
            yield Problem("idle_memory_bytes", f"{name} wants a number of bytes from 0 to {LARGEST_BASELINE_BYTES}")
    if models and not isinstance(idle_memory_bytes.get("driver"), str):
        yield Problem("idle_memory_bytes", 'wants the driver that was measured too, for example driver: "535.104.05"')
