"""What one fleet cost, in numbers to reckon with; and what a larger one would cost, were it only more of the same."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.scale.crowd import HEARTBEAT_SECONDS, WINDOW_SECONDS
from bench.scale.reports import beat_body, window_body
from bot.broker.nodes import MOST_NODES

TARGET_NODES = 100_000
_DAY_SECONDS = 86_400
_RETENTION_DAYS = 30  # as config.yaml has it
_REPLICAS = 3  # of `bot.bus.replicas`, where the servers are a cluster
_HERD_WINDOWS, _HERD_SECONDS = 12, 60.0  # an hour of windows, stored within a minute
_MOST_SHARE = 0.5  # of one core: the other half is for herds, and for people


@dataclass
class Measured:
    """`cores` are CPU seconds for each second of steady life; memory is what was added since before nodes came.

    `herd_*` are of the flush after the broker died; `peak_mib` the most that each process ever held (RSS).
    """

    nodes: int
    bot_cores: float = 0.0
    server_cores: float = 0.0
    bot_mib: float = 0.0
    server_mib: float = 0.0
    herd_windows_per_second: float = 0.0
    herd_cpu_seconds_per_window: float = 0.0
    database_bytes_per_window: float = 0.0
    bot_peak_mib: float = 0.0
    server_peak_mib: float = 0.0

    def database_mib_per_node_and_day(self) -> float:
        return self.database_bytes_per_window * _DAY_SECONDS / WINDOW_SECONDS / 2**20


def growth_table(fleets: Sequence[Measured]) -> str:
    """How each cost grows with the fleet."""
    heads = (
        "nodes",
        "bot, CPU",
        "server, CPU",
        "bot, PSS more",
        "server, PSS more",
        "bot, peak RSS",
        "server, peak RSS",
    )
    heads += ("database per node and day", "flush after a broken broker")
    rows = [
        (
            f"{one.nodes:,}",
            f"{100 * one.bot_cores:.1f} % of a core",
            f"{100 * one.server_cores:.1f} % of a core",
            f"{one.bot_mib:.0f} MiB",
            f"{one.server_mib:.0f} MiB",
            f"{one.bot_peak_mib:.0f} MiB",
            f"{one.server_peak_mib:.0f} MiB",
            f"{one.database_mib_per_node_and_day():.2f} MiB",
            f"{one.herd_windows_per_second:,.0f} windows/s",
        )
        for one in fleets
    ]
    return _table([heads, *rows])


def reckoned(one: Measured, target: int = TARGET_NODES) -> str:
    """What `target` nodes would cost, and how many nodes one bot carries by each limit."""
    windows_mb, beats_mb = (one.nodes * each / 1e6 for each in (_window_bytes_per_second(), _beat_bytes_per_second()))
    per_day_gib = one.nodes * one.database_mib_per_node_and_day() / 1024
    figures = [
        ("CPU of bots, steady", "cores", one.bot_cores),
        ("CPU of servers, steady", "cores", one.server_cores),
        ("CPU of bots for a flush, each window", "ms", one.herd_cpu_seconds_per_window * 1000),
        ("memory of bots (PSS), beside what there was before nodes came", "MiB", one.bot_mib),
        ("memory of servers (PSS), beside what there was before nodes came", "MiB", one.server_mib),
        ("windows and heartbeats", "messages/s", _messages_per_second(one.nodes)),
        ("their bodies", "MB/s", windows_mb + beats_mb),
        (f"windows on {_REPLICAS} disks of an external cluster", "MB/s", windows_mb * _REPLICAS),
        ("database, each day", "GiB", per_day_gib),
        (f"database, {_RETENTION_DAYS} days kept", "GiB", per_day_gib * _RETENTION_DAYS),
    ]
    heads = ("figure", "unit", f"measured, {one.nodes:,} nodes", f"reckoned, {target:,} nodes")
    rows = [(name, unit, _short(value), _scaled(unit, value, target / one.nodes)) for name, unit, value in figures]
    return _table([heads, *rows]) + "\n" + _conclusion(one, target)


def walls(one: Measured) -> dict[str, float]:
    """How many nodes one bot carries by each limit alone."""
    found = {f"{MOST_NODES:,} nodes, after which `node add` refuses": float(MOST_NODES)}
    if one.bot_cores:
        found[f"steady life within {_MOST_SHARE:.0%} of a core of the bot"] = _MOST_SHARE * one.nodes / one.bot_cores
    if one.herd_windows_per_second:
        words = f"{_HERD_WINDOWS} windows of every node judged and stored within {_HERD_SECONDS:g} s"
        found[words] = one.herd_windows_per_second * _HERD_SECONDS / _HERD_WINDOWS
    return found


def _scaled(unit: str, value: float, times: float) -> str:
    """What one window costs stays the same."""
    return _short(value if unit == "ms" else value * times)


def _conclusion(one: Measured, target: int) -> str:
    """The walls in their order; a machine that is twice as slow moves those of speed by as much."""
    found = sorted(walls(one).items(), key=lambda item: item[1])
    lines = [f"- {nodes:,.0f} nodes: {name}" for name, nodes in found]
    bots = math.ceil(target / max(1, found[0][1]))
    so = f"So {target:,} nodes are {bots} bots with {math.ceil(target / bots):,} nodes each."
    return "\n".join(["The walls of one bot on this machine, the first one first:", "", *lines, "", so, ""])


def _messages_per_second(nodes: int) -> float:
    return nodes / WINDOW_SECONDS + nodes / HEARTBEAT_SECONDS


def _window_bytes_per_second() -> float:
    """Of one node."""
    return len(window_body("gpu-00001", 1, idle=False)) / WINDOW_SECONDS


def _beat_bytes_per_second() -> float:
    return len(beat_body("gpu-00001", 1, idle=False)) / HEARTBEAT_SECONDS


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown; the first row is the head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"
