"""The pages and requests of vLLM, Ollama and llama.cpp: a life in the form that each of them shows it in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from demo.runner.life import HANGING, MOVING, Life, State, in_work

MODEL = "demo-model"
CONTEXT = 8192
_FIRST_START = datetime(2026, 11, 30, tzinfo=UTC)
_KEEP_ALIVE = timedelta(minutes=5)
_ENDLESS = timedelta(days=290 * 365)


@dataclass(frozen=True)
class Shown:
    """What a page is made of. `is_endless`: models stay loaded for ever (Ollama's keep-alive of -1)."""

    life: Life
    state: State
    is_endless: bool

    @property
    def now(self) -> datetime:
        return _FIRST_START + timedelta(seconds=self.life.now_seconds)

    @property
    def expires(self) -> datetime:
        if self.is_endless:
            return _FIRST_START + _ENDLESS
        since = self.now if self.state is State.LOADING else _FIRST_START + timedelta(seconds=self.life.idle_at_seconds)
        return since + _KEEP_ALIVE

    @property
    def is_listed(self) -> bool:
        """Whether Ollama's list has the model. What nobody uses is unloaded; what is in work, or hangs, stays."""
        is_over = self.now > self.expires and self.state not in MOVING | HANGING | {State.ERRORING}
        return self.state is not State.ASLEEP and not is_over


@dataclass(frozen=True)
class Reply:
    """`body` is text or JSON."""

    body: str | dict[str, Any] | list[Any]
    status: int = 200
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Page:
    """`is_look`: it shows work, so that a step passes with it. `by_loop`: the loop that works answers, or nobody does.

    `is_open`: no key is wanted.
    """

    show: Callable[[Shown], Reply]
    is_look: bool = False
    by_loop: bool = False
    is_open: bool = False


@dataclass(frozen=True)
class Surface:
    """`generations` are the requests that make tokens. `silent`: states in which nobody listens at its port.

    `loads_with`: what every page and request answers while the model is loaded; None: they answer as usual.
    `unloads`: it lets go of models that nobody uses.
    """

    pages: Mapping[str, Page]
    generations: Mapping[str, Reply]
    silent: frozenset[State] = frozenset({State.DEAD})
    loads_with: Reply | None = None
    unloads: bool = False


def _vllm_metrics(shown: Shown) -> Reply:
    life = shown.life
    lines = [
        f'vllm:request_success_total{{finished_reason="stop"}} {life.completed}',
        f"vllm:generation_tokens_total {life.generated}",
        f"vllm:prompt_tokens_total {life.prompted}",  # what is prefilled moves the share of the cache alone
        f"vllm:kv_cache_usage_perc {life.cache_share:.4f}",
        f"vllm:num_requests_running {in_work(shown.state)}",
        "vllm:num_requests_waiting 0",
        f'vllm:engine_sleep_state{{sleep_state="awake"}} {int(shown.state is not State.ASLEEP)}',
        f"process_start_time_seconds {_started_seconds(life)}",
    ]
    return Reply("\n".join([*lines, ""]))


def _started_seconds(life: Life) -> int:
    return int(_FIRST_START.timestamp()) + life.starts


def _slots(shown: Shown) -> Reply:
    life, is_busy = shown.life, in_work(shown.state) > 0
    slot = {
        "id": 0,
        "n_ctx": CONTEXT,
        "is_processing": is_busy,
        "id_task": life.task,
        "n_prompt_tokens_processed": life.prompted + life.prefilled,
        "next_token": [{"has_next_token": is_busy, "n_decoded": life.generated}],
    }
    return Reply([slot])


def _llama_metrics(shown: Shown) -> Reply:
    life = shown.life
    lines = [
        f"llamacpp:prompt_tokens_total {life.prompted + life.prefilled}",
        f"llamacpp:tokens_predicted_total {life.completed * 120}",  # counted when a slot is free again
        f"llamacpp:n_decode_total {life.generated}",
        f"llamacpp:requests_processing {min(1, in_work(shown.state))}",
        f"llamacpp:requests_deferred {max(0, in_work(shown.state) - 1)}",
    ]
    return Reply("\n".join([*lines, ""]), headers={"Process-Start-Time-Unix": str(_started_seconds(life))})


def _llama_props(shown: Shown) -> Reply:
    return Reply({"total_slots": 1, "is_sleeping": shown.state is State.ASLEEP})


def _ollama_ps(shown: Shown) -> Reply:
    expires_at = f"{shown.expires:%Y-%m-%dT%H:%M:%S}.123456789Z"
    model = {"name": MODEL, "model": MODEL, "expires_at": expires_at, "context_length": CONTEXT}
    date = f"{shown.now:%a, %d %b %Y %H:%M:%S} GMT"
    return Reply({"models": [model] if shown.is_listed else []}, headers={"Date": date})


_OPENAI_MODELS = Page(lambda _: Reply({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))
_COMPLETION = Reply({"choices": [{"text": "pong", "finish_reason": "length"}], "usage": {"completion_tokens": 1}})

# vLLM listens when its model is loaded, and guards only what is below /v1.
VLLM = Surface(
    pages={
        "/health": Page(lambda _: Reply(""), is_open=True),
        "/metrics": Page(_vllm_metrics, is_look=True, is_open=True),
        "/v1/models": _OPENAI_MODELS,
    },
    generations={"/v1/completions": _COMPLETION},
    silent=frozenset({State.DEAD, State.LOADING}),
)

OLLAMA = Surface(
    pages={
        "/api/version": Page(lambda _: Reply({"version": "0.30.0"})),
        "/api/ps": Page(_ollama_ps, is_look=True),
        "/v1/models": _OPENAI_MODELS,
    },
    generations={"/api/generate": Reply({"response": "pong", "done": True, "done_reason": "length", "eval_count": 1})},
    unloads=True,
)

LLAMA_CPP = Surface(
    pages={
        "/health": Page(lambda _: Reply({"status": "ok"}), is_open=True),
        "/props": Page(_llama_props),
        "/slots": Page(_slots, is_look=True, by_loop=True),
        "/metrics": Page(_llama_metrics, is_look=True, by_loop=True),
        "/v1/models": _OPENAI_MODELS,
    },
    generations={"/completion": Reply({"content": "pong", "tokens_predicted": 1}), "/v1/completions": _COMPLETION},
    loads_with=Reply({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503),
)

SURFACES: Mapping[str, Surface] = {"vllm": VLLM, "ollama": OLLAMA, "llama.cpp": LLAMA_CPP}
"""By the name of the agent's preset."""
