"""The collector dcgm on a page served over loopback, with the processes from somewhere else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.collectors import COLLECTORS
from agent.collectors.dcgm import LARGEST_PAGE_BYTES, DcgmCollector
from agent.collectors.dcgm_page import BadPageError, parse_page
from agent.config import AgentConfig, Dcgm, load
from agent.reading import GpuReading, Sweep, Unreadable
from agent.verdicts import RuleSettings, judge_sweep
from tests.agent.build_readings import GOOD_VIEW, MIB, compute, idle_gpu, sweep_of, uuid_of
from tests.agent.command import write_config
from wire.configfile import ConfigError
from wire.messages import Verdict

A, B = uuid_of(0), uuid_of(1)
LONG = timedelta(seconds=20)


def line(name: str, uuid: str, value: str) -> str:
    labels = f'gpu="0",UUID="{uuid}",pci_bus_id="00000000:19:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3"'
    return f"DCGM_FI_DEV_{name}{{{labels}}} {value}\n"


def page_of(uuid: str = A, utilization: str = "0", used: str = "0", power: str = "71.213") -> str:
    head = "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
    values = [("GPU_UTIL", utilization), ("FB_USED", used), ("FB_FREE", "81079"), ("POWER_USAGE", power)]
    return head + "".join(line(name, uuid, value) for name, value in values)


class Exporter:
    """Answers every request with `answer`."""

    def __init__(self) -> None:
        self.url = ""
        self.asked = ""
        self.answer = b""

    def show(self, page: str, status: str = "200 OK", length: int | None = None) -> None:
        body = page.encode()
        sent_length = len(body) if length is None else length
        self.answer = f"HTTP/1.0 {status}\r\nContent-Length: {sent_length}\r\n\r\n".encode() + body

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked = (await reader.readuntil(b"\r\n\r\n")).decode()
        writer.write(self.answer)
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()


@pytest.fixture
async def exporter() -> AsyncIterator[Exporter]:
    exporter = Exporter()
    server = await asyncio.start_server(exporter.handle, "127.0.0.1", 0)
    exporter.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
    yield exporter
    server.close()


class Inner:
    """Who lists the processes."""

    name = "inner"

    def __init__(self, sweep: Sweep) -> None:
        self.result = sweep
        self.closed = False

    async def sweep(self) -> Sweep:
        return self.result

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def collecting(
    exporter: Exporter, *gpus: GpuReading, interval: timedelta = LONG, deadline: timedelta = LONG
) -> AsyncIterator[DcgmCollector]:
    inner = Inner(sweep_of(*(gpus or [idle_gpu(0)])))
    collector = DcgmCollector(inner, exporter.url, interval, deadline)
    yield collector
    await collector.close()
    assert inner.closed


def verdicts(sweep: Sweep) -> list[Verdict]:
    assert sweep.error is None
    return [gpu.verdict for gpu in judge_sweep(sweep, GOOD_VIEW, {}, RuleSettings()).gpus]


async def test_a_gpu_that_both_sources_call_idle_is_a_candidate(exporter: Exporter) -> None:
    exporter.show(page_of())
    async with collecting(exporter) as collector:
        assert verdicts(await collector.sweep()) == [Verdict.CANDIDATE]
    assert exporter.asked.startswith("GET /metrics HTTP/1.0\r\n")


USED: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"utilization": "7"}, {}),
    ({"used": "1"}, {}),
    ({"used": "0.25"}, {}),
    ({}, {"utilization_percent": 7}),
    ({}, {"memory_used_bytes": 1}),
    ({}, {"compute": compute(5)}),
]


@pytest.mark.parametrize(("page", "reading"), USED)
async def test_what_either_source_says_holds_the_gpu(
    exporter: Exporter, page: dict[str, str], reading: dict[str, Any]
) -> None:
    exporter.show(page_of(**page))
    async with collecting(exporter, idle_gpu(0, **reading)) as collector:
        assert verdicts(await collector.sweep()) == [Verdict.HELD]


async def test_the_larger_memory_is_the_one_that_is_told(exporter: Exporter) -> None:
    exporter.show(page_of(used="1.6384e+04"))
    async with collecting(exporter, idle_gpu(0, memory_used_bytes=5)) as collector:
        assert (await collector.sweep()).gpus[0].memory_used_bytes == 16384 * MIB


async def test_an_unreadable_value_stays_unreadable_whatever_the_page_says(exporter: Exporter) -> None:
    exporter.show(page_of())
    async with collecting(exporter, idle_gpu(0, utilization_percent=Unreadable("[N/A]"))) as collector:
        assert verdicts(await collector.sweep()) == [Verdict.UNKNOWN]


async def test_a_gpu_that_the_page_does_not_have_is_unknown(exporter: Exporter) -> None:
    exporter.show(page_of())
    async with collecting(exporter, idle_gpu(0), idle_gpu(1)) as collector:
        assert verdicts(await collector.sweep()) == [Verdict.CANDIDATE, Verdict.UNKNOWN]


async def test_a_page_of_another_node_is_an_error(exporter: Exporter) -> None:
    exporter.show(page_of() + line("GPU_UTIL", uuid_of(9), "0"))
    async with collecting(exporter) as collector:
        assert uuid_of(9) in ((await collector.sweep()).error or "")


async def test_a_page_that_does_not_move_becomes_unknown_and_heals(exporter: Exporter) -> None:
    exporter.show(page_of())
    async with collecting(exporter, interval=timedelta(milliseconds=30)) as collector:
        assert verdicts(await collector.sweep()) == [Verdict.CANDIDATE]
        async with asyncio.timeout(30):
            while verdicts(sweep := await collector.sweep()) == [Verdict.CANDIDATE]:
                await asyncio.sleep(0.005)
        assert verdicts(sweep) == [Verdict.UNKNOWN]
        assert isinstance(sweep.gpus[0].memory_used_bytes, Unreadable)
        exporter.show(page_of(power="71.214"))
        assert verdicts(await collector.sweep()) == [Verdict.CANDIDATE]


async def test_a_page_is_fresh_for_three_intervals(exporter: Exporter) -> None:
    exporter.show(page_of())
    async with collecting(exporter, interval=timedelta(hours=1)) as collector:
        for _ in range(3):
            assert verdicts(await collector.sweep()) == [Verdict.CANDIDATE]


async def test_the_error_of_the_process_list_is_the_sweeps(exporter: Exporter) -> None:
    exporter.show(page_of())
    collector = DcgmCollector(Inner(Sweep(error="no driver")), exporter.url, LONG, LONG)
    assert (await collector.sweep()).error == "no driver"


BAD_ANSWERS = [
    (b"", "in place of a page"),
    (b"HTTP/1.0 503 Service Unavailable\r\n\r\nDCGM down\n", "503"),
    (b"nonsense", "in place of a page"),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 9999\r\n\r\n" + page_of().encode(), "cut off"),
    (b"HTTP/1.0 200 OK\r\n\r\n" + page_of().encode()[:-1], "middle of a line"),
    (b"HTTP/1.0 200 OK\r\n\r\n<html></html>\n", "is it a dcgm-exporter's"),
    (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * (LARGEST_PAGE_BYTES + 1), "longer than"),
]


@pytest.mark.parametrize(("answer", "said"), BAD_ANSWERS, ids=range(len(BAD_ANSWERS)))
async def test_an_answer_that_is_no_page_is_an_error(exporter: Exporter, answer: bytes, said: str) -> None:
    exporter.answer = answer
    async with collecting(exporter) as collector:
        assert said in ((await collector.sweep()).error or "")


async def test_an_exporter_that_does_not_answer_is_an_error_in_time(exporter: Exporter) -> None:
    silent = asyncio.Event()

    async def hold(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    exporter.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with collecting(exporter, deadline=timedelta(seconds=0.2)) as collector:
        assert "did not answer in time" in ((await collector.sweep()).error or "")
    silent.set()
    server.close()


async def test_no_exporter_at_all_is_an_error() -> None:
    collector = DcgmCollector(Inner(sweep_of(idle_gpu(0))), "http://127.0.0.1:1/metrics", LONG, LONG)
    assert "the dcgm-exporter cannot be used" in ((await collector.sweep()).error or "")


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "0x0", "", "N/A", "1e999", "9223372036854775794"])
def test_a_value_that_is_no_plain_number_is_an_error(value: str) -> None:
    with pytest.raises(BadPageError):
        parse_page(page_of(utilization=value))


@pytest.mark.parametrize("bad", ["DCGM_FI_DEV_GPU_UTIL 0\n", 'DCGM_FI_DEV_FB_USED{gpu="0"} 0\n'])
def test_a_line_that_belongs_to_no_gpu_is_an_error(bad: str) -> None:
    with pytest.raises(BadPageError, match="cannot be read"):
        parse_page(page_of() + bad)


def test_of_several_lines_of_one_gpu_the_highest_counts() -> None:
    page = parse_page(page_of() + line("GPU_UTIL", A, "40") + line("GPU_UTIL", A, "3"))
    assert page.utilization_percent == {A: 40}


def test_the_collector_is_made_from_the_config(tmp_path: Path) -> None:
    config = load(write_config(tmp_path, collector="dcgm", dcgm="{processes: nvidia-smi, collect_interval: 10s}"))
    assert config.dcgm == Dcgm(collect_interval=config.dcgm.collect_interval, processes="nvidia-smi")
    assert COLLECTORS["dcgm"](config).name == "dcgm"
    assert COLLECTORS["dcgm"](AgentConfig()).name == "dcgm"


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://user:secret@127.0.0.1/metrics", "127.0.0.1:9400", '""'])
def test_a_url_that_cannot_be_used_is_a_mistake_in_the_config(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"dcgm\.url") as error:
        load(write_config(tmp_path, collector="dcgm", dcgm=f"{{url: {url}}}"))
    assert "secret" not in str(error.value)
