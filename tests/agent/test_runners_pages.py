"""Numbers out of pages: every preset on a page of its runner, and pages that are not what they should be."""

import json
from pathlib import Path

import pytest

from agent.runner_reading import GpuLook
from agent.runners.gathered import Gathered
from agent.runners.pages import BadPageError, json_value, metric_value, parse_json, parse_metrics
from agent.runners.preset import Page
from agent.runners.presets import LLAMA_CPP, PRESETS, SGLANG, TGI, TRITON, VLLM
from agent.runners.read import _fields, _metrics

PAGES = Path(__file__).parents[1] / "cases/runners"
KOBOLD = {"last_process": 0.1, "total_gens": 21, "queue": 2, "idle": 0, "uptime": 500, "last_token_count": 12}
HISTORY = {"ab": {"prompt": [7, "ab", {}], "outputs": {}, "status": {"completed": True}}}


def read(page: Page, body: bytes) -> Gathered:
    gathered, values = Gathered(), (_metrics if page.is_metrics else _fields)(page, body)
    for signal in page.signals:
        gathered.signal(signal, values[signal.name])
    return gathered


def page(name: str) -> bytes:
    return (PAGES / name).read_bytes()


def test_vllm_v1_sums_its_engines_and_odd_model_names():
    seen = read(VLLM.pages[0], page("vllm_v1.txt"))
    assert seen.completed == 42
    assert seen.counters == {"generation_tokens": 1200, "prompt_tokens": 8000}
    assert seen.gauges == {"kv_cache": 0.25}
    assert seen.own_demands == {"running": 3, "waiting": 4}
    assert seen.awake == 1
    assert seen.exporter == "1796400123.45"


def test_vllm_v0_has_other_names_for_the_same():
    seen = read(VLLM.pages[0], page("vllm_v0.txt"))
    assert (seen.completed, seen.gauges, seen.awake) == (1060, {"kv_cache": 0.99}, None)
    assert seen.own_demands == {"running": 35, "waiting": 115}


def test_a_sleeping_vllm_is_paused():
    body = page("vllm_v1.txt").replace(b'sleep_state="awake"} 1.0', b'sleep_state="awake"} 0.0')
    assert read(VLLM.pages[0], body).awake == 0


def test_sglang_counts_the_tokens_that_are_computed_now_and_not_those_of_ended_requests():
    seen = read(SGLANG.pages[0], page("sglang.txt"))
    assert seen.counters == {"realtime_tokens": 1000005}
    assert (seen.completed, seen.own_demands) == (900, {"running": 6, "waiting": 40})


def test_tgi_says_its_queue_by_the_router():
    seen = read(TGI.pages[0], page("tgi.txt"))
    assert (seen.completed, seen.counters, seen.demands) == (8, {"batches": 309}, {"queue": 3, "batch": 1})
    assert seen.own_demands == {}


def test_triton_sums_its_models():
    seen = read(TRITON.pages[0], page("triton.txt"))
    assert (seen.completed, seen.counters, seen.demands) == (90005, {"executions": 41000}, {"pending": 3})


def test_llama_cpp_as_it_really_answers():
    slots, metrics = (read(which, page(name)) for which, name in zip(LLAMA_CPP.pages, _LLAMA, strict=True))
    assert slots.own_demands == {"processing": 0}
    assert set(slots.gauges) == {"decoded", "prompt_processed", "tasks"}
    assert metrics.counters == {"decodes": 7, "prompt_tokens": 11, "predicted_tokens": 7}
    assert metrics.own_demands == {"deferred": 0}


_LLAMA = ("llama_cpp_slots.json", "llama_cpp_metrics.txt")


def test_a_slot_that_was_never_used_has_no_progress_yet_and_nobody_waits():
    seen = read(LLAMA_CPP.pages[0], b'[{"id":0,"n_ctx":512,"speculative":false,"is_processing":false}]')
    assert (seen.gauges, seen.own_demands) == ({}, {"processing": 0})


def test_slots_of_busy_and_idle_tasks_are_summed():
    busy = {"is_processing": True, "id_task": 5, "n_prompt_tokens_processed": 64, "next_token": [{"n_decoded": 3}]}
    idle = {"is_processing": False, "id_task": 2, "n_prompt_tokens_processed": 8, "next_token": [{"n_decoded": 1}]}
    seen = read(LLAMA_CPP.pages[0], json.dumps([busy, idle]).encode())
    assert seen.gauges == {"decoded": 4, "prompt_processed": 72, "tasks": 7}
    assert seen.own_demands == {"processing": 1}


def test_koboldcpp_says_queue_and_work_by_its_web_threads():
    perf, check = PRESETS["koboldcpp"].pages
    seen = read(perf, json.dumps(KOBOLD).encode())
    assert (seen.completed, seen.demands) == (21, {"queue": 2, "in_work": 1})
    assert read(perf, json.dumps({**KOBOLD, "queue": 0, "idle": 1}).encode()).demands == {"queue": 0, "in_work": 0}
    assert read(check, b'{"results": [{"text": "abc"}]}').gauges == {"text_length": 3}
    assert read(check, b'{"results": [{"text": ""}]}').gauges == {}, "with a generation key it is always empty"


def test_comfyui_counts_its_queue_and_names_the_newest_result():
    queue, history = PRESETS["comfyui"].pages
    seen = read(queue, b'{"queue_running": [[1, "a", {}]], "queue_pending": [[2, "b", {}], [3, "c", {}]]}')
    assert seen.demands == {"running": 1, "pending": 2}
    assert read(history, json.dumps(HISTORY).encode()).gauges == {"newest_prompt": 7}
    assert read(history, b"{}").gauges == {}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html><body>busy</body></html>", "not a page of metrics"),
        (b'{"detail": "Not Found"}', "not a page of metrics"),
        (b"vllm:num_requests_running 1", "cut off"),
        (b"vllm:num_requests_running{a=\n", "cannot be read"),
        (b"vllm:num_requests_running one\n", "cannot be read"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_a_page_of_metrics_that_is_none_says_so(body, why):
    with pytest.raises(BadPageError, match=why):
        parse_metrics(body, frozenset({"vllm:num_requests_running"}))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e300"])
def test_a_metric_that_is_no_number_of_anything_is_not_read(value):
    samples = parse_metrics(f"jobs {value}\njobs_ok 3\n".encode(), frozenset({"jobs"}))
    assert metric_value(samples, ("jobs",), {}) is None


def test_a_metric_that_was_renamed_is_not_read_and_never_0():
    seen = read(VLLM.pages[0], b"vllm:requests_done_total 5\n")
    assert (seen.completed, seen.counters, seen.gauges) == (None, {}, {})
    assert seen.own_demands == {"running": None, "waiting": None}
    assert seen.reading(_NO_GPU).own_demand is None


def test_a_negative_counter_is_not_read():
    body = page("tgi.txt").replace(b"tgi_request_success 8", b"tgi_request_success -8")
    assert read(TGI.pages[0], body).completed is None


@pytest.mark.parametrize(
    ("document", "expression"),
    [
        ({"n": "12"}, "n"),
        ({"n": None}, "n"),
        ({"n": float("nan")}, "n"),
        ({"n": 10**30}, "n"),
        ({}, "n"),
        ({"n": []}, "n"),
        ({"n": [1, None]}, "n"),
        ({"n": {"a": 1}}, "n"),
        ({"n": 3}, "length(n)"),
    ],
)
def test_what_json_does_not_say_plainly_is_not_read(document, expression):
    assert json_value(document, expression) is None


def test_numbers_and_flags_of_a_list_are_summed():
    assert json_value([{"a": 1, "b": True}, {"a": 2.5, "b": False}], "[].a") == 3.5
    assert json_value([{"a": 1, "b": True}, {"a": 2.5, "b": False}], "[].b") == 1


@pytest.mark.parametrize("body", [b"<html>", b"", b"{", b"\xff", b"[" * 100000])
def test_what_is_no_json_says_so(body):
    with pytest.raises(BadPageError):
        parse_json(body)


def test_a_demand_of_which_a_part_is_missing_is_not_empty():
    gathered = Gathered(demands={"running": 0.0, "pending": None})
    assert gathered.reading(_NO_GPU).demand is None
    assert Gathered(demands={"running": 2.0, "pending": None}).reading(_NO_GPU).demand == 2
    assert Gathered(demands={"running": 0.0, "pending": 0.0}).reading(_NO_GPU).demand == 0


_NO_GPU = GpuLook()
