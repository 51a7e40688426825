"""The agent's pages, /healthz, /readyz and /metrics: loaded only where the config wants them."""

import contextlib
from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, ProcessCollector, generate_latest

from agent.vitals import Gatherer, Vitals, why_not_working
from wire.pages import Page, pages

PREFIX = "gpu_oncall_agent"


@contextlib.contextmanager
def probed(gatherer: Gatherer, listen: tuple[str, int]) -> Iterator[int]:
    """Serves the pages until the end of the block; gives their port, 0 where it is taken."""

    async def healthz() -> Page:
        why = gatherer.hung()
        return _page([why] if why else [])

    async def readyz() -> Page:
        return _page(list(why_not_working(await gatherer.vitals())))

    async def metrics() -> Page:
        return Page(200, metrics_text(await gatherer.vitals()), CONTENT_TYPE_LATEST)

    with pages(listen, {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}) as port:
        yield port


def metrics_text(vitals: Vitals) -> bytes:
    """Prometheus' text format, with this process's own memory, CPU time and file handles."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    values: list[tuple[str, str, float | None]] = [
        ("bus_connected", "1 while the bus can be reached.", vitals.is_bus_connected),
        ("sample_age_seconds", "Since the latest sample of the GPUs was begun.", vitals.sample_age_seconds),
        ("sample_failed", "1 while the latest sample is an error: nothing is concluded.", vitals.sample_failed),
        ("spool_reports", "Reports on disk that the bus has not taken.", vitals.spool_reports),
        ("spool_bytes", "Their size.", vitals.spool_bytes),
    ]
    for name, said, value in values:
        if value is not None:  # what cannot be told is not there; it is never 0
            Gauge(f"{PREFIX}_{name}", said, registry=registry).set(float(value))
    gpus = Gauge(f"{PREFIX}_gpus", "GPUs by their latest sample's verdict.", ["verdict"], registry=registry)
    for verdict in ("candidate", "held", "unknown"):
        gpus.labels(verdict).set(vitals.gpus.get(verdict, 0))
    return generate_latest(registry)


def _page(reasons: list[str]) -> Page:
    lines = "".join(f"{reason}\n" for reason in reasons)
    return Page(503, lines.encode()) if reasons else Page(200, b"ok\n")
