"""Every command in README and docs is one that a test runs, or it stands here with the reason why none can."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent.__main__ import main as agent_command
from bot.__main__ import cli as bot_command
from tests.accepted import parses

ROOT = Path(__file__).parent.parent
COMMANDS = Path(sys.executable).parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])

# Run here: exit statuses that are right on a machine with or without a GPU.
RUN = {
    "gpu-oncall-agent once": (0, 3),
    "gpu-oncall-agent once --json": (0, 3),
    "gpu-oncall-agent once --fixture": (0,),
    "gpu-oncall-agent once --collector nvidia-smi": (0, 3),
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
    "make soak": "tests/agent/test_soak.py and tests/flow/test_soak.py are the same, shorter",
    "make scale": "tests/test_scale.py is the same with five nodes",
    "gpu-oncall-agent capture --for 60s node.jsonl": "tests/agent/test_capture.py, for less than a minute",
    'gpu-oncall-agent release --for 30m --reason "reset GPU 3"': "tests/agent/test_run_nvml.py",
    "gpu-oncall-agent release --end": "tests/agent/test_run_nvml.py",
    "make chaos": "by hand: it takes long",
    "make pictures": "by hand: it changes files; tests/bot/test_card_states.py compares them",
    "make lock": "by hand: it asks the package index",
    "gpu-oncall run --config oncall/config.yaml": "tests/flow/test_real_path.py",
    "gpu-oncall-agent run --config oncall/config.yaml": "tests/flow/test_real_path.py",
    "curl http://127.0.0.1:9464/readyz": "tests/flow/test_probes.py",
    "gpu-oncall node add gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall-agent join TOKEN": "tests/bot/test_enrol.py",
    "gpu-oncall node list": "tests/bot/test_enrol.py",
    "gpu-oncall node rotate gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall node remove gpu-01": "tests/bot/test_enrol.py",
    "gpu-oncall rotate-signing-key": "tests/flow/test_signing_key.py",
    "gpu-oncall bus check": "tests/bot/test_rights.py",
    "gpu-oncall bus print-config --name nats-1 --route nats-1:6222 --route nats-2:6222 --route nats-3:6222": (
        "tests/bot/test_fleet_of_nodes.py, three servers on loopback"
    ),
    "gpu-oncall check": "tests/bot/test_check.py",
    'gpu-oncall approve 12 --reason "agreed with the team"': "tests/bot/test_remedy_terminal.py",
    'gpu-oncall deny 12 --reason "it works again"': "tests/bot/test_remedy_terminal.py",
    'gpu-oncall stop-remedies --reason "the cooling fails"': "tests/bot/test_remedy_terminal.py",
    "gpu-oncall stop-remedies --resume": "tests/bot/test_remedy_terminal.py",
    "gpu-oncall audit show 12": "tests/bot/test_remedy_terminal.py",
    "gpu-oncall audit verify --head 57:3f2a9c81d2e40b17": "tests/bot/test_remedy_terminal.py",
    "gpu-oncall check --json": "tests/bot/test_check.py",
    "gpu-oncall incidents": "tests/flow/test_people.py asks a running bot, and the record of one that is stopped",
    "gpu-oncall status": "tests/flow/test_people.py",
    "gpu-oncall candidates": "tests/bot/test_terminal.py",
    "gpu-oncall why gpu-07 3": "tests/flow/test_people.py",
    "gpu-oncall ack 12": "tests/flow/test_people.py",
    "gpu-oncall snooze 12 2h waiting for parts": "tests/flow/test_people.py",
    "gpu-oncall claim gpu-07 3 4h fine-tuning": "tests/flow/test_people.py",
    "gpu-oncall release gpu-07 3": "tests/flow/test_people.py",
    "gpu-oncall report": "tests/flow/test_people.py",
    "gpu-oncall report 90 --html report.html": "tests/bot/test_weekly_report.py",
    "gpu-oncall replay --since 7d": "tests/bot/test_replay.py, and tests/flow/test_stall.py on a bot's own record",
    "gpu-oncall db backup /srv/backup/gpu-oncall-monday.sqlite": "tests/bot/test_backup.py",
    "gpu-oncall db restore /srv/backup/gpu-oncall-monday.sqlite": "tests/bot/test_backup.py",
    "gpu-oncall db restore /srv/backup/gpu-oncall-monday.sqlite --replace": "tests/bot/test_backup.py",
    "gpu-oncall db restored": "tests/bot/test_backup.py",
    "gpu-oncall replay --since 24h --config other.yaml": "tests/bot/test_replay.py",
    "python3 -m venv gpu-oncall-venv": "by hand: it asks the package index",
    'gpu-oncall-venv/bin/pip install ".[agent,bot]"': "by hand: it asks the package index",
}

# Of docs/install-*.md: beginnings of commands, since most need an engine, a cluster or root on a machine to be changed.
_SYSTEMD = "tests/test_deploy_boot.py on a Debian of its own, tests/test_deploy_systemd.py on a copy of /etc"
_IMAGES = "by hand: it needs Docker; tests/test_deploy_images.py does the same with buildah and chroot"
_CLUSTER = "by hand: it needs a cluster; tests/test_deploy_kubernetes.py reads every manifest"
BEGINNINGS = {
    "sudo python3 -m venv /opt/gpu-oncall": "tests/test_package.py, elsewhere",
    "sudo /opt/gpu-oncall/bin/pip install ": "tests/test_package.py, elsewhere",
    "sudo /opt/gpu-oncall/bin/gpu-oncall install-service": _SYSTEMD,
    "sudo /opt/gpu-oncall/bin/gpu-oncall-agent install-service": _SYSTEMD,
    "sudo /opt/gpu-oncall/bin/gpu-oncall node add gpu-01": "tests/bot/test_enrol.py",
    "sudo /opt/gpu-oncall/bin/gpu-oncall-agent join TOKEN": "tests/bot/test_enrol.py",
    "sudo /opt/gpu-oncall/bin/gpu-oncall-agent check": "tests/agent/test_check.py",
    "sudo sh -c 'set -a; . /etc/gpu-oncall/bot.env; exec /opt/gpu-oncall/bin/gpu-oncall ": "tests/bot/test_check.py",
    "sudo chmod 600 /etc/gpu-oncall/bot.env": "a command of every system",
    "sudo systemctl disable --now gpu-oncall-agent": "a command of every machine with systemd",
    "sudo rm ": "a command of every system",
    "sudo install ": "a command of every system",
    "sudo tee slack_": "a command of every system",
    "cd /": "a command of every system",
    "docker build --target ": _IMAGES,
    "docker push registry.example/": _IMAGES,
    "docker compose ": "by hand: it needs Docker; tests/test_deploy_compose.py reads the file",
    "docker run ": _IMAGES,
    "docker exec gpu-oncall-agent gpu-oncall-agent check": _IMAGES,
    "kubectl create ": _CLUSTER,
    "kubectl apply --kustomize deploy/kubernetes": "tests/test_deploy_kubernetes.py lets kubectl put it together",
    "kubectl exec --namespace gpu-oncall ": _CLUSTER,
    "kubectl get pods --namespace gpu-oncall ": _CLUSTER,
}


def is_known(command: str) -> bool:
    return command in RUN or command in ELSEWHERE or command.startswith(tuple(BEGINNINGS))


def ours_in(command: str) -> list[str]:
    """What a long command lets one of our programs do, in a container, a pod, or under /opt."""
    words = shlex.split(command)
    at = [number for number, word in enumerate(words) if Path(word).name in ("gpu-oncall", "gpu-oncall-agent")]
    return [Path(words[at[-1]]).name, *words[at[-1] + 1 :]] if at else []


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(("#", "export "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_tested_somewhere(page):
    unknown = [command for command in commands(page) if not is_known(command)]
    assert unknown == [], "run them in a test, or say in tests/test_docs.py why none can"


@pytest.mark.parametrize(("command", "statuses"), RUN.items(), ids=RUN)
def test_a_command_of_the_docs_does_what_it_says(command, statuses, tmp_path):
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [COMMANDS / program, *arguments], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=60
    )
    assert done.returncode in statuses, done.stderr
    assert "Traceback" not in done.stderr


INSTALLING = [page for page in PAGES if page.name.startswith("install-")]


@pytest.mark.parametrize("page", INSTALLING, ids=lambda page: page.name)
def test_what_an_installation_asks_of_our_programs_is_what_they_take(page):
    asked = [ours_in(command) for command in commands(page) if "docker build" not in command]
    asked = [words for words in asked if len(words) > 1 and not words[1].startswith(("-", "."))]
    for program, *arguments in asked:
        parses({"gpu-oncall": bot_command, "gpu-oncall-agent": agent_command}[program], arguments)
    assert len(asked) >= 4


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
