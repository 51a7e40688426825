"""Sends one canary: a request for one token, like real traffic, and says what became of it."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import msgspec

from agent.runner_reading import CanaryResult
from agent.runners.http import Answer, Failure, Server, status_words
from agent.runners.pages import BadPageError, json_value, parse_json
from agent.runners.preset import CanarySpec
from wire.ticks import ApiState, CanaryOutcome

_BUSY = frozenset({429, 503})
_OURS = frozenset({400, 401, 403, 404, 405, 413, 415, 422})


class Target(msgspec.Struct, frozen=True):
    """What the request names: a model that is loaded, and for Ollama the context that it was loaded with.

    `loads`: it is not loaded, and the request shall load it; `context` None is then the server's own choice.
    """

    model: str = ""
    context: int | None = None
    loads: bool = False


async def send(server: Server, spec: CanarySpec, target: Target, seconds: float) -> CanaryResult:
    """Waits until the answer has ended or the time is over: a connection that is cut early has hung runners."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    words = {"{model}": target.model, "{nonce}": f"{random.getrandbits(48):012x}", "{context}": target.context}
    answer = await server.post(str(_filled(spec.path, words)), _filled(spec.body, words), seconds)
    outcome, detail = _outcome(answer, spec)
    milliseconds = answer.milliseconds if isinstance(answer, Answer) and outcome is CanaryOutcome.OK else None
    return CanaryResult(outcome, loop.time() - began, milliseconds, detail)


def _filled(template: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(template, Mapping):
        filled = {key: _filled(value, words) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if not isinstance(template, str):
        return template
    if template in words:
        return words[template]
    for word, value in words.items():
        template = template.replace(word, str(value))
    return template


def _outcome(answer: Answer | Failure, spec: CanarySpec) -> tuple[CanaryOutcome, str]:
    if isinstance(answer, Failure):
        if answer.is_ours:
            return CanaryOutcome.CONFIG, answer.why
        is_timeout = answer.state is ApiState.TIMEOUT
        return CanaryOutcome.TIMEOUT if is_timeout else CanaryOutcome.ERROR, answer.why
    if answer.status in _BUSY:
        return CanaryOutcome.BUSY, status_words(answer.status)
    if answer.status in _OURS or 300 <= answer.status < 400:
        return CanaryOutcome.CONFIG, status_words(answer.status)
    if answer.status != 200:
        return CanaryOutcome.ERROR, status_words(answer.status)
    return _of_body(answer.body, spec)


def _of_body(body: bytes, spec: CanarySpec) -> tuple[CanaryOutcome, str]:
    """Status 200 proves nothing: a server may say it before the first token."""
    try:
        tokens = json_value(parse_json(body), spec.tokens)
    except BadPageError as error:
        return CanaryOutcome.ERROR, str(error)
    if tokens is None or tokens < 1:
        return CanaryOutcome.ERROR, "it answered with status 200 and no token"
    return CanaryOutcome.OK, ""
