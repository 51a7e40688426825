"""Generic sources: one number each, or a reason why there is none. Nothing that fails is ever 0."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping
from glob import iglob
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from agent.runner_config import Log, Prometheus, Source
from agent.runners.http import Failure, Server, status_words
from agent.runners.offloop import OffLoop
from agent.runners.pages import BadPageError, json_value, metric_value, parse_json, parse_metrics, plain

READ_SECONDS = 5.0
COMMAND_SECONDS = 10.0
_LARGEST_NUMBER_BYTES = 4096
_LARGEST_OUTPUT_BYTES = 64 * 1024
_MOST_LOG_BYTES = 16 * 1024 * 1024  # in one tick; what is beyond is read at the next
_CHUNK_BYTES = 256 * 1024
Value = TypeVar("Value")

_NUMBER = re.compile(r"[+-]?\d{1,16}(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)


class Unread(msgspec.Struct, frozen=True):
    why: str
    is_config_error: bool = False


class NumberSource(Protocol):
    """`state` is what must outlive a restart of the agent, None where nothing must."""

    state: Any

    async def read(self) -> float | Unread: ...


class FileSource:
    """The number in a file. An empty file, or one that holds anything else, is not read."""

    state: Any = None

    def __init__(self, path: Path) -> None:
        self._path, self._off_loop = path, OffLoop()

    async def read(self) -> float | Unread:
        return await _guarded(self._off_loop, self._number)

    def _number(self) -> float | Unread:
        with self._path.open("rb") as file:
            text = file.read(_LARGEST_NUMBER_BYTES + 1)
        return number_in(text)


class FilesSource:
    """How many files match. A folder that cannot be listed is not an empty one."""

    state: Any = None

    def __init__(self, pattern: str) -> None:
        self._pattern, self._off_loop = pattern, OffLoop()

    async def read(self) -> float | Unread:
        return await _guarded(self._off_loop, self._count)

    def _count(self) -> float:
        os.stat(_folder_before_wildcard(self._pattern))
        return float(sum(1 for _ in iglob(self._pattern, recursive=True)))


class LogSource:
    """Counts matching lines that were written since the agent first looked; a rotated file begins anew."""

    def __init__(self, path: Path, match: str, state: Any) -> None:
        self._path, self._match, self._off_loop = path, re.compile(match.encode()), OffLoop()
        self.state = state if _is_log_state(state) else None

    async def read(self) -> float | Unread:
        answer = await _guarded(self._off_loop, lambda: self._advanced(self.state))
        if isinstance(answer, Unread):
            return answer
        self.state = answer
        return float(answer["count"])

    def _advanced(self, state: Any) -> Any:
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            if state is None:
                return {"inode": status.st_ino, "offset": status.st_size, "count": 0}
            is_other = status.st_ino != state["inode"] or status.st_size < state["offset"]
            offset, count = (0 if is_other else state["offset"]), state["count"]
            file.seek(offset)
            lines, used = self._matching(file)
        return {"inode": status.st_ino, "offset": offset + used, "count": count + lines}

    def _matching(self, file: Any) -> tuple[int, int]:
        """Matching whole lines, and the bytes that they and the others took; a line that is half written waits."""
        count, used, rest = 0, 0, b""
        while used < _MOST_LOG_BYTES and (chunk := file.read(_CHUNK_BYTES)):
            whole, separator, rest = (rest + chunk).rpartition(b"\n")
            if not separator and len(rest) > _CHUNK_BYTES:  # no line is that long
                used, rest = used + len(rest), b""
                continue
            used += len(whole) + len(separator)
            count += sum(1 for line in whole.split(b"\n") if line and self._match.search(line))
        return count, used


class JournalSource:
    """Counts matching messages of a systemd unit since the agent first looked, by the journal's own cursor."""

    def __init__(self, unit: str, match: str, state: Any) -> None:
        self._unit, self._match = unit, re.compile(match)
        self.state = state if isinstance(state, dict) and {"cursor", "count"} <= state.keys() else None

    async def read(self) -> float | Unread:
        place = ["--lines=0"] if self.state is None else [f"--after-cursor={self.state['cursor']}"]
        command = ["journalctl", "--quiet", f"--unit={self._unit}", "--output=cat", "--show-cursor", *place]
        output = await run_command(command, COMMAND_SECONDS)
        if isinstance(output, Unread):
            return output
        *lines, last = output.decode(errors="replace").rstrip("\n").split("\n")
        if not last.startswith("-- cursor: "):  # nothing new
            return Unread("the journal has nothing of this unit yet") if self.state is None else self.state["count"]
        count = 0 if self.state is None else self.state["count"]
        found = sum(1 for line in lines if self._match.search(line))
        self.state = {"cursor": last.removeprefix("-- cursor: "), "count": count + found}
        return float(self.state["count"])


class CommandSource:
    """The integer that a program prints. Another status than 0, or other words, is not read."""

    state: Any = None

    def __init__(self, command: list[str]) -> None:
        self._command = command

    async def read(self) -> float | Unread:
        output = await run_command(self._command, COMMAND_SECONDS)
        return output if isinstance(output, Unread) else number_in(output, what="the command's output")


class PageSource:
    """A number on a page: JSON or Prometheus text."""

    state: Any = None

    def __init__(self, server: Server, path: str, value_of: Callable[[bytes], float | None]) -> None:
        self._server, self._path, self._value_of = server, path, value_of

    async def read(self) -> float | Unread:
        answer = await self._server.get(self._path, READ_SECONDS)
        if isinstance(answer, Failure):
            return Unread(answer.why, is_config_error=answer.is_ours)
        if answer.status != 200:
            return Unread(status_words(answer.status), is_config_error=answer.status in (401, 403))
        try:
            value = self._value_of(answer.body)
        except BadPageError as error:
            return Unread(str(error))
        return Unread("the value is not on the page") if value is None else value


def source_of(config: Source, ca_file: Path | None, largest_bytes: int, state: Any = None) -> NumberSource | None:
    """None for `while_process_runs`, which is no source of its own."""
    if config.file is not None:
        return FileSource(config.file)
    if config.files is not None:
        return FilesSource(config.files)
    if config.log is not None:
        return _log_source(config.log, state)
    if config.command is not None:
        return CommandSource(config.command)
    return _page_source(config, ca_file, largest_bytes)


def _log_source(log: Log, state: Any) -> NumberSource:
    if log.file is not None:
        return LogSource(log.file, log.match, state)
    return JournalSource(log.systemd_unit or "", log.match, state)


def _page_source(config: Source, ca_file: Path | None, largest_bytes: int) -> NumberSource | None:
    if config.prometheus is not None:
        return _metric_source(config.prometheus, ca_file, largest_bytes)
    if config.http_json is not None:
        page = config.http_json
        server, expression = Server(_site(page.url), page.headers_file, ca_file, largest_bytes), page.value
        return PageSource(server, _path(page.url), lambda body: json_value(parse_json(body), expression))
    if config.litellm is not None:
        server = Server(config.litellm, None, ca_file, largest_bytes)
        return PageSource(server, "/health/backlog", lambda body: json_value(parse_json(body), "in_flight_requests"))
    return None


def _metric_source(page: Prometheus, ca_file: Path | None, largest_bytes: int) -> NumberSource:
    server = Server(_site(page.url), page.headers_file, ca_file, largest_bytes)
    labels: Mapping[str, tuple[str, ...]] = {name: (value,) for name, value in page.labels.items()}
    wanted = frozenset({page.metric})
    return PageSource(
        server, _path(page.url), lambda body: metric_value(parse_metrics(body, wanted), (page.metric,), labels)
    )


def number_in(text: bytes, what: str = "the file") -> float | Unread:
    """A plain number with nothing beside it but white space."""
    words = text.decode("ascii", errors="replace").strip()
    if not words:
        return Unread(f"{what} is empty")
    if len(text) > _LARGEST_NUMBER_BYTES or not _NUMBER.fullmatch(words):
        return Unread(f"{what} does not hold one number")
    value = plain(float(words))
    return Unread(f"{what} does not hold a number of a usable size") if value is None else value


async def run_command(command: list[str], seconds: float) -> bytes | Unread:
    """Its standard output. What runs too long is killed with everything that it started."""
    name = Path(command[0]).name
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return Unread(f"{name} cannot be started: {error.strerror}", is_config_error=True)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            output = await _bounded(process.stdout)
            if output is None:
                return Unread(f"{name} printed more than {_LARGEST_OUTPUT_BYTES} bytes")
            status = await process.wait()
    except TimeoutError:
        return Unread(f"{name} did not end within {seconds:g} s")
    finally:
        await _ended(process)
    return output if status == 0 else Unread(f"{name} ended with status {status}")


async def _bounded(stream: asyncio.StreamReader) -> bytes | None:
    received = bytearray()
    while part := await stream.read(_LARGEST_OUTPUT_BYTES):
        received += part
        if len(received) > _LARGEST_OUTPUT_BYTES:
            return None
    return bytes(received)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Never waits for what does not die."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await process.wait()


async def _guarded(off_loop: OffLoop, work: Callable[[], Value]) -> "Value | Unread":
    try:
        return await off_loop.read(work, READ_SECONDS)
    except FileNotFoundError:
        return Unread("there is no such file or folder")
    except OSError as error:  # a TimeoutError is one too
        return Unread(error.strerror or str(error))


def _folder_before_wildcard(pattern: str) -> str:
    head = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return head.rpartition("/")[0] or "/"


def _is_log_state(state: Any) -> bool:
    return isinstance(state, dict) and all(isinstance(state.get(key), int) for key in ("inode", "offset", "count"))


def _site(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
