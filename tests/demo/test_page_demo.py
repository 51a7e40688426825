"""`make demo` as everybody starts it: its page, its story, and the seconds to the first card."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.nats_server import until
from tests.programs import is_alive

pytestmark = pytest.mark.timeout(240)
PATIENCE_SECONDS = 100.0


class Shown:
    """The page of a demo that runs as a process of its own, over HTTP."""

    def __init__(self, process, session):
        self.process, self.session, self.printed = process, session, []
        self.url = self.token = ""

    async def line(self, pattern):
        """The first line that it prints with this in it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, "".join(self.printed)
                self.printed.append(line)
                if found := re.search(pattern, line):
                    return found

    async def open(self):
        self.url = (await self.line(r"http://127\.0\.0\.1:\d+"))[0]
        async with self.session.get(self.url) as answer:
            self.token = re.search(r'name="page-token" content="([^"]+)"', await answer.text())[1]

    async def ask(self, **body):
        async with self.session.post(f"{self.url}/story", json=body, headers={"X-Page-Token": self.token}) as answer:
            assert await answer.json() == {"failure": None}

    async def until(self, condition):
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            self.session.get(f"{self.url}/events?as=alice&token={self.token}") as answer,
        ):
            async for line in answer.content:
                if line.startswith(b"data: ") and condition(shown := json.loads(line[6:])):
                    return shown
        raise AssertionError("the events ended")


@asynccontextmanager
async def demo():
    command = [sys.executable, "-m", "demo", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    # A snapshot is one line, and longer than what aiohttp takes for one by itself.
    async with aiohttp.ClientSession(read_bufsize=2**22, timeout=aiohttp.ClientTimeout(None)) as session:
        shown = Shown(process, session)
        try:
            await shown.open()
            yield shown
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 60)


def done(shown):
    return sum(step["how"] == "done" for step in shown["story"]["steps"])


def cards(shown, name):
    (channel,) = (one for one in shown["channels"] if one["name"] == name)
    return [one["text"] for one in channel["messages"] if not one["thread_ts"]]


async def test_the_first_card_comes_soon_and_the_story_goes_on_when_somebody_asks_for_the_next_step():
    async with demo() as page:
        await page.ask(what="pause")
        await page.line(r"The first card is on the page, \d+ s after the start")
        shown = await page.until(lambda shown: done(shown) == 2)
        assert cards(shown, "gpu-candidates")[0].startswith("FREE gpu-03: 1 GPU free")
        await page.ask(what="next")
        shown = await page.until(lambda shown: done(shown) == 3)
        assert "Acknowledged by <@U0ALICE>" in cards(shown, "gpu-candidates")[0]
        assert "/gpu-why" in {one["command"] for one in shown["commands"]}


@pytest.mark.slow
async def test_the_story_plays_to_its_end_by_itself():
    async with demo() as page:
        await page.ask(what="speed", speed=4.0)
        await page.until(lambda shown: done(shown) == 5)
        shown = await page.until(lambda shown: done(shown) == len(shown["story"]["steps"]))
        assert cards(shown, "gpu-candidates")[0].startswith("OVER gpu-03")
        texts = cards(shown, "gpu-oncall")
        assert [text.partition(" gpu-02 chat")[0] for text in texts] == ["RECOVERED", "DONE"]


@pytest.mark.parametrize("port", ["99999", "-1", "x"])
def test_a_port_that_is_none_is_refused_before_anything_starts(port):
    done = subprocess.run([sys.executable, "-m", "demo", "--port", port], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert f"{port!r} is no port" in done.stderr


def session_of(pid):
    with contextlib.suppress(OSError):  # it has ended meanwhile
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    return None


def still_there(session):
    """The command lines of all that a demo in a session of its own has left behind."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [command_line(pid) for pid in pids if session_of(pid) == session and is_alive(pid)]


def command_line(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@asynccontextmanager
async def demo_in_a_session(folder, *arguments):
    """What it says goes into a file: a pipe would stay open for as long as anything that it left behind."""
    (folder / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-m", "demo", *arguments]
    with (folder / "said").open("wb") as said:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # the others end with it
        await process.wait()


async def test_a_demo_without_a_port_for_its_page_says_so_and_leaves_nothing_behind(tmp_path):
    with socket.socket() as last:
        with contextlib.suppress(OSError):  # another program's is as good
            last.bind(("127.0.0.1", 65535))
            last.listen()
        async with demo_in_a_session(tmp_path, "--port", "65535") as process:
            assert await asyncio.wait_for(process.wait(), PATIENCE_SECONDS) == 1
            assert still_there(process.pid) == []
    assert "The page found no free port: 65535 is in use" in (tmp_path / "said").read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
async def test_who_ends_the_demo_again_and_again_leaves_nothing_behind_either(tmp_path, number):
    async with demo_in_a_session(tmp_path, "--port", "0") as process:
        await until(lambda: len(still_there(process.pid)) == 6, "demo, sleep, bot and three agents", PATIENCE_SECONDS)
        while process.returncode is None:
            process.send_signal(number)
            await asyncio.sleep(0.1)
        assert still_there(process.pid) == []
        assert process.returncode in (130, -number)  # one more signal may come when all is done
    assert "Traceback" not in (tmp_path / "said").read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


async def test_nothing_runs_on_after_a_demo_that_was_killed(tmp_path):
    async with demo_in_a_session(tmp_path, "--port", "0") as process:
        await until(lambda: len(still_there(process.pid)) == 6, "demo, sleep, bot and three agents", PATIENCE_SECONDS)
        process.kill()
        await until(lambda: not still_there(process.pid), "all have ended", PATIENCE_SECONDS)


async def test_who_ends_the_demo_while_it_is_loaded_sees_no_traceback():
    command = [sys.executable, "-X", "importtime", "-m", "demo", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while b" argparse\n" not in await process.stderr.readline():
            assert process.returncode is None
        process.send_signal(signal.SIGINT)
        said = await process.stderr.read()
        assert await process.wait() == -signal.SIGINT
    assert b"Traceback" not in said
