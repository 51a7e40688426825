"""Vitals as Prometheus reads them. docs/metrics.md says what each one means."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bot.probes.vitals import Vitals, why_not_working

PREFIX = "gpu_oncall"
_COUNTERS: Mapping[str, tuple[str, str, str]] = {
    "windows_stored": ("windows", "stored", "Windows of nodes that came from the stream."),
    "windows_known_already": ("windows", "known_already", ""),
    "windows_rejected": ("windows", "rejected", ""),
    "windows_over_limit": ("windows", "over_limit", ""),
    "heartbeats_heard": ("heartbeats", "heard", "Heartbeats of nodes."),
    "heartbeats_refused": ("heartbeats", "refused", ""),
    "heartbeats_over_limit": ("heartbeats", "over_limit", ""),
}


def metrics_text(vitals: Vitals, version: str) -> bytes:
    """The text format, with this process's own memory, CPU time and file handles."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Families(vitals, version))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, vitals: Vitals, version: str) -> None:
        self._vitals = vitals
        self._version = version

    def collect(self) -> Iterator[Metric]:
        yield _labelled("build", "Always 1; the version is its label.", "version", {self._version: 1})
        yield from _gauges(self._vitals)
        yield from _counters(self._vitals.counts)
        yield _labelled("open_incidents", "Incidents that are open now.", "kind", self._vitals.open_incidents)
        yield _labelled("nodes", "Nodes by whether a heartbeat came within 3 minutes.", "state", self._vitals.nodes)
        yield _labelled("gpus", "GPUs by their latest sample's verdict.", "verdict", self._vitals.gpus)
        reds = dict.fromkeys(self._vitals.reds, 1)
        yield _labelled("trouble", "1 while something on the way to people is red.", "name", reds)


def _gauges(vitals: Vitals) -> Iterator[Metric]:
    works = not vitals.waits and not why_not_working(vitals)
    values: list[tuple[str, str, float | None]] = [
        ("working", "1 while this bot ingests, judges and reaches people.", works),
        ("waiting", "1 while another bot works and this one stands by.", vitals.waits),
        ("fence_number", "Number of the lease (or start) that this bot works under.", vitals.fence),
        ("bus_connected", "1 while the bus can be reached.", vitals.is_bus_connected),
        ("database_answering", "1 while the database answers.", vitals.is_database_answering),
        ("stream_read_age_seconds", "Since the stream was last read.", vitals.read_age_seconds),
        ("judged_age_seconds", "Since open incidents were last judged.", vitals.judged_age_seconds),
        ("stream_pending_windows", "Windows in the stream that are not stored yet.", vitals.pending),
        ("stream_oldest_pending_seconds", "Age of the oldest of them, at most.", vitals.oldest_pending_seconds),
        ("stream_bytes", "What the stream holds.", vitals.stream_bytes),
        ("stream_max_bytes", "What the stream may hold.", vitals.stream_max_bytes),
        ("outbox_waiting_messages", "Messages that should be in Slack by now.", vitals.outbox_waiting),
        ("outbox_oldest_seconds", "Since when the oldest of them waits.", vitals.outbox_oldest_seconds),
        (
            "node_clock_skew_max_seconds",
            "The wall clock that differs most from the bot's.",
            vitals.clock_skew_max_seconds,
        ),
    ]
    for name, said, value in values:
        if value is not None:  # what cannot be told is not there; it is never 0
            yield GaugeMetricFamily(f"{PREFIX}_{name}", said, value=float(value))


def _counters(counts: Mapping[str, int]) -> Iterator[Metric]:
    families: dict[str, CounterMetricFamily] = {}
    for key, (name, outcome, said) in _COUNTERS.items():
        if name not in families:
            families[name] = CounterMetricFamily(f"{PREFIX}_{name}", said, labels=["outcome"])
        families[name].add_metric([outcome], counts.get(key, 0))
    yield from families.values()


def _labelled(name: str, said: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", said, labels=[label])
    for value, count in sorted(values.items()):
        family.add_metric([value], count)
    return family
