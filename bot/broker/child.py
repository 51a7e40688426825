"""One running nats-server: a child in its own session, whose log lines become ours."""

import asyncio
import logging
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from bot.broker import launch
from bot.broker.errors import BrokerError

log = logging.getLogger(__name__)

_LINE = re.compile(r"\[\d+\] \[(?P<level>[A-Z]{3})\] ?(?P<text>.*)")
_LEVELS = {"INF": logging.DEBUG, "WRN": logging.WARNING, "ERR": logging.ERROR, "FTL": logging.ERROR}
# Of our environment only these go to the server: the rest holds Slack's tokens.
_ENVIRONMENT = ("PATH", "TMPDIR", "GOMEMLIMIT", "GOMAXPROCS")
_KEPT_LINES = 5
_REFUSED = re.compile(r"(?P<address>\S+) - \S+ - .*[Aa]uthentication [Ee]rror.*Nkey \"(?P<key>U[A-Z2-7]{55})\"")
_VIOLATED = re.compile(
    r"(?P<address>\S+) - \S+ - .*nkey:(?P<key>U[A-Z2-7]{55})\" - Publish Violation - "
    r"Subject \"(?P<subject>[^\"]{1,200})\""
)
# What `gpu-oncall bus check` tries on purpose; by its own keys, since anybody can call himself so.
_TRIED = re.compile(
    r".*:check [^\"]*\" - \"[A-Z]+/nkey:(?P<key>U[A-Z2-7]{55})\" - (?:Publish|Subscription) Violation - .*"
)
_WANTED = 'Clients that are not using "TLS Handshake First"'  # a warning about what we ask for
_RELOADED = "Reloaded server configuration"
_NOT_RELOADED = "Failed to reload server configuration: "
_RELOAD_SECONDS = 30.0
# A consumer with a broken state: the server calls itself well, and refuses to make the consumer for ever.
_LOST_CONSUMER = re.compile(r"Error adding consumer '([^']+)'")


class Child:
    """`ready` is set when the server takes connections; `ended` when the process is gone.

    `lost` is account, stream and consumer of what it says it cannot recover. `checkers` are the keys with which
    `gpu-oncall bus check` tries on purpose what is refused, `stranger` the one that is not even let in.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_words: deque[str] = deque(maxlen=_KEPT_LINES)
        self.lost: tuple[str, ...] = ()
        self.on_refused: Callable[[str, str], None] = lambda key, address: None
        self.on_violation: Callable[[str, str, str], None] = lambda key, address, subject: None
        self.checkers: frozenset[str] = frozenset()
        self.stranger = ""
        self._reload: asyncio.Future[str] | None = None
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self._reader = asyncio.create_task(self._read(), name="nats-server log")

    @classmethod
    async def start(cls, program: Path, conf: Path, folder: Path) -> "Child":
        """Must run in the main thread: the server gets its signal to end when the thread that started it ends."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the embedded server must be started from the main thread")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), program, "-c", conf),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,
            env=environment(),
            start_new_session=True,  # Ctrl-C is for the bot, which then stops the server in its own time
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    def last_words(self) -> str:
        return "; ".join(self._last_words) or "it said nothing"

    async def reload(self) -> str:
        """Lets the server read its config anew; "" when it has, or why it has not."""
        self._reload = asyncio.get_running_loop().create_future()
        try:
            self._process.send_signal(signal.SIGHUP)
            return await asyncio.wait_for(self._reload, _RELOAD_SECONDS)
        except TimeoutError:
            return f"no answer within {_RELOAD_SECONDS:g} s"
        except ProcessLookupError:
            return "it has ended"
        finally:
            self._reload = None

    def _reloaded(self, trouble: str) -> None:
        if self._reload is not None and not self._reload.done():
            self._reload.set_result(trouble)

    async def stop(self, deadline_seconds: float) -> None:
        """SIGTERM, after the deadline SIGKILL; returns when the process is gone."""
        if not self.ended.is_set():
            self._signal_end()
            try:
                await asyncio.wait_for(self.ended.wait(), deadline_seconds)
            except TimeoutError:
                log.error("nats-server did not end in time, killing it pid=%d", self.pid)
                self._process.kill()
        await self._reader

    def _signal_end(self) -> None:
        try:
            self._process.terminate()
        except ProcessLookupError:
            log.debug("nats-server has ended already pid=%d", self.pid)

    async def _read(self) -> None:
        """Pipes every line into our log; what does not fit into a line's buffer is cut by asyncio into parts."""
        stdout = self._process.stdout
        while stdout is not None:
            try:
                line = await stdout.readline()
            except ValueError:  # longer than asyncio's buffer: dropped, the next one follows
                continue
            if not line:
                break
            self._take(line.decode(errors="replace").rstrip())
        await self._process.wait()
        self._reloaded("it ended")
        self.ended.set()

    def _take(self, line: str) -> None:
        match = _LINE.fullmatch(line)
        level = _LEVELS.get(match["level"], logging.DEBUG) if match else logging.WARNING
        text = (match["text"] if match else line).strip()
        if text.startswith(_WANTED) or self._is_check(text):
            level = logging.DEBUG
        if level >= logging.WARNING:
            self._last_words.append(text)
        if lost := _LOST_CONSUMER.match(text):
            self.lost = tuple(lost[1].split(" > "))
        if text == "Server is ready":
            self.ready.set()
        if text.startswith(_RELOADED):
            self._reloaded("")
        elif text.startswith(_NOT_RELOADED):
            self._reloaded(text.removeprefix(_NOT_RELOADED))
        elif refused := _REFUSED.match(text):
            self.on_refused(refused["key"], refused["address"])
        elif violated := _VIOLATED.match(text):
            self.on_violation(violated["key"], violated["address"], violated["subject"])
        log.log(level, "nats-server says %s", text)

    def _is_check(self, text: str) -> bool:
        tried, refused = _TRIED.match(text), _REFUSED.match(text)
        return bool(tried and tried["key"] in self.checkers) or bool(refused and refused["key"] == self.stranger)


async def check_conf(program: Path, conf: Path, folder: Path) -> None:
    """Raises BrokerError with the server's own words when it refuses the file."""
    process = await asyncio.create_subprocess_exec(
        *(program, "-t", "-c", conf),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env=environment(),
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        words = output.decode(errors="replace").strip()
        raise BrokerError(f"nats-server refuses the config that was made for it, the old one is kept: {words}")


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
