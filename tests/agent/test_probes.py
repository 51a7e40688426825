"""What the agent says of itself, and what of it means that it hangs."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent.observe import Latest
from agent.probes import metrics_text, probed
from agent.spool import SpoolError
from agent.vitals import Gatherer, Vitals, why_hung, why_not_working
from tests.agent.build_samples import held, idle, sample
from tests.http_page import page


class Bus:
    is_connected = True


class SilentSpool:
    async def waiting(self):
        raise SpoolError("the disk does not answer")


def gatherer(spool, latest, now_seconds):
    return Gatherer(Bus(), spool, lambda: latest[-1], lambda: now_seconds[-1], patience_seconds=60)


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        ({"sample_age_seconds": None}, ["nothing was sampled yet"]),
        ({"sample_failed": True}, ["the latest sample failed: see gpu-oncall-agent check"]),
        ({"is_bus_connected": False}, ["the bus cannot be reached: reports wait in the spool"]),
        ({"spool_reports": None}, ["the spool does not answer"]),
    ],
)
def test_the_agent_works_when_gpus_are_read_and_the_bus_hears_of_them(changes, reasons):
    well = {"is_bus_connected": True, "sample_age_seconds": 3.0, "spool_reports": 0}
    assert list(why_not_working(Vitals(**{**well, **changes}))) == reasons


@pytest.mark.parametrize(("age", "running", "is_hung"), [(59.0, 900.0, False), (61.0, 900.0, True), (None, 61.0, True)])
def test_only_samples_that_are_not_even_tried_are_a_reason_for_a_new_start(age, running, is_hung):
    assert (why_hung(Vitals(True, age, sample_failed=True), running, 60.0) is not None) is is_hung


async def test_pages_tell_a_sampling_agent_from_one_that_hangs(spool):
    latest, now_seconds = [Latest(sample(idle(), held(1)), 100.0)], [107.5]
    await spool.append(lambda epoch, seq: b"body", b"window")
    with probed(gatherer(spool, latest, now_seconds), ("127.0.0.1", 0)) as port:
        assert await page(port, "/healthz") == (200, "ok\n")
        assert await page(port, "/readyz") == (200, "ok\n")
        read = samples((await page(port, "/metrics"))[1])
        now_seconds.append(161.0)
        assert await page(port, "/healthz") == (503, "no sample was taken for 61 s\n")
    assert read["gpu_oncall_agent_sample_age_seconds",] == 7.5
    assert read["gpu_oncall_agent_spool_reports",] == 1
    assert read["gpu_oncall_agent_spool_bytes",] == 4
    assert read["gpu_oncall_agent_gpus", "candidate"] == 1
    assert read["gpu_oncall_agent_gpus", "held"] == 1


async def test_what_cannot_be_told_is_not_on_the_page(spool):
    latest = [None]
    read = samples(metrics_text(await gatherer(spool, latest, [1.0]).vitals()).decode())
    assert ("gpu_oncall_agent_sample_age_seconds",) not in read
    assert read["gpu_oncall_agent_gpus", "candidate"] == 0
    assert (await gatherer(SilentSpool(), latest, [1.0]).vitals()).spool_reports is None


def samples(text):
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}
