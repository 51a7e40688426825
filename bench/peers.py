"""What others cost for the same GPUs: gpuwatch, gpumanager, nvitop-exporter, and a cron job with two queries."""

import contextlib
import itertools
import os
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from bench import agent
from bench.environment import installed
from bench.figure import Figure
from bench.fleet_windows import fleet_windows
from bench.program import running, until
from tests.fake_nvml import FakeNvml, build_library
from tests.nats_server import free_port

_EVERY_SECONDS = 10.0
_HOUR_SECONDS = 3600.0
_HEARTBEATS_PER_HOUR, _WINDOWS_PER_HOUR = 120, 12
_SCRAPES_PER_HOUR, _STATUS_PER_HOUR, _REPORTS_PER_HOUR = 240.0, 6.0, 1 / 24
_SMI = "an nvidia-smi on the same library, 1 ms, where a real one takes 10 to 20"
QUERIES = (
    "gpu=index,uuid,utilization.gpu,memory.used,memory.total",
    "compute-apps=gpu_uuid,pid,process_name,used_memory",
)


@dataclass(frozen=True)
class Size:
    """`seconds` for each of `pieces`, with a sample every 10 s as the agent takes it: what wakes up more often finds
    its code still in the caches. `calls` of what is started for each sample, one after the other, with warm caches.
    """

    seconds: float = 20.0
    pieces: int = 3
    calls: int = 20
    ours: agent.Size = field(default_factory=agent.Size)


@dataclass(frozen=True)
class Peer:
    """`sample_seconds` is CPU time. No `pss_mib`: it starts for each sample, ends, and holds nothing in between."""

    name: str
    work: str
    every_seconds: float
    sample_seconds: Sequence[float]
    pss_mib: Sequence[float]
    sent_bytes_per_hour: float


@dataclass
class Webhook:
    """Takes what is posted, and counts it."""

    url: str
    sizes: list[int] = field(default_factory=list)


def measure(size: Size = Size()) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = installed(folder / "venv", "peers")
        if programs is None:
            return []
        peers = list(_peers(folder, programs, size))
    ours = agent.run(size.ours)
    return [figure for peer in peers for figure in _beside(ours, peer)]


def _beside(ours: agent.Run, peer: Peer) -> Iterator[Figure]:
    cpu = [ours.whole_cpu_seconds_per_hour()]

    def at(every_seconds: float) -> list[float]:
        return [one * _HOUR_SECONDS / every_seconds for one in peer.sample_seconds]

    work = f"8 GPUs, both at 360 samples an hour; {peer.work}"
    yield Figure("agent, CPU per hour, a sample every 10 s", cpu, "s", work, peer=peer.name, theirs=at(_EVERY_SECONDS))
    default = f"{peer.name} every {peer.every_seconds:g} s"
    yield Figure(
        "agent, CPU per hour, each at its own default",
        cpu,
        "s",
        "reckoned from the samples above; what wakes up more often costs less for each",
        "",
        default,
        at(peer.every_seconds),
    )
    if peer.pss_mib:
        yield Figure("agent, memory (PSS), beside", ours.pss_mib(), "MiB", "the same", "", peer.name, peer.pss_mib)
    sent = [_sent_bytes_per_hour(ours) / 1024]
    words = "what leaves the node, without TLS, TCP and HTTP's own lines"
    yield Figure("agent, sent per hour", sent, "KiB", words, "", peer.name, [peer.sent_bytes_per_hour / 1024])


def _sent_bytes_per_hour(ours: agent.Run) -> float:
    """What was heard for heartbeats, and a window of as many GPUs."""
    window_bytes = len(fleet_windows(1, 1)[0].body)
    mean_bytes = sum(ours.heartbeats) / max(1, len(ours.heartbeats))
    return mean_bytes * _HEARTBEATS_PER_HOUR + window_bytes * _WINDOWS_PER_HOUR


def _peers(folder: Path, programs: Path, size: Size) -> Iterator[Peer]:
    driver = FakeNvml(folder, [agent.gpu(index) for index in range(agent.GPUS)])
    build_nvidia_smi(folder)
    environment = {**os.environ, **driver.env, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)}
    with _webhook() as webhook:
        yield _gpuwatch(folder, programs, environment, webhook, size)
    with _webhook() as webhook:
        yield _gpumanager(folder, programs, environment, webhook, size)
    yield _nvitop(folder, programs, environment, size)
    yield cron(folder, environment, size)


def _gpuwatch(folder: Path, programs: Path, environment: Mapping[str, str], webhook: Webhook, size: Size) -> Peer:
    settings = {
        "CHECK_INTERVAL": f"{_EVERY_SECONDS:g}",
        "SLACK_WEBHOOK_URL": webhook.url,
        "STATUS_ACTIVE": "0",
        "STATUS_IDLE": "0",
    }
    with running([programs / "gpu-monitor"], folder, {**environment, **settings}) as pid:
        until(lambda: bool(webhook.sizes), "gpuwatch's first message")
        costs = _costs(pid, size)
    return Peer(
        "gpuwatch",
        f"utilisation, memory, power, ECC, processes by five calls of {_SMI}; its status to Slack each 10 min",
        60,
        _per_sample(costs, size),
        [cost.pss_bytes / agent.MIB for cost in costs],
        webhook.sizes[-1] * _STATUS_PER_HOUR,
    )


def _gpumanager(folder: Path, programs: Path, environment: Mapping[str, str], webhook: Webhook, size: Size) -> Peer:
    config = folder / "gpumanager.toml"
    config.write_text(f'[slack]\nwebhook_url = "{webhook.url}"\n[storage]\ncsv_dir = "{folder}/csv"\n')
    command = [programs / "gpumanager", "--config", config]
    samples = [_of_child([*command, "test-sample"], environment) for _ in range(size.calls)]
    _of_child([*command, "test-report"], environment)
    work = f"utilisation alone by one call of {_SMI}; starts for each sample, one report a day to Slack"
    return Peer("gpumanager", work, 60, samples, [], webhook.sizes[-1] * _REPORTS_PER_HOUR)


def _nvitop(folder: Path, programs: Path, environment: Mapping[str, str], size: Size) -> Peer:
    port = free_port()
    command = [programs / "nvitop-exporter", "--port", str(port), "--interval", f"{_EVERY_SECONDS:g}"]
    page = f"http://127.0.0.1:{port}/metrics"
    with running(command, folder, environment) as pid:
        until(lambda: b"gpu_utilization" in _page(page), "nvitop-exporter's page")
        costs = _costs(pid, size)
        page_bytes = len(_page(page))
    return Peer(
        "nvitop-exporter",
        "the same library, without the readings that it lacks; judges and keeps nothing; scrapes are not counted",
        1,
        _per_sample(costs, size),
        [cost.pss_bytes / agent.MIB for cost in costs],
        page_bytes * _SCRAPES_PER_HOUR,
    )


def cron(folder: Path, environment: Mapping[str, str], size: Size) -> Peer:
    queries = "; ".join(f"nvidia-smi --query-{query} --format=csv,noheader,nounits" for query in QUERIES)
    command = ["sh", "-c", f"{{ date -u; {queries}; }} >> {folder}/cron.log"]
    samples = [_of_child(command, environment) for _ in range(size.calls)]
    return Peer("cron job", f"two calls of {_SMI}, into a file; sends and judges nothing", 300, samples, [], 0.0)


def build_nvidia_smi(folder: Path) -> Path:
    library = build_library()
    program, source = folder / "nvidia-smi", Path(__file__).with_name("nvidia_smi.c")
    subprocess.run(["cc", "-O1", "-o", program, source, library], check=True)
    return program


# --- how it is measured ---------------------------------------------------------------------------------------------


def _costs(pid: int, size: Size) -> list[agent.Cost]:
    """At the beginning and after each piece of time."""
    costs = [agent.cost(pid)]
    for _ in range(size.pieces):
        threading.Event().wait(size.seconds)
        costs.append(agent.cost(pid))
    return costs


def _per_sample(costs: Sequence[agent.Cost], size: Size) -> list[float]:
    samples = size.seconds / _EVERY_SECONDS
    return [(b.cpu_seconds - a.cpu_seconds) / samples for a, b in itertools.pairwise(costs)]


def _of_child(command: Sequence[str | Path], environment: Mapping[str, str]) -> float:
    """CPU seconds of a command from its start to its end, with all that it starts."""
    child = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, list(map(str, command)))
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def _webhook() -> Iterator[Webhook]:
    """Slack's incoming webhook on loopback."""
    webhook = Webhook("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            webhook.sizes.append(len(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        webhook.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield webhook
        server.shutdown()


def _page(url: str) -> bytes:
    """Empty as long as nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bytes(answer.read())
    except OSError:
        return b""
