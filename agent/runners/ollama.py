"""What only Ollama needs: its list of loaded models, and the slots page of the server that it starts for each."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from agent.runners import proc
from agent.runners.http import Answer
from agent.runners.pages import BadPageError, parse_json

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


def child_ports() -> list[int]:
    """Where the llama-server processes that Ollama started listen; empty for versions that have none."""
    return [port for pid in proc.children_named("llama-server", "ollama") for port in proc.ports_of(pid)]


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
