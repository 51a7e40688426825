"""What only Ollama needs: its list of loaded models, and the slots page of the server that it starts for each."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from agent.runners import proc
from agent.runners.http import Answer, Failure, Server
from agent.runners.offloop import OffLoop
from agent.runners.pages import BadPageError, parse_json
from wire.ticks import ApiState

_ENDLESS = timedelta(days=365)  # keep_alive -1 shows a time some hundred years ahead


class LoadedModel(msgspec.Struct, frozen=True):
    """`context` is the length it was loaded with, None where this version does not tell."""

    name: str
    is_endless: bool
    is_expired: bool
    context: int | None = None


class LoadedModels(msgspec.Struct, frozen=True):
    """`expires` moves whenever a request ends."""

    models: tuple[LoadedModel, ...]
    expires: float

    @property
    def overdue(self) -> int:
        """Models that are still listed past their time: somebody's request keeps them, or they hang."""
        return sum(1 for model in self.models if model.is_expired)


def loaded_models(answer: Answer) -> LoadedModels:
    """Ages are by the server's own clock, from the same answer. Raises BadPageError."""
    document = parse_json(answer.body)
    try:
        now = parsedate_to_datetime(answer.headers["date"])
        models = tuple(_model(entry, now) for entry in document["models"] or ())
        expires = sum(_expiry(entry).timestamp() for entry in document["models"] or ())
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadPageError("its list of loaded models has another form") from error
    return LoadedModels(models, round(expires, 1))


class Children:
    """The llama-server processes that Ollama started, looked for anew when one does not answer any more."""

    def __init__(self, own_port: int, largest_bytes: int, answer_seconds: float) -> None:
        self._own_port, self._largest_bytes, self._answer_seconds = own_port, largest_bytes, answer_seconds
        self._servers: list[Server] = []
        self._off_loop = OffLoop()

    async def slots(self) -> list[Answer | Failure]:
        """One answer for each; none for versions of Ollama that start no such process."""
        answers = await self._ask()
        if not answers or any(isinstance(a, Failure) and a.state is ApiState.REFUSED for a in answers):
            await self._find()
            answers = await self._ask()
        return answers

    async def _ask(self) -> list[Answer | Failure]:
        return await asyncio.gather(*(server.get("/slots", self._answer_seconds) for server in self._servers))

    async def _find(self) -> None:
        self._servers = []
        try:
            ports = await self._off_loop.read(lambda: _child_ports(self._own_port), self._answer_seconds)
        except OSError:  # a TimeoutError is one too
            return
        self._servers = [Server(f"http://127.0.0.1:{port}", None, None, self._largest_bytes) for port in ports]


def slots(answer: Answer) -> list[Any]:
    """Empty where the page is not what it should be."""
    try:
        document = parse_json(answer.body)
    except BadPageError:
        return []
    return document if isinstance(document, list) else []


def _child_ports(own_port: int) -> list[int]:
    """Of the Ollama that listens at this port, where several run. One alone may stand behind a proxy's port."""
    children = list(proc.children_named("llama-server", "ollama"))
    parents = {parent for _, parent in children}
    if len(parents) > 1:
        parents = {parent for parent in parents if own_port in proc.ports_of(parent)}
    return [port for pid, parent in children if parent in parents for port in proc.ports_of(pid)]


def _model(entry: dict[str, Any], now: datetime) -> LoadedModel:
    expiry, context = _expiry(entry), entry.get("context_length")
    return LoadedModel(
        name=str(entry["model"]),
        is_endless=expiry > now + _ENDLESS,
        is_expired=expiry < now - timedelta(seconds=5),
        context=context if isinstance(context, int) and context > 0 else None,
    )


def _expiry(entry: dict[str, Any]) -> datetime:
    expiry = datetime.fromisoformat(_without_nanoseconds(entry["expires_at"]))
    return expiry.replace(tzinfo=UTC) if expiry.tzinfo is None else expiry


def _without_nanoseconds(text: str) -> str:
    """Go writes up to nine digits; Python reads six."""
    head, dot, tail = text.partition(".")
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return head + dot + tail[: min(digits, 6)] + tail[digits:] if dot else text
