"""The section `agent:` of config.yaml: types, defaults and bounds."""

import os
import socket
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from wire import subjects
from wire.configfile import ConfigError, Duration, Size, load_section

SHORTEST_WINDOW = timedelta(minutes=5)
LARGEST_BASELINE_BYTES = 64 * 1024 * 1024


class Mode(StrEnum):
    LIVE = "live"
    DEMO = "demo"


class Bus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    servers: list[str] = msgspec.field(default_factory=lambda: ["nats://127.0.0.1:4222"])
    credentials: Path | None = None
    insecure: bool = False


class Spool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_size: Size = Size(256 * 1024 * 1024)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_size: Size = Size(16 * 1024 * 1024)
    files: int = 5


class AgentConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: str = ""
    mode: Mode = Mode.LIVE
    state_dir: Path = Path("/var/lib/gpu-oncall-agent")
    bus: Bus = msgspec.field(default_factory=Bus)
    collector: str = "nvml"
    replay_file: Path | None = None
    sample_every: Duration = Duration(seconds=10)
    sample_deadline: Duration = Duration(seconds=15)
    window: Duration = Duration(minutes=5)
    heartbeat_every: Duration = Duration(seconds=30)
    ignore_graphics: list[str] = []
    idle_memory_bytes: dict[str, int | str] = {}
    spool: Spool = msgspec.field(default_factory=Spool)
    record: Record = msgspec.field(default_factory=Record)
