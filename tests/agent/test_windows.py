"""Windows on their way to the disk: one that refuses is said once, stops nothing, and is used again later."""

import asyncio
import contextlib
import logging

import msgspec

from agent.observe import GpuName, Reporter
from agent.record import Record
from agent.sample import Turn
from agent.spool import Spool
from agent.windows import WindowKeeper, kept_window
from tests.agent.build_samples import closed, idle, sample, window
from tests.agent.test_spool import no_file_larger_than
from tests.build import gpu_uuid
from tests.nats_server import until
from wire import subjects
from wire.messages import decode_observation

TURN = Turn(closed(*[sample(idle())] * 30), window(8, last_closed=7))


@contextlib.asynccontextmanager
async def keeping(spool: Spool, record: Record, woken: asyncio.Event):
    turns: asyncio.Queue[Turn] = asyncio.Queue()
    keeper = WindowKeeper(spool, record, Reporter("gpu-01", "0.1.0", "nvml"), woken.set)
    task = asyncio.create_task(keeper.run(turns))
    yield turns
    assert not task.done(), task
    task.cancel()
    await asyncio.wait({task})


async def test_a_closed_window_is_spooled_recorded_and_told(tmp_path, spool):
    woken = asyncio.Event()
    async with keeping(spool, Record(tmp_path, 100_000, 2), woken) as turns:
        turns.put_nowait(TURN)
        await asyncio.wait_for(turns.join(), 20)
    row = await spool.oldest()
    report = decode_observation(subjects.observations("gpu-01"), row.body)
    assert (report.window_number, report.seq, report.spool_epoch) == (7, 1, spool.epoch)
    assert '"window":7' in (tmp_path / "windows.jsonl").read_text()
    assert woken.is_set()
    assert await kept_window(spool) == window(8, last_closed=7)


async def test_the_gpus_of_an_open_window_are_kept_without_a_report(tmp_path, spool):
    grown = window(8, gpus=(GpuName(0, gpu_uuid(0)),))
    async with keeping(spool, Record(tmp_path, 100_000, 2), asyncio.Event()) as turns:
        turns.put_nowait(Turn(None, grown))
        await asyncio.wait_for(turns.join(), 20)
    assert (await kept_window(spool), await spool.oldest()) == (grown, None)


async def test_a_full_disk_is_said_once_and_later_windows_are_kept_again(tmp_path, spool, caplog):
    caplog.set_level(logging.INFO)
    woken = asyncio.Event()
    async with keeping(spool, Record(tmp_path, 100_000, 2), woken) as turns:
        with no_file_larger_than(0):
            for _ in range(3):
                turns.put_nowait(TURN)
            await asyncio.wait_for(turns.join(), 20)
        assert woken.is_set()
        turns.put_nowait(TURN)
        await until(lambda: "record can be written again" in caplog.text, "that the disk is used again")
    assert spool.last_seq == 1
    assert caplog.text.count("spool cannot be written") == 1
    assert caplog.text.count("record cannot be written") == 1
    assert caplog.text.count("spool can be written again") == 1


async def test_an_open_window_that_cannot_be_read_is_said_and_left_out(spool, caplog):
    assert await kept_window(spool) is None
    await spool.keep_open_window(msgspec.json.encode({"number": "seven"}))
    assert await kept_window(spool) is None
    assert "the open window of the last run cannot be read" in caplog.text
