"""One simulated node on the wire: the protocol of NATS by hand, so that ten thousand of them fit beside the bot.

It keeps the agent's manners: one window in flight, the next after its acknowledgement, random pauses after a loss.
"""

import asyncio
import base64
import json
import random
from collections import deque

from bench.scale.reports import beat_body, message_id, window_body
from wire import nkey, subjects

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 30.0
ACK_SECONDS = 30.0


class Counts:
    """Of all nodes of one process."""

    def __init__(self) -> None:
        self.connected = self.acked = self.duplicates = self.beats = self.losses = self.sent_again = 0


class Node(asyncio.Protocol):
    """`waiting` are the numbers of windows in its spool; `idle_from` is the first window in which its GPUs are idle."""

    first_pause_seconds, ack_seconds = FIRST_PAUSE_SECONDS, ACK_SECONDS

    def __init__(self, name: str, seed: str, port: int, counts: Counts) -> None:
        self.name, self._seed, self._port, self._counts = name, seed, port, counts
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._is_up = False
        self._attempt = 0
        self._in_flight: asyncio.TimerHandle | None = None
        self._has_left = False
        self.waiting: deque[int] = deque()
        self.last_seq = 0
        self.idle_from: int | None = None

    # --- what the node does -----------------------------------------------------------------------------------------

    def connect(self) -> None:
        self._loop.create_task(self._connect())

    def close_window(self, count: int = 1) -> None:
        """So many more windows are on disk, and go out as soon as they can."""
        self.waiting.extend(range(self.last_seq + 1, self.last_seq + count + 1))
        self.last_seq += count
        self._send_next()

    def beat(self) -> None:
        if not self._is_up or self._transport is None or self.last_seq == 0:
            return
        body = self._heartbeat()
        subject = subjects.heartbeat(self.name).encode()
        self._transport.write(b"PUB %s %d\r\n%s\r\n" % (subject, len(body), body))
        self._counts.beats += 1

    def leave(self) -> None:
        """For good."""
        self._has_left = True
        if self._transport is not None:
            self._transport.abort()

    def _is_idle(self, seq: int) -> bool:
        return self.idle_from is not None and seq >= self.idle_from

    def _heartbeat(self) -> bytes:
        """With the verdict of the window that is open."""
        return beat_body(self.name, self.last_seq, idle=self._is_idle(self.last_seq + 1))

    def _window(self, seq: int) -> bytes:
        return window_body(self.name, seq, idle=self._is_idle(seq))

    def _send_next(self) -> None:
        if not self._is_up or self._in_flight is not None or not self.waiting or self._transport is None:
            return
        seq = self.waiting[0]
        body = self._window(seq)
        header = f"NATS/1.0\r\nNats-Msg-Id: {message_id(self.name, seq)}\r\n\r\n".encode()
        subject = f"{subjects.observations(self.name)} {subjects.inbox(self.name)}.{seq}".encode()
        sizes = b"%d %d" % (len(header), len(header) + len(body))
        self._transport.write(b"HPUB %s %s\r\n%s%s\r\n" % (subject, sizes, header, body))
        self._in_flight = self._loop.call_later(self.ack_seconds, self._not_acked)

    def _not_acked(self) -> None:
        self._in_flight = None
        self._counts.sent_again += 1
        self._send_next()

    def _on_reply(self, seq: int, body: bytes) -> None:
        """An acknowledgement, perhaps a late one of a window that has gone since then, or a refusal."""
        answer = json.loads(body)
        if "error" in answer:
            raise AssertionError(f"{self.name}: {answer['error']}")
        if self._in_flight is not None and self.waiting[0] == seq:
            self._in_flight.cancel()
            self._in_flight = None
            self.waiting.popleft()
            self._counts.acked += 1
            self._counts.duplicates += bool(answer.get("duplicate"))
        self._send_next()

    # --- the protocol -----------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            self._again()

    def _again(self) -> None:
        """The same random pauses as `wire/link.py`."""
        longest = min(LONGEST_PAUSE_SECONDS, self.first_pause_seconds * 2 ** min(self._attempt, 16))
        self._attempt += 1
        if not self._has_left:
            self._loop.call_later(random.uniform(0, longest), self.connect)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._buffer = transport, b""

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_up:
            self._counts.connected -= 1
            self._counts.losses += 1
        self._transport, self._is_up = None, False
        if self._in_flight is not None:
            self._in_flight.cancel()
            self._in_flight = None
        self._again()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (taken := self._one_message()) is not None:
            self._buffer = self._buffer[taken:]

    def _one_message(self) -> int | None:
        """How many bytes of the buffer are done with; None: more must come."""
        line, found, _ = self._buffer.partition(b"\r\n")
        if not found:
            return None
        end = len(line) + 2
        if line.startswith((b"MSG ", b"HMSG ")):
            size = int(line.rsplit(b" ", 1)[1])
            if len(self._buffer) < end + size + 2:
                return None
            self._on_reply(int(line.split(b" ")[1].rpartition(b".")[2]), self._buffer[end : end + size])
            return end + size + 2
        self._on_line(line)
        return end

    def _on_line(self, line: bytes) -> None:
        assert self._transport is not None
        if line.startswith(b"INFO ") and not self._is_up:
            self._greet(json.loads(line[5:]))
        elif line == b"PING":
            self._transport.write(b"PONG\r\n")
        elif line == b"PONG" and not self._is_up:
            self._is_up, self._attempt = True, 0
            self._counts.connected += 1
            self.beat()
            self._send_next()
        elif line.startswith(b"-ERR"):
            self._transport.close()

    def _greet(self, info: dict[str, str]) -> None:
        assert self._transport is not None
        signature = base64.b64encode(nkey.sign(self._seed, info["nonce"].encode())).decode()
        who = {"nkey": nkey.public_key(self._seed), "sig": signature, "name": self.name, "lang": "bench"}
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1}
        hello = json.dumps({**options, **who, "version": "1"})
        inbox = f"{subjects.inbox(self.name)}.*"
        self._transport.write(f"CONNECT {hello}\r\nSUB {inbox} 1\r\nPING\r\n".encode())
