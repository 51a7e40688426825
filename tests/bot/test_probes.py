"""What the bot says of itself: to probes, Prometheus and a dead man's switch."""

import asyncio

import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from bot.probes import Vitals, why_hung, why_not_working
from bot.probes.dead_mans_switch import DeadMansSwitch
from bot.probes.metrics import metrics_text
from tests.bot.outward import until

WELL = Vitals(is_bus_connected=True, is_database_answering=True)


def vitals(**changes):
    return Vitals(**{"is_bus_connected": True, "is_database_answering": True, **changes})


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({}, []),
        ({"is_database_answering": False}, ["the database does not answer"]),
        ({"is_bus_connected": False}, ["the bus cannot be reached"]),
        ({"read_age_seconds": 61.0}, ["windows were last read from the stream 61 s ago"]),
        ({"judged_age_seconds": 75.0}, ["open incidents were last judged 75 s ago"]),
        ({"reds": ["slack"]}, ["slack is red: see gpu-oncall check"]),
        ({"reds": ["deleted cards"]}, []),  # people are reached all the same
        ({"reds": ["slack"], "has_slack": False}, []),
        ({"waits": True, "read_age_seconds": 900.0, "judged_age_seconds": 900.0}, []),
        ({"waits": True, "is_bus_connected": False}, ["the bus cannot be reached"]),
    ],
)
def test_the_bot_works_when_it_ingests_judges_and_reaches_people(changes, reasons):
    assert why_not_working(vitals(**changes)) == reasons


@pytest.mark.parametrize(
    ("changes", "is_hung"),
    [
        ({}, False),
        ({"judged_age_seconds": 301.0}, True),
        ({"judged_age_seconds": 301.0, "is_database_answering": False}, False),  # a new start would mend nothing
        ({"judged_age_seconds": 301.0, "is_bus_connected": False}, False),
        ({"judged_age_seconds": 301.0, "waits": True}, False),
    ],
)
def test_only_what_a_new_start_can_mend_is_a_reason_for_one(changes, is_hung):
    assert (why_hung(vitals(**changes)) is not None) is is_hung


def samples(one):
    families = text_string_to_metric_families(metrics_text(one, "1.2.3").decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_prometheus_reads_the_vitals_and_what_cannot_be_told_is_not_there():
    one = vitals(
        fence=7,
        reds=["slack"],
        open_incidents={"runner": 2},
        nodes={"heard": 3, "silent": 1},
        gpus={"candidate": 8},
        counts={"windows_stored": 5},
    )
    read = samples(one)
    assert read["gpu_oncall_build", "1.2.3"] == 1
    assert read["gpu_oncall_working",] == 0  # slack is red
    assert read["gpu_oncall_fence_number",] == 7
    assert read["gpu_oncall_trouble", "slack"] == 1
    assert read["gpu_oncall_open_incidents", "runner"] == 2
    assert read["gpu_oncall_nodes", "silent"] == 1
    assert read["gpu_oncall_gpus", "candidate"] == 8
    assert read["gpu_oncall_windows_total", "stored"] == 5
    assert read["gpu_oncall_windows_total", "rejected"] == 0
    assert read["process_resident_memory_bytes",] > 0
    assert ("gpu_oncall_stream_pending_windows",) not in read
    assert ("gpu_oncall_fence_number",) not in samples(WELL)


class Switch:
    """A service that wants to be called, and counts."""

    def __init__(self):
        self.calls, self.status = 0, 200

    async def answer(self, request):
        self.calls += 1
        return web.Response(status=self.status)


@pytest.fixture
async def switch():
    service, app = Switch(), web.Application()
    app.router.add_get("/{name}", service.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/secret-ping"
    yield service
    await runner.cleanup()


async def test_the_switch_is_called_while_the_bot_works_and_never_while_it_does_not(switch, caplog):
    reasons = ["the bus cannot be reached"]

    async def why_not():
        return list(reasons)

    task = asyncio.create_task(DeadMansSwitch(switch.url, why_not).run(every_seconds=0.01))

    async def is_told():
        return "heartbeat_url is not called: the bus cannot be reached" in caplog.text

    async def is_called():
        return switch.calls > 3

    async def is_refused():
        return "heartbeat_url answers 500" in caplog.text

    await until(is_told)
    assert switch.calls == 0
    reasons.clear()
    await until(is_called)
    switch.status = 500
    await until(is_refused)
    task.cancel()
    assert "secret-ping" not in caplog.text
    assert caplog.text.count("heartbeat_url is not called") == 1


async def test_a_switch_that_cannot_be_reached_is_said_once_and_without_its_address(caplog):
    async def why_not():
        return []

    task = asyncio.create_task(DeadMansSwitch("http://127.0.0.1:9/secret-ping", why_not).run(every_seconds=0.01))

    async def is_told():
        return "heartbeat_url cannot be reached: ClientConnectorError" in caplog.text

    await until(is_told)
    task.cancel()
    assert "secret-ping" not in caplog.text
