"""The presets. Names of metrics and fields are from each runner's own source; docs/runners.md says what is seen."""

from collections.abc import Mapping

from agent.runners.preset import CanarySpec, Page, Preset, Role, Signal
from wire.ticks import SignalClass

_PROMPT_TOKENS = 64.0  # more than a canary's prompt has, in any tokenizer


def _metric(role: Role, name: str, *metrics: str, **labels: tuple[str, ...]) -> Signal:
    return Signal(role, name, metrics=metrics, labels=labels)


def _json(role: Role, name: str, value: str, *, zero_is_unread: bool = False, is_idle: bool = False) -> Signal:
    return Signal(role, name, value=value, zero_is_unread=zero_is_unread, is_idle=is_idle)


_OPENAI_CANARY = CanarySpec(
    path="/v1/completions",
    body={"model": "{model}", "prompt": "ping {nonce}", "max_tokens": 1, "temperature": 0},
    tokens="usage.completion_tokens || length(choices[0].text)",
    models_path="/v1/models",
    models="data[].id",
)

# A chunked prefill moves no counter, only the share of the KV cache. V0 called it gpu_cache_usage_perc.
VLLM = Preset(
    "vllm",
    SignalClass.A,
    alive="/health",
    pages=(
        Page(
            "/metrics",
            is_metrics=True,
            signals=(
                _metric(Role.COMPLETED, "completed", "vllm:request_success_total", "vllm:request_success"),
                _metric(Role.COUNTER, "generation_tokens", "vllm:generation_tokens_total", "vllm:generation_tokens"),
                _metric(Role.COUNTER, "prompt_tokens", "vllm:prompt_tokens_total", "vllm:prompt_tokens"),
                _metric(Role.GAUGE, "kv_cache", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
                _metric(Role.OWN_DEMAND, "running", "vllm:num_requests_running"),
                _metric(Role.OWN_DEMAND, "waiting", "vllm:num_requests_waiting"),
                _metric(Role.AWAKE, "awake", "vllm:engine_sleep_state", sleep_state=("awake",)),
                _metric(Role.EXPORTER, "started", "process_start_time_seconds"),
            ),
        ),
    ),
    canary=CanarySpec(
        path=_OPENAI_CANARY.path,
        body=_OPENAI_CANARY.body,
        tokens=_OPENAI_CANARY.tokens,
        models_path=_OPENAI_CANARY.models_path,
        models=_OPENAI_CANARY.models,
        adds={"completed": 1.0, "generation_tokens": 1.0, "prompt_tokens": _PROMPT_TOKENS, "kv_cache": 0.0},
    ),
)

# generation_tokens_total moves only when a request ends; realtime_tokens_total moves all the time. It needs
# --enable-metrics. /health generates, so it proves more than connectivity and fails in a long prefill.
SGLANG = Preset(
    "sglang",
    SignalClass.A,
    alive="/v1/models",
    pages=(
        Page(
            "/metrics",
            is_metrics=True,
            signals=(
                _metric(Role.COMPLETED, "completed", "sglang:num_requests_total"),
                _metric(
                    Role.COUNTER, "realtime_tokens", "sglang:realtime_tokens_total", mode=("prefill_compute", "decode")
                ),
                _metric(Role.GAUGE, "token_usage", "sglang:token_usage"),
                _metric(Role.OWN_DEMAND, "running", "sglang:num_running_reqs"),
                _metric(Role.OWN_DEMAND, "waiting", "sglang:num_queue_reqs"),
                _metric(Role.EXPORTER, "started", "process_start_time_seconds"),
            ),
        ),
    ),
    canary=CanarySpec(
        path="/generate",
        body={"text": "ping {nonce}", "sampling_params": {"max_new_tokens": 1, "temperature": 0}},
        tokens="meta_info.completion_tokens",
        adds={"completed": 1.0, "realtime_tokens": _PROMPT_TOKENS, "token_usage": 0.0},
    ),
)

# The router publishes the queue; it does not hang with the shards. /health asks the shards, /info does not.
TGI = Preset(
    "tgi",
    SignalClass.A,
    alive="/info",
    pages=(
        Page(
            "/metrics",
            is_metrics=True,
            signals=(
                _metric(Role.COMPLETED, "completed", "tgi_request_success", "tgi_request_success_total"),
                _metric(
                    Role.COUNTER,
                    "batches",
                    "tgi_batch_inference_success",
                    "tgi_batch_inference_success_total",
                    method=("prefill", "decode"),
                ),
                _metric(Role.DEMAND, "queue", "tgi_queue_size"),
                _metric(Role.DEMAND, "batch", "tgi_batch_current_size"),
            ),
        ),
    ),
    canary=CanarySpec(
        path="/generate",
        body={"inputs": "ping {nonce}", "parameters": {"max_new_tokens": 1, "details": True}},
        tokens="details.generated_tokens || length(generated_text)",
        adds={"completed": 1.0, "batches": 2.0},
    ),
)

_SLOTS = (
    _json(Role.GAUGE, "decoded", "[].next_token[].n_decoded || [].next_token.n_decoded"),
    _json(Role.GAUGE, "prompt_processed", "[].n_prompt_tokens_processed"),
    _json(Role.GAUGE, "tasks", "[].id_task"),
    _json(Role.OWN_DEMAND, "processing", "[].is_processing"),
)
_SLOTS_ADDS = {"decoded": 0.0, "prompt_processed": 0.0, "tasks": 0.0}
SLOTS_PAGE = Page("/slots", signals=_SLOTS, hang_is_witness=True, wakes=True)
PROPS_PATH = "/props"  # the one page that tells that it sleeps and does not wake it

# /health is answered by the HTTP thread, /slots and /metrics by the loop that works: they hang rather than lie.
LLAMA_CPP = Preset(
    "llama.cpp",
    SignalClass.A,
    alive="/health",
    loading_word="oading model",
    pages=(
        SLOTS_PAGE,
        Page(
            "/metrics",
            is_metrics=True,
            header="process-start-time-unix",
            signals=(
                _metric(Role.COUNTER, "decodes", "llamacpp:n_decode_total"),
                _metric(Role.COUNTER, "prompt_tokens", "llamacpp:prompt_tokens_total"),
                _metric(Role.COUNTER, "predicted_tokens", "llamacpp:tokens_predicted_total"),
                _metric(Role.OWN_DEMAND, "deferred", "llamacpp:requests_deferred"),
            ),
        ),
    ),
    canary=CanarySpec(
        path="/completion",
        body={"prompt": "ping {nonce}", "n_predict": 1, "cache_prompt": False},
        tokens="tokens_predicted || length(content)",
        adds={"decodes": 8.0, "prompt_tokens": _PROMPT_TOKENS, "predicted_tokens": 2.0, **_SLOTS_ADDS},
    ),
)

# Its models page and the slots of its child are read by agent/runners/ollama.py: a canary must name a model that is
# loaded, with the context length it was loaded with, or Ollama loads it anew and may deadlock (PR 14407).
OLLAMA = Preset(
    "ollama",
    SignalClass.A,
    alive="/api/version",
    canary=CanarySpec(
        path="/api/generate",
        body={
            "model": "{model}",
            "prompt": "ping {nonce}",
            "stream": False,
            "options": {"num_predict": 1, "num_ctx": "{context}"},
        },
        tokens="eval_count",
        adds={"completed": 1.0, "expires": 0.0, **_SLOTS_ADDS},
    ),
)

# The queue is published by the HTTP threads. With a generation key the text's length stays 0, which shows nothing.
KOBOLDCPP = Preset(
    "koboldcpp",
    SignalClass.A,
    alive="/api/v1/model",
    pages=(
        Page(
            "/api/extra/perf",
            signals=(
                _json(Role.COMPLETED, "completed", "total_gens"),
                _json(Role.DEMAND, "queue", "queue"),
                _json(Role.DEMAND, "in_work", "idle", is_idle=True),
            ),
        ),
        Page(
            "/api/extra/generate/check",
            signals=(_json(Role.GAUGE, "text_length", "length(results[0].text)", zero_is_unread=True),),
        ),
    ),
    canary=CanarySpec(
        path="/api/v1/generate",
        body={"prompt": "ping {nonce}", "max_length": 1, "quiet": True},
        tokens="results[0].completion_tokens || length(results[0].text)",
        adds={"completed": 1.0, "text_length": 0.0},
    ),
)

# Its request depends on the model, so a canary is sent only to a model that is named, by the generate extension.
TRITON = Preset(
    "triton",
    SignalClass.B,
    alive="/v2/health/live",
    pages=(
        Page(
            "/metrics",
            port=8002,
            is_metrics=True,
            signals=(
                _metric(Role.COMPLETED, "completed", "nv_inference_request_success"),
                _metric(Role.COUNTER, "executions", "nv_inference_exec_count"),
                _metric(Role.DEMAND, "pending", "nv_inference_pending_request_count"),
            ),
        ),
    ),
    canary=CanarySpec(
        path="/v2/models/{model}/generate",
        body={"text_input": "ping {nonce}", "max_tokens": 1},
        tokens="length(text_output)",
        needs_name=True,
        adds={"completed": 1.0, "executions": 4.0},
    ),
)

# The web server is apart from the one worker thread, so these answer during a hang. A canary would prove nothing.
COMFYUI = Preset(
    "comfyui",
    SignalClass.Q,
    alive="/queue",
    pages=(
        Page(
            "/queue",
            signals=(
                _json(Role.DEMAND, "running", "length(queue_running)"),
                _json(Role.DEMAND, "pending", "length(queue_pending)"),
            ),
        ),
        Page("/history?max_items=1", signals=(_json(Role.GAUGE, "newest_prompt", "max(*.prompt[0])"),)),
    ),
)

# Any server with this API. Some load what is asked for, so nothing is asked while nobody is known to wait.
OPENAI = Preset(
    "openai",
    SignalClass.C,
    alive="/v1/models",
    canary=CanarySpec(
        path=_OPENAI_CANARY.path,
        body=_OPENAI_CANARY.body,
        tokens=_OPENAI_CANARY.tokens,
        models_path=_OPENAI_CANARY.models_path,
        models=_OPENAI_CANARY.models,
        auto_if_single=True,
        when_idle=False,
    ),
)

GENERIC = Preset("generic", SignalClass.Q)

PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (VLLM, SGLANG, TGI, OLLAMA, LLAMA_CPP, KOBOLDCPP, TRITON, COMFYUI, OPENAI, GENERIC)
}
