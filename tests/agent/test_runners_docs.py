"""docs/runners.md: its examples load, its table has every preset, and its recipes read what such a runner shows."""

import re
from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.runner_config import HttpJson, Log, Prometheus, Source
from agent.runners.presets import PRESETS
from agent.runners.sources import source_of
from tests.agent.answering import Reply, answering
from wire.configfile import load_section

PAGE = (Path(__file__).parents[2] / "docs/runners.md").read_text()


def test_the_examples_load(tmp_path):
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    indented = "".join(f"  {line}\n" for line in block.splitlines())
    path = tmp_path / "config.yaml"
    path.write_text(f"agent:\n  bus: {{insecure: true}}\n{indented}")
    assert [runner.name for runner in load_section(path, "agent", AgentConfig).runners] == [
        "chat",
        "ollama",
        "nightly",
        "training",
    ]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_in_the_table_with_its_class(name):
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}` |" in line]
    assert rows
    assert any(f"| {PRESETS[name].signal_class} |" in row for row in rows)


A1111 = {"progress": 0.4, "state": {"job_count": 2, "sampling_step": 13}, "current_image": None}
INVOKE = {"queue": {"pending": 3, "in_progress": 1, "completed": 40}, "processor": {"is_started": True}}
LOCALAI = 'localai_billed_requests_total{backend="llama-cpp"} 12\nlocalai_tokens_total{type="completion"} 900\n'
RAY = "ray_serve_deployment_request_counter_total 5000\nray_serve_deployment_queued_queries 4\n"
RECIPES = [
    ("state.sampling_step", A1111, 13),
    ("state.job_count", A1111, 2),
    ("queue.completed", INVOKE, 40),
    ("[queue.pending, queue.in_progress]", INVOKE, 4),
    ("localai_billed_requests_total", LOCALAI, 12),
    ("localai_tokens_total", LOCALAI, 900),
    ("ray_serve_deployment_request_counter_total", RAY, 5000),
    ("ray_serve_deployment_queued_queries", RAY, 4),
]


@pytest.mark.parametrize(("what", "page", "value"), RECIPES, ids=lambda part: part if isinstance(part, str) else "")
async def test_a_recipe_reads_a_page_of_its_runner(what, page, value):
    assert what in PAGE
    async with answering() as server:
        server.routes["/page"] = Reply(page)
        is_json = isinstance(page, dict)
        url = f"{server.url}/page"
        source = Source(http_json=HttpJson(url, what)) if is_json else Source(prometheus=Prometheus(url, what))
        assert await source_of(source, None, 65536).read() == value


@pytest.mark.parametrize(
    ("match", "line"),
    [
        (
            r'\| 200 \|.*POST +"/(api|v1)/',
            '[GIN] 2026/11/30 - 03:00:01 | 200 |  2.1s | 127.0.0.1 | POST     "/api/chat"',
        ),
        ("tokens generated", "INFO: Metrics (ID: 5d): 120 tokens generated in 3.1 seconds"),
        ("succeeded", "[INFO/ForkPoolWorker-1] Task app.make[4f] succeeded in 0.2s: None"),
    ],
)
async def test_a_recipe_counts_the_lines_of_its_runner(tmp_path, match, line):
    assert match in PAGE
    (tmp_path / "log").write_text("started\n")
    source = source_of(Source(log=Log(match=match, file=tmp_path / "log")), None, 65536)
    await source.read()
    with (tmp_path / "log").open("a") as log:
        log.write(f"{line}\nother\n")
    assert await source.read() == 1
