"""Prometheus and Alertmanager beside the bot, for the same fleet and rule: cost, time, and what they say."""

import asyncio
import contextlib
import json
import shutil
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

from bench import card, idle_rule
from bench.figure import Figure
from bench.program import running, until
from bench.scale.phases import SPREAD_SECONDS
from bench.scale.place import Place
from bench.scale.processes import Usage, usage
from tests.build import gpu_uuid
from tests.nats_server import free_port

GPUS = 8
_HOUR_SECONDS = 3600.0
_GROUP_WAIT_SECONDS = 1
PROGRAMS = ("prometheus", "prometheus-alertmanager")
_PEER = "Prometheus + Alertmanager"


@dataclass(frozen=True)
class Size:
    """`seconds` of steady life of `nodes` at real rates; `notifications` are timed alone.

    `every_seconds` is theirs, of scrapes and evaluations, while notifications are timed; a GPU becomes idle each
    `apart_seconds`, so that they fall on all moments between two scrapes.
    """

    nodes: int = 500
    seconds: float = 45.0
    notifications: int = 20
    every_seconds: int = 15
    apart_seconds: float = 1.1
    cards: card.Size = field(default_factory=card.Size)


@dataclass
class Fleet:
    """What exporters show: one page per node. `idle` are nodes whose GPU 0 does nothing."""

    url: str = ""
    idle: set[int] = field(default_factory=set)
    notified: dict[str, float] = field(default_factory=dict)

    def page(self, node: int) -> bytes:
        """Five readings per GPU, named as dcgm-exporter names them, which has more than twenty."""
        return "".join(self._gpu(node, gpu) for gpu in range(GPUS)).encode()

    def _gpu(self, node: int, gpu: int) -> str:
        load = 0 if gpu == 0 and node in self.idle else 97
        labels = f'{{gpu="{gpu}",UUID="{gpu_uuid(gpu)}",modelName="NVIDIA H100 80GB HBM3"}}'
        values = {"GPU_UTIL": load, "FB_USED": 61440, "FB_FREE": 20119, "POWER_USAGE": 71.02, "GPU_TEMP": 41}
        return "".join(f"DCGM_FI_DEV_{name}{labels} {value}\n" for name, value in values.items())


def measure(size: Size = Size()) -> list[Figure]:
    figures = idle_rule.measure()
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        print(
            f"there is no {' and no '.join(missing)}, so that is not measured (Debian: apt install {' '.join(missing)})"
        )
        return figures
    ours, theirs = asyncio.run(_side_by_side(size))
    return [*figures, *_costs(size, ours, theirs), _way(size)]


def _costs(size: Size, ours: Usage, theirs: Usage) -> Iterator[Figure]:
    work = (
        f"{size.nodes} nodes with {GPUS} GPUs, {size.seconds:g} s of steady life: a window every 5 min and a heartbeat "
        "every 30 s; theirs a scrape and an evaluation every 30 s, at the same time; memory as it is then, both grow"
    )
    hour = _HOUR_SECONDS / size.seconds
    yield Figure(
        "bot and bus, CPU per hour", [ours.cpu_seconds * hour], "s", work, "", _PEER, [theirs.cpu_seconds * hour]
    )
    yield Figure("bot and bus, memory (PSS)", [ours.pss_mib], "MiB", "the same", "", _PEER, [theirs.pss_mib])


def _way(size: Size) -> Figure:
    seconds = card.seconds_to_card(size.cards)
    work = (
        "ours from the third idle window to the card, theirs from the page that shows 0 to the webhook (scrape and "
        f"evaluation every {size.every_seconds} s, no `for`); without the time of gathering (60 s, 30 s), and of what "
        "comes before it (15 to 20 min, 15 min)"
    )
    return Figure("condition to notification", seconds, "s", work, "", _PEER, seconds_to_webhook(size))


async def _side_by_side(size: Size) -> tuple[Usage, Usage]:
    """CPU time of processes is counted, so that both may be measured in the same minutes."""
    ours, theirs = await asyncio.gather(_cost_of_ours(size), asyncio.to_thread(_cost_of_theirs, size))
    return ours, theirs


# --- ours -----------------------------------------------------------------------------------------------------------


async def _cost_of_ours(size: Size) -> Usage:
    with tempfile.TemporaryDirectory() as name:
        async with Place(Path(name) / "place", size.nodes) as place:
            tell = place.crowd.tell
            await asyncio.to_thread(tell, "connect", 0.001 * size.nodes)
            await asyncio.to_thread(
                place.crowd.until, lambda total: total.connected == size.nodes, "all are there", 120
            )
            await asyncio.to_thread(tell, "close_windows", 1, SPREAD_SECONDS)
            await asyncio.to_thread(place.crowd.until, lambda total: total.acked >= size.nodes, "first windows", 120)
            await asyncio.to_thread(tell, "live")
            await asyncio.sleep(size.seconds / 4)
            before = place.usage()
            await asyncio.sleep(size.seconds)
            return _sum(list(place.usage().values()), list(before.values()))


def _sum(after: Sequence[Usage], before: Sequence[Usage]) -> Usage:
    spent = [now - then for now, then in zip(after, before, strict=True)]
    return Usage(sum(one.cpu_seconds for one in spent), sum(one.pss_mib for one in spent))


# --- theirs ---------------------------------------------------------------------------------------------------------


def _cost_of_theirs(size: Size) -> Usage:
    with _fleet() as fleet, _stack(fleet, size.nodes, every_seconds=30, wait="15m") as (address, pids):
        until(lambda: _scraped(address) == size.nodes, "every node was scraped")
        threading.Event().wait(size.seconds / 4)
        before = [usage(pid) for pid in pids]
        threading.Event().wait(size.seconds)
        return _sum([usage(pid) for pid in pids], before)


def seconds_to_webhook(size: Size) -> list[float]:
    count, begun = size.notifications, list[float]()
    with _fleet() as fleet, _stack(fleet, count, every_seconds=size.every_seconds, wait="0s") as (address, _):
        until(lambda: _scraped(address) == count, "every node was scraped")
        for node in range(count):
            begun.append(time.monotonic())
            fleet.idle.add(node)
            threading.Event().wait(size.apart_seconds)
        until(lambda: len(fleet.notified) == count, "a notification of every node")
        return [fleet.notified[str(node)] - begin - _GROUP_WAIT_SECONDS for node, begin in enumerate(begun)]


@contextlib.contextmanager
def _fleet() -> Iterator[Fleet]:
    fleet = Fleet()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(fleet.page(int(self.path.rpartition("/")[2])))

        def do_POST(self) -> None:
            alerts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]
            for alert in alerts:
                fleet.notified.setdefault(alert["labels"]["node"], time.monotonic())
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        fleet.url = f"127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield fleet
        server.shutdown()


@contextlib.contextmanager
def _stack(fleet: Fleet, nodes: int, *, every_seconds: int, wait: str) -> Iterator[tuple[str, list[int]]]:
    """Prometheus' address, and the pids of both."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, ports = Path(name), [free_port(), free_port()]
        address, manager = (f"127.0.0.1:{port}" for port in ports)
        for file, document in _configs(fleet, nodes, every_seconds, wait, manager).items():
            (folder / file).write_text(yaml.safe_dump(document))
        commands = [
            [
                "prometheus",
                "--config.file=prometheus.yaml",
                "--storage.tsdb.path=data",
                f"--web.listen-address={address}",
            ],
            ["prometheus-alertmanager", "--config.file=alertmanager.yaml", "--storage.path=kept"],
        ]
        commands[1] += [f"--web.listen-address={manager}", "--cluster.listen-address="]
        pids = [stack.enter_context(running(command, folder)) for command in commands]
        yield address, pids


def _configs(fleet: Fleet, nodes: int, every_seconds: int, wait: str, manager: str) -> Mapping[str, object]:
    alert = {"alert": "Idle", "expr": "DCGM_FI_DEV_GPU_UTIL == 0", "for": wait}
    targets = [{"targets": [fleet.url], "labels": {"node": str(n), "__metrics_path__": f"/{n}"}} for n in range(nodes)]
    prometheus = {
        "global": {"scrape_interval": f"{every_seconds}s", "evaluation_interval": f"{every_seconds}s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "gpus", "static_configs": targets}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]},
    }
    route = {"receiver": "people", "group_by": ["node"], "group_wait": f"{_GROUP_WAIT_SECONDS}s"}
    receiver = {"name": "people", "webhook_configs": [{"url": f"http://{fleet.url}/"}]}
    return {
        "prometheus.yaml": prometheus,
        "rules.yaml": {"groups": [{"name": "gpus", "rules": [alert]}]},
        "alertmanager.yaml": {"route": route, "receivers": [receiver]},
    }


def _scraped(address: str) -> int:
    """How many nodes Prometheus has read."""
    query = f"http://{address}/api/v1/query?query=sum(up)"
    try:
        with urllib.request.urlopen(query, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return 0
    return int(found[0]["value"][1]) if found else 0
