"""The spool on a real disk: order, bounds, kill -9, damage and a full disk."""

import asyncio
import contextlib
import logging
import re
import sqlite3
import sys

import pytest

from agent.spool import Spool, SpoolError
from tests.full_disk import no_file_larger_than
from tests.nats_server import until

MIB = 1024 * 1024


@contextlib.asynccontextmanager
async def opened(folder, max_bytes=MIB):
    spool = Spool(folder, max_bytes)
    try:
        await spool.open()
        yield spool
    finally:
        await spool.close()


def body(epoch: str, seq: int) -> bytes:
    return f"{epoch} {seq}".encode()


async def add(spool: Spool, count: int = 1, size_bytes: int = 0) -> None:
    for _ in range(count):
        await spool.append(lambda epoch, seq: body(epoch, seq).ljust(size_bytes), b"open")


async def drained(spool: Spool) -> list[int]:
    seqs = []
    while (row := await spool.oldest()) is not None:
        assert row.body.split() == body(row.epoch, row.seq).split()
        seqs.append(row.seq)
        await spool.delete(row)
    return seqs


async def test_reports_come_out_in_the_order_in_which_they_went_in(tmp_path):
    async with opened(tmp_path) as spool:
        assert (await spool.oldest(), spool.last_seq) == (None, 0)
        await add(spool, 5)
        assert spool.appended.is_set()
        assert await drained(spool) == [1, 2, 3, 4, 5]


async def test_a_restart_keeps_reports_epoch_and_numbers(tmp_path):
    async with opened(tmp_path) as spool:
        await add(spool, 3)
        await spool.delete(await spool.oldest())
        epoch = spool.epoch
    async with opened(tmp_path) as spool:
        assert (spool.epoch, spool.last_seq) == (epoch, 3)
        assert not (await spool.oldest()).is_new
        assert await drained(spool) == [2, 3]
        await add(spool)
        assert (await spool.oldest()).is_new
        assert await drained(spool) == [4]


async def test_an_epoch_is_128_random_bits_in_a_file_of_the_owner(tmp_path):
    epochs = set()
    for name in "abc":
        (tmp_path / name).mkdir()
        async with opened(tmp_path / name) as spool:
            epochs.add(spool.epoch)
            assert {path.stat().st_mode & 0o777 for path in (tmp_path / name).iterdir()} == {0o600}
    assert len(epochs) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", epoch) for epoch in epochs)


async def test_a_report_and_the_open_window_after_it_are_written_together_or_not_at_all(tmp_path):
    def fail(epoch, seq):
        raise ValueError("no body")

    async with opened(tmp_path) as spool:
        assert await spool.open_window() is None
        await spool.append(body, b"window 8")
        with pytest.raises(ValueError, match="no body"):
            await spool.append(fail, b"window 9")
        assert await spool.open_window() == b"window 8"
        await spool.keep_open_window(b"window 8, more GPUs")
        assert await drained(spool) == [1]
    async with opened(tmp_path) as spool:
        assert await spool.open_window() == b"window 8, more GPUs"


async def test_when_it_is_full_the_oldest_go_the_gap_shows_and_it_is_said_once(tmp_path, caplog):
    async with opened(tmp_path, 10_000) as spool:
        await add(spool, 25, size_bytes=1000)
        assert await drained(spool) == list(range(16, 26))
        assert spool.last_seq == 25
    assert caplog.text.count("spool full") == 1


async def test_a_report_that_is_larger_than_the_whole_spool_is_kept_alone(tmp_path):
    async with opened(tmp_path, 1000) as spool:
        await add(spool, 2, size_bytes=2000)
        assert await drained(spool) == [2]


async def test_a_row_of_an_earlier_epoch_deletes_nothing(tmp_path):
    async with opened(tmp_path) as spool:
        await add(spool)
        row = await spool.oldest()
        (tmp_path / "other").mkdir()
        async with opened(tmp_path / "other") as other:
            await add(other)
            await other.delete(row)
            assert await drained(other) == [1]


def spoil_head(path):
    with path.open("r+b") as file:
        file.write(b"not a database at all")


def spoil_pages(path):
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def spoil_all(path):
    path.write_bytes(b"hello")


def of_another_version(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")


def without_epoch(path):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM facts WHERE name = 'epoch'")


@pytest.mark.parametrize("spoil", [spoil_head, spoil_pages, spoil_all, of_another_version, without_epoch])
async def test_a_damaged_file_is_moved_aside_never_deleted_and_a_new_epoch_begins(tmp_path, spoil, caplog):
    async with opened(tmp_path) as spool:
        await add(spool, 100, size_bytes=200)
        epoch = spool.epoch
    spoil(tmp_path / "spool.db")
    spoiled = (tmp_path / "spool.db").read_bytes()
    async with opened(tmp_path) as spool:
        assert spool.epoch != epoch
        assert spool.last_seq == 0
        await add(spool)
        assert await drained(spool) == [1]
    assert (tmp_path / "spool.db.damaged-1").read_bytes() == spoiled
    assert caplog.text.count("spool damaged") == 1


async def test_a_second_damaged_file_does_not_overwrite_the_first(tmp_path):
    for _ in range(2):
        async with opened(tmp_path) as spool:
            await add(spool)
        spoil_all(tmp_path / "spool.db")
    async with opened(tmp_path):
        assert (tmp_path / "spool.db.damaged-1").exists()
        assert (tmp_path / "spool.db.damaged-2").exists()


async def test_a_full_disk_is_an_error_that_costs_no_number_and_moves_nothing_aside(tmp_path):
    async with opened(tmp_path) as spool:
        await add(spool, 2)
        with no_file_larger_than(64 * 1024), pytest.raises(SpoolError, match=r"spool\.db cannot be used"):
            await add(spool, 1, size_bytes=200_000)
        await add(spool)
        assert await drained(spool) == [1, 2, 3]
    assert not list(tmp_path.glob("*damaged*"))


async def test_a_folder_that_is_not_there_is_an_error_with_its_path(tmp_path):
    with pytest.raises(SpoolError, match=r"missing/spool\.db cannot be used"):
        async with opened(tmp_path / "missing"):
            pass


ENDLESS = """
import asyncio, sys
from pathlib import Path
from agent.spool import Spool

async def main():
    spool = Spool(Path(sys.argv[1]), 1 << 30)
    await spool.open()
    while True:
        seq = await spool.append(lambda epoch, seq: f"{epoch} {seq}".encode(), b"open")
        print(seq, flush=True)

asyncio.run(main())
"""


async def test_after_kill_9_every_report_that_was_confirmed_is_there_without_a_gap(tmp_path):
    confirmed = 0
    for enough in (50, 120, 170):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ENDLESS, tmp_path, stdout=asyncio.subprocess.PIPE
        )
        while confirmed < enough:
            confirmed = int(await writer.stdout.readline())
        writer.kill()
        rest = await writer.stdout.read()
        await writer.wait()
        confirmed = max([confirmed, *map(int, rest.split(b"\n")[:-1])])
        async with opened(tmp_path) as spool:
            assert spool.last_seq in (confirmed, confirmed + 1)
    async with opened(tmp_path) as spool:
        assert await drained(spool) == list(range(1, spool.last_seq + 1))


async def test_a_slow_disk_does_not_stop_the_event_loop(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with opened(tmp_path) as spool:
        with contextlib.closing(sqlite3.connect(tmp_path / "spool.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            waiting = asyncio.create_task(spool.append(body, b"open"))
            turns = 0
            while turns < 100:
                await asyncio.sleep(0.001)
                turns += 1
            assert not waiting.done()
            other.execute("ROLLBACK")
        await until(waiting.done, "the report is written")
        assert await waiting == 1
