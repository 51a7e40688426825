"""One writer thread: transactions one after another, clicks before ingest; reads on threads of their own."""

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection

from bot.store import leases
from bot.store.engine import LostLeaseError, begin_for_writing, make_engine
from bot.store.tenure import Tenure

Result = TypeVar("Result")
Work = Callable[["Transaction"], Result]
_URGENT, _NORMAL, _STOP = 0, 1, 2
_READERS = 4


class Transaction:
    """One transaction of the writer thread. What is given to `on_commit` runs in that thread, only after the commit."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._gathered: dict[Hashable, tuple[Callable[[Sequence[str]], None], list[str]]] = {}
        self._after: list[Callable[[], None]] = []

    def gather(self, key: Hashable, item: str, call: Callable[[Sequence[str]], None]) -> None:
        """At the end of the transaction, and still in it, `call` gets all items of this key at once."""
        self._gathered.setdefault(key, (call, []))[1].append(item)

    def end(self) -> None:
        """What was gathered is done, and what that gathers."""
        while self._gathered:
            call, items = self._gathered.pop(next(iter(self._gathered)))
            call(list(dict.fromkeys(items)))

    def on_commit(self, call: Callable[[], None]) -> None:
        self._after.append(call)

    def committed(self) -> None:
        for call in self._after:
            call()


class Store:
    """The database behind one writer thread. `write` and `read` take a function and run it off the event loop.

    With a `tenure`, nothing is written any more once a later bot has begun.
    """

    def __init__(self, url: str, tenure: Tenure | None = None) -> None:
        self.engine = make_engine(url, ends_idle=True)
        self._tenure = tenure
        self._queue: queue.PriorityQueue[tuple[int, int, Any]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="store-read")
        self._thread = threading.Thread(target=self._run, name="store-write", daemon=True)
        self._thread.start()

    async def write(self, work: Work[Result], *, urgent: bool = False) -> Result:
        """Runs `work` in one transaction; raises what it raises, or LostLeaseError, with nothing written."""
        future: Future[Result] = Future()
        self._queue.put((_URGENT if urgent else _NORMAL, next(self._order), (work, future)))
        return await asyncio.wrap_future(future)

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Runs `work` on a snapshot of what is committed."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    def is_held(self) -> bool:
        """Whether this bot may still act: whatever leaves it asks right before."""
        return self._tenure is None or self._tenure.is_held()

    def check(self) -> None:
        """Raises LostLeaseError where it may not."""
        if not self.is_held():
            raise LostLeaseError("this bot's lease ran out: nothing leaves it")

    def note_cut(self) -> None:
        """Something was given up on its way, and may still arrive."""
        if self._tenure is not None:
            self._tenure.is_unsure = True

    def close(self) -> None:
        """What is queued is still written; then the threads end."""
        self._queue.put((_STOP, next(self._order), None))
        self._thread.join()
        self._readers.shutdown()
        self.engine.dispose()

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        with self.engine.connect() as connection:
            return work(connection)

    def _run(self) -> None:
        while (item := self._queue.get()[2]) is not None:
            work, future = item
            if future.set_running_or_notify_cancel():
                self._one(work, future)

    def _one(self, work: Work[Any], future: Future[Any]) -> None:
        try:
            with self.engine.connect() as connection:
                begin_for_writing(connection)
                with connection.begin():
                    if self._tenure is not None:
                        leases.check(connection, self._tenure.fence)
                    transaction = Transaction(connection)
                    result = work(transaction)
                    transaction.end()
            transaction.committed()
        except BaseException as error:  # whatever it was belongs to the caller; this thread must live on
            future.set_exception(error)
        else:
            future.set_result(result)
