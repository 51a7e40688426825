"""Every command in README and docs is one that a test runs, or it stands here with the reason why none can."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COMMANDS = Path(sys.executable).parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])

# Run here: exit statuses that are right on a machine with or without a GPU.
RUN = {
    "gpu-oncall-agent once": (0, 3),
    "gpu-oncall-agent once --json": (0, 3),
    "gpu-oncall-agent once --fixture": (0,),
    "gpu-oncall-agent check": (0, 1),
    "gpu-oncall-agent check --json": (0, 1),
    "gpu-oncall init oncall": (0,),
    "gpu-oncall slack manifest": (0,),
}

# Run elsewhere.
ELSEWHERE = {
    "make demo": "tests/flow/test_demo.py runs the demo; the Makefile is tested in tests/test_house_make.py",
    "make demo ARGS=--headless": "tests/flow/test_demo.py",
    "make test": "this",
    "make check": ".ci/run",
    "make lint": ".ci/run",
    "make bench": "tests/test_bench.py",
    "make fuzz": "by hand: it takes long",
    "make soak": "by hand: it takes long; tests/agent/test_soak.py is the same, shorter",
    "gpu-oncall-agent capture --for 60s node.jsonl": "tests/agent/test_capture.py, for less than a minute",
    'gpu-oncall-agent release --for 30m --reason "reset GPU 3"': "tests/agent/test_run_nvml.py",
    "gpu-oncall-agent release --end": "tests/agent/test_run_nvml.py",
    "make chaos": "by hand: it takes long",
    "make lock": "by hand: it asks the package index",
    "gpu-oncall run --config oncall/config.yaml": "tests/flow/test_real_path.py",
    "gpu-oncall-agent run --config oncall/config.yaml": "tests/flow/test_real_path.py",
    "docker run --detach --gpus all --pid=host --cgroupns=host --network host --user 0 "
    "--volume /etc/gpu-oncall:/etc/gpu-oncall:ro --volume gpu-oncall-agent:/var/lib/gpu-oncall-agent "
    "gpu-oncall-agent": "by hand: it needs Docker and a GPU",
    "curl http://127.0.0.1:9464/readyz": "tests/flow/test_probes.py",
    "gpu-oncall node add gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall-agent join TOKEN": "tests/bot/test_enrol.py",
    "gpu-oncall node list": "tests/bot/test_enrol.py",
    "gpu-oncall node rotate gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall node remove gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall bus check": "tests/bot/test_rights.py",
    "gpu-oncall bus print-config --name nats-1 --route nats-1:6222 --route nats-2:6222 --route nats-3:6222": (
        "tests/bot/test_fleet_of_nodes.py, three servers on loopback"
    ),
    "gpu-oncall check": "tests/bot/test_check.py",
    "gpu-oncall check --json": "tests/bot/test_check.py",
    "gpu-oncall incidents": "tests/flow/test_people.py asks a running bot, and the record of one that is stopped",
    "gpu-oncall status": "tests/flow/test_people.py",
    "gpu-oncall why gpu-07 3": "tests/flow/test_people.py",
    "gpu-oncall ack 12": "tests/flow/test_people.py",
    "gpu-oncall snooze 12 2h waiting for parts": "tests/flow/test_people.py",
    "gpu-oncall replay --since 7d": "tests/bot/test_replay.py, and tests/flow/test_stall.py on a bot's own record",
    "gpu-oncall replay --since 24h --config other.yaml": "tests/bot/test_replay.py",
    "python3 -m venv gpu-oncall-venv": "by hand: it asks the package index",
    'gpu-oncall-venv/bin/pip install ".[agent,bot]"': "by hand: it asks the package index",
}


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "export "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_tested_somewhere(page):
    unknown = [command for command in commands(page) if command not in RUN and command not in ELSEWHERE]
    assert unknown == [], "run them in a test, or say in tests/test_docs.py why none can"


@pytest.mark.parametrize(("command", "statuses"), RUN.items(), ids=RUN)
def test_a_command_of_the_docs_does_what_it_says(command, statuses, tmp_path):
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [COMMANDS / program, *arguments], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in statuses, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    gone = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert gone == []


def test_every_test_that_the_security_page_names_exists():
    named = set(re.findall(r"\btest_\w+", (ROOT / "docs/security.md").read_text()))
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    known = {path.stem for path in files}
    for path in files:
        known |= set(re.findall(r"def (test_\w+)", path.read_text()))
    assert named - known == set()
    assert len(named) > 10
