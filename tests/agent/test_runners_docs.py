"""docs/runners.md: its examples load, its table has every preset, and its recipes read what such a runner shows."""

import os
import re
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.runner_config import RunnerConfig
from agent.runner_reading import GpuLook
from agent.runners.plan import plan_of
from agent.runners.presets import PRESETS
from agent.runners.read import RunnerReader
from tests.agent.answering import Reply, answering
from wire.configfile import load_section

PAGE = (Path(__file__).parents[2] / "docs/runners.md").read_text()

EXAMPLES, RECIPES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def loaded(folder: Path, block: str) -> dict[str, RunnerConfig]:
    path = folder / "config.yaml"
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    path.write_text(f"agent:\n  bus: {{insecure: true}}\n{indented}")
    return {runner.name: runner for runner in load_section(path, "agent", AgentConfig).runners}


def each_alone(block: str) -> dict[str, str]:
    """A node may watch eight runners; these are more."""
    entries = re.split(r"(?m)^(?=  - name: )", block.removeprefix("runners:\n"))
    return {re.match(r"  - name: ([a-z0-9-]+)", entry)[1]: f"runners:\n{entry}" for entry in entries if entry}


def test_the_examples_load(tmp_path):
    assert list(loaded(tmp_path, EXAMPLES)) == ["chat", "ollama", "nightly", "training"]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_in_the_table_with_its_class(name):
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}` |" in line]
    assert rows
    assert any(f"| {PRESETS[name].signal_class} |" in row for row in rows)


A1111 = {"progress": 0.4, "state": {"job_count": 2, "job_no": 1, "sampling_step": 13}, "current_image": None}
INVOKE = {"queue": {"pending": 3, "in_progress": 1, "completed": 40}, "processor": {"is_started": True}}
METRICS = """\
localai_billed_requests_total{backend="llama-cpp"} 12
ray_serve_deployment_request_counter_total{deployment="a"} 4000
ray_serve_deployment_request_counter_total{deployment="b"} 1000
ray_serve_deployment_queued_queries{deployment="a"} 4
"""
TRTLLM = "trtllm_request_success_total 9\ntrtllm_generation_tokens_total 8000\n"
PAGES = {
    "/v1/models": {"data": [{"id": "the-loaded-id"}]},
    "/health": {"status": "ok"},
    "/props": {"is_sleeping": False},
    "/slots": [{"id_task": 4, "is_processing": True, "next_token": [{"n_decoded": 70}]}],
    "/metrics": METRICS,
    "/prometheus/metrics": TRTLLM,
    "/sdapi/v1/progress?skip_current_image=true": A1111,
    "/api/v1/queue/default/status": INVOKE,
}
LINES = {
    "tabby": "INFO: Metrics (ID: 5d): 120 tokens generated in 3.1 seconds",
    "speaches": 'INFO: 127.0.0.1:4444 - "POST /v1/audio/transcriptions HTTP/1.1" 200 OK',
    "celery": "[INFO/ForkPoolWorker-1] Task app.make[4f] succeeded in 0.2s: None",
    "slurm-job": "step 120 loss 1.2",
}
REDIS = """#!/bin/sh
case "$1" in eval) echo 77;; llen) echo 5;; esac
"""
READ = {  # completed, finer progress, who waits by somebody's word
    "lm-studio": (None, {}, None),
    "localai": (12, {}, None),
    "tabby": (1, {}, None),
    "textgen": (None, {"decoded": 70, "tasks": 4}, None),
    "trtllm": (9, {"progress_0": 8000}, None),
    "speaches": (1, {}, 2),
    "a1111": (None, {"progress_0": 14}, 2),
    "invokeai": (40, {}, 4),
    "ray-serve": (5000, {}, 4),
    "celery": (1, {}, 5),
    "rq": (77, {}, 5),
    "slurm-job": (None, {"progress_0": 120, "progress_1": 1}, 1),
}


def test_every_recipe_is_tried_and_in_the_table_with_its_class(tmp_path):
    recipes = each_alone(RECIPES)
    assert recipes.keys() == READ.keys()
    for name, block in recipes.items():
        [config] = loaded(tmp_path, block).values()
        assert f"| {name} | {plan_of(config, 30.0).signal_class} |" in PAGE


@pytest.mark.parametrize("name", READ)
async def test_a_recipe_reads_what_its_runner_shows(tmp_path, monkeypatch, name):
    folders = [tmp_path / folder for folder in ("data/run", "data/audio/waiting", "var/log", "etc/gpu-oncall", "bin")]
    for folder in folders:
        folder.mkdir(parents=True)
    for file in ("1.wav", "2.wav"):
        (folders[1] / file).touch()
    (folders[0] / "step.txt").write_text("120\n")
    (folders[0] / "pid").write_text("1")
    (folders[3] / "tabby.headers").write_text("Authorization: Bearer x\n")
    (folders[4] / "redis-cli").write_text(REDIS)
    (folders[4] / "redis-cli").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folders[4]}:{os.environ['PATH']}")
    log = folders[0] / "train.log" if name == "slurm-job" else folders[2] / f"{name}.log"
    log.write_text("started\n")
    async with answering() as server:
        server.routes |= {path: Reply(page) for path, page in PAGES.items()}
        block = re.sub(r"http://127\.0\.0\.1:\d+", server.url, each_alone(RECIPES)[name])
        block = re.sub(r"(?<=[ \"])/(data|var|etc)/", rf"{tmp_path}/\1/", block)
        [config] = loaded(tmp_path, block).values()
        reader = RunnerReader(config)
        await reader.read(GpuLook())
        with log.open("a") as file:
            file.write(f"{LINES.get(name, 'other')}\n")
        seen = await reader.read(GpuLook())
    assert (seen.completed, seen.gauges, seen.demand) == READ[name]
    assert seen.config_error is None


def test_ollamas_lines_in_the_journal_are_those_of_generations_that_ended_well():
    pattern = re.compile(r'\| 200 \|.*POST +"/(api|v1)/')
    assert pattern.pattern in PAGE
    assert pattern.search('[GIN] 2026/11/30 - 03:00:01 | 200 |  2.1s | 127.0.0.1 | POST     "/api/chat"')
    assert not pattern.search('[GIN] 2026/11/30 - 03:00:01 | 500 |  2.1s | 127.0.0.1 | POST     "/api/chat"')
    assert not pattern.search('[GIN] 2026/11/30 - 03:00:01 | 200 |  2.1s | 127.0.0.1 | GET      "/api/ps"')
