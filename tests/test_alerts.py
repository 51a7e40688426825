"""Every alert rule fires in a real Prometheus when its fault is there, and none while everything is well."""

import asyncio
import contextlib
import json
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from agent import probes as agent_probes
from agent.vitals import Vitals as AgentVitals
from bot.probes import Vitals
from bot.probes.metrics import metrics_text
from demo.machine import free_ports
from wire.pages import Page, pages

RULES = Path(__file__).parents[1] / "deploy" / "monitoring" / "alerts.yaml"
DASHBOARD = RULES.with_name("dashboard.json")
BOT = Vitals(is_bus_connected=True, is_database_answering=True, stream_bytes=1, stream_max_bytes=10, pending=0)
AGENT = AgentVitals(is_bus_connected=True, sample_age_seconds=5.0, spool_reports=0, spool_bytes=0)
BOT_FAULTS = {
    "GpuOncallNotWorking": {"is_bus_connected": False},
    "GpuOncallStreamBehind": {"pending": 9, "oldest_pending_seconds": 700.0},
    "GpuOncallStreamFills": {"stream_bytes": 8},
    "GpuOncallSlackBehind": {"outbox_waiting": 3, "outbox_oldest_seconds": 130.0},
    "GpuOncallNodesSilent": {"nodes": {"heard": 3, "silent": 1}},
    "GpuOncallClockSkew": {"clock_skew_max_seconds": 61.0},
    "GpuOncallWindowsRefused": {},  # a count that grows, below
}
AGENT_FAULTS = {
    "GpuOncallAgentBlind": {"sample_failed": True},
    "GpuOncallAgentCutOff": {"is_bus_connected": False},
    "GpuOncallAgentSpoolGrows": {"spool_reports": 13},
}
SPECIAL = ("GpuOncallDown", "GpuOncallTwoWork")
PROMETHEUS = shutil.which("prometheus")


def rules():
    return yaml.safe_load(RULES.read_text())["groups"][0]["rules"]


def quick_rules():
    """The same expressions with short waits."""
    text = re.sub(r"for: \d+m", "for: 1s", RULES.read_text())
    return text.replace("[1h]", "[6s]")


def test_every_rule_has_its_fault_here_and_says_what_to_do():
    assert {rule["alert"] for rule in rules()} == {*BOT_FAULTS, *AGENT_FAULTS, *SPECIAL}
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "action"}


def names_on_pages():
    text = metrics_text(replace(BOT, oldest_pending_seconds=0.0, fence=1), "1").decode()
    text += agent_probes.metrics_text(AGENT).decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def test_rules_and_dashboard_name_only_metrics_that_there_are():
    used = set(re.findall(r"gpu_oncall_[a-z_]+", RULES.read_text() + DASHBOARD.read_text()))
    assert used <= names_on_pages()


def test_every_metric_is_described_in_the_docs():
    described = (RULES.parents[2] / "docs" / "metrics.md").read_text()
    missing = {name for name in names_on_pages() if name.startswith("gpu_oncall") and f"`{name}`" not in described}
    assert not missing


class Target:
    """Something to scrape: a page of vitals, which may change with each look."""

    def __init__(self, stack, text):
        self._text = text
        self.looks = 0
        self.port = stack.enter_context(pages(("127.0.0.1", 0), {"/metrics": self._page}))

    async def _page(self):
        self.looks += 1
        return Page(200, self._text(self.looks))


def bot_text(changes):
    def text(looks):
        counts = {"windows_rejected": looks} if not changes else {}
        return metrics_text(replace(BOT, counts=counts, **changes), "1")

    return text


def targets(stack):
    """By job, so that what is counted over all bots of a job is counted apart; "well" has no fault."""
    well = {"gpu-oncall-well": [Target(stack, lambda looks: metrics_text(BOT, "1"))]}
    well["gpu-oncall-agent-well"] = [Target(stack, lambda looks: agent_probes.metrics_text(AGENT))]
    bots = {f"gpu-oncall-{name}": [Target(stack, bot_text(changes))] for name, changes in BOT_FAULTS.items()}
    agents = {
        f"gpu-oncall-agent-{name}": [
            Target(stack, lambda looks, changes=changes: agent_probes.metrics_text(replace(AGENT, **changes)))
        ]
        for name, changes in AGENT_FAULTS.items()
    }
    both = [Target(stack, lambda looks: metrics_text(BOT, "1")) for _ in range(2)]
    ports = {job: [one.port for one in those] for job, those in {**well, **bots, **agents}.items()}
    return {**ports, "gpu-oncall-GpuOncallTwoWork": [one.port for one in both], "gpu-oncall-GpuOncallDown": [1]}


def config(folder, jobs):
    (folder / "rules.yaml").write_text(quick_rules())
    scrape = [
        {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        for job, ports in jobs.items()
    ]
    pace = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    whole = {"global": pace, "rule_files": ["rules.yaml"], "scrape_configs": scrape}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(whole))


@contextlib.contextmanager
def prometheus(folder, port):
    command = [PROMETHEUS, f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


async def firing(port):
    def ask():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=30) as answer:
                return json.load(answer)["data"]["alerts"]
        except OSError:
            return []

    alerts = await asyncio.to_thread(ask)
    return {(one["labels"]["alertname"], one["labels"]["job"]) for one in alerts if one["state"] == "firing"}


@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on this machine (Debian: apt install prometheus)")
async def test_every_rule_fires_at_its_fault_and_none_while_all_is_well(tmp_path):
    wanted = {(name, f"gpu-oncall-{name}") for name in (*BOT_FAULTS, *SPECIAL)}
    wanted |= {(name, f"gpu-oncall-agent-{name}") for name in AGENT_FAULTS}
    [port] = free_ports(1)
    with contextlib.ExitStack() as stack:
        config(tmp_path, targets(stack))
        stack.enter_context(prometheus(tmp_path, port))
        async with asyncio.timeout(60):
            while not wanted <= (seen := await firing(port)):
                await asyncio.sleep(0.2)
    # Nothing fires where it was not wanted: only a bot that does not work may be told twice.
    assert {job for _, job in seen} == {job for _, job in wanted}
    assert seen - wanted == set()
