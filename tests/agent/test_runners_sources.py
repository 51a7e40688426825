"""Generic sources: one number, or a reason why there is none; nothing that fails is 0, and nothing counts twice."""

import os
import sys
from pathlib import Path

import pytest

from agent.runner_config import HttpJson, Log, Prometheus, Source
from agent.runners import sources
from agent.runners.sources import CommandSource, LogSource, Unread, source_of
from tests.agent.answering import Reply, answering


async def read(config: Source, state=None):
    source = source_of(config, None, 65536, state)
    return await source.read()


@pytest.mark.parametrize(("text", "value"), [("42", 42), (" 7 \n", 7), ("3.5e2", 350), ("-1", -1), ("0", 0)])
async def test_a_file_with_a_number_is_that_number(tmp_path, text, value):
    (tmp_path / "n").write_text(text)
    assert await read(Source(file=tmp_path / "n")) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("\n", "empty"),
        ("nan", "not hold one number"),
        ("inf", "not hold one number"),
        ("12 13", "not hold one number"),
        ("step 12", "not hold one number"),
        ("9" * 17, "not hold one number"),
        ("1e300", "usable size"),
        ("1" + " " * 5000, "not hold one number"),
        ("١٢", "not hold one number"),
    ],
)
async def test_a_file_that_holds_no_plain_number_is_not_read(tmp_path, text, why):
    (tmp_path / "n").write_text(text)
    assert why in (await read(Source(file=tmp_path / "n"))).why


async def test_a_file_that_is_not_there_is_not_read(tmp_path):
    assert await read(Source(file=tmp_path / "n")) == Unread("there is no such file or folder")
    (tmp_path / "d").mkdir()
    assert isinstance(await read(Source(file=tmp_path / "d")), Unread)


async def test_a_file_that_hangs_hangs_nobody_and_is_not_opened_again(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    source = source_of(Source(file=tmp_path / "pipe"), None, 65536)
    source._off_loop, number = _Hasty(source._off_loop), source._number
    opened = []
    source._number = lambda: opened.append(1) or number()
    assert "no answer within" in (await source.read()).why
    assert "not returned yet" in (await source.read()).why
    assert len(opened) == 1
    (tmp_path / "pipe").open("w").close()  # lets the thread end


class _Hasty:
    """The same, with a shorter deadline."""

    def __init__(self, off_loop):
        self._off_loop = off_loop

    async def read(self, work, _):
        return await self._off_loop.read(work, 0.2)


async def test_matching_files_are_counted_and_a_missing_folder_is_not_0(tmp_path):
    for name in ("a.json", "b.json", "c.txt"):
        (tmp_path / name).write_text("")
    assert await read(Source(files=f"{tmp_path}/*.json")) == 2
    assert await read(Source(files=f"{tmp_path}/*.png")) == 0
    assert isinstance(await read(Source(files=f"{tmp_path}/gone/*.json")), Unread)


class Written:
    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)


async def test_lines_of_a_log_are_counted_from_the_first_look_on(tmp_path):
    log = Written(tmp_path / "log")
    log.add("done 1\ndone 2\n")
    source = LogSource(log.path, "done", None)
    assert await source.read() == 0
    log.add("done 3\nother\ndone 4\n")
    assert await source.read() == 2
    assert await source.read() == 2


async def test_a_line_that_is_half_written_counts_once_and_when_it_is_whole(tmp_path):
    log = Written(tmp_path / "log")
    log.add("x\n")
    source = LogSource(log.path, "done$", None)
    await source.read()
    log.add("do")
    assert await source.read() == 0
    log.add("ne\n")
    assert await source.read() == 1


@pytest.mark.parametrize("how", ["moved", "truncated"])
async def test_a_rotated_log_goes_on_counting_and_falls_nowhere(tmp_path, how):
    log = Written(tmp_path / "log")
    log.add("x\n" * 100)
    source = LogSource(log.path, "done", None)
    await source.read()
    log.add("done\n" * 3)
    assert await source.read() == 3
    if how == "moved":
        log.path.rename(tmp_path / "log.1")
    else:
        log.path.write_text("")
    log.add("done\n")
    assert await source.read() == 4


async def test_a_restart_of_the_agent_counts_what_was_written_meanwhile_once(tmp_path):
    log = Written(tmp_path / "log")
    log.add("x\n")
    first = LogSource(log.path, "done", None)
    await first.read()
    log.add("done\n")
    await first.read()
    log.add("done\n")
    second = LogSource(log.path, "done", first.state)
    assert await second.read() == 2


async def test_a_log_that_is_away_is_not_read_and_keeps_its_place(tmp_path):
    log = Written(tmp_path / "log")
    log.add("x\n")
    source = LogSource(log.path, "done", {"offset": "nonsense"})
    await source.read()
    log.path.rename(tmp_path / "away")
    assert isinstance(await source.read(), Unread)
    (tmp_path / "away").rename(log.path)
    log.add("done\n")
    assert await source.read() == 1


JOURNALCTL = """#!{python}
import pathlib, sys
lines = pathlib.Path({journal!r}).read_text().splitlines()
after = next((a.split("=", 1)[1] for a in sys.argv if a.startswith("--after-cursor=")), None)
shown = [] if after is None else lines[int(after[1:]):]
print(*shown, sep="\\n", end="\\n" if shown else "")
if shown or after is None:
    print(f"-- cursor: c{{len(lines)}}")
"""


async def test_the_journal_of_a_unit_is_counted_by_its_cursor(tmp_path, monkeypatch):
    """journalctl is played by a program with its interface: there is no journal on a test machine."""
    journal = Written(tmp_path / "journal")
    program = tmp_path / "journalctl"
    program.write_text(JOURNALCTL.format(python=sys.executable, journal=str(journal.path)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    journal.add('[GIN] | 200 | POST "/api/chat"\n')
    config = Source(log=Log(match=r'200 .*POST "/api/', systemd_unit="ollama.service"))
    source = source_of(config, None, 65536)
    assert await source.read() == 0
    journal.add('[GIN] | 200 | POST "/api/generate"\n[GIN] | 500 | POST "/api/generate"\n')
    assert await source.read() == 1
    assert await source_of(config, None, 65536, source.state).read() == 1


@pytest.mark.parametrize(
    ("program", "value"),
    [
        ("print(12)", 12),
        ("print('12 jobs')", "the command's output does not hold one number"),
        ("", "the command's output is empty"),
        ("print(12); raise SystemExit(3)", "ended with status 3"),
        ("print('1' * 100000)", "printed more than"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9"),
    ],
)
async def test_a_command_is_its_number_or_a_reason(program, value):
    answer = await CommandSource([sys.executable, "-c", program]).read()
    assert answer == value if isinstance(value, int) else value in answer.why


async def test_a_command_that_runs_too_long_is_ended_with_its_children():
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    answer = await sources.run_command([sys.executable, "-c", program], 0.5)
    assert "did not end within 0.5 s" in answer.why


async def test_a_program_that_is_not_there_is_our_mistake():
    assert (await CommandSource(["/no/such/program"]).read()).is_config_error


async def test_numbers_are_read_from_pages():
    async with answering() as server:
        server.routes |= {
            "/q?a=1": Reply({"queue": [{"n": 2}, {"n": 3}]}),
            "/metrics": Reply('jobs{state="done"} 5\njobs{state="failed"} 7\n'),
            "/broken": Reply("<html>"),
            "/gone": Reply("", 401),
        }
        assert await read(Source(http_json=HttpJson(f"{server.url}/q?a=1", "queue[].n"))) == 5
        assert await read(Source(prometheus=Prometheus(f"{server.url}/metrics", "jobs", {"state": "done"}))) == 5
        assert "not on the page" in (await read(Source(http_json=HttpJson(f"{server.url}/q?a=1", "other")))).why
        assert "HTML" in (await read(Source(http_json=HttpJson(f"{server.url}/broken", "n")))).why
        assert (await read(Source(http_json=HttpJson(f"{server.url}/gone", "n")))).is_config_error
