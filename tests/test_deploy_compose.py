"""deploy/compose.yaml: its services start what our programs take, with no right that they do not need."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.__main__ import main as agent_command
from bot.__main__ import cli as bot_command
from tests.accepted import environment_names, parses

ROOT = Path(__file__).parents[1]
FILE = ROOT / "deploy" / "compose.yaml"
COMMANDS = {"gpu-oncall-agent": agent_command, "gpu-oncall": bot_command}
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]
each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_compose_takes_the_file():
    words = ["docker", "compose", "--file", str(FILE), "config", "--quiet"]
    if (
        shutil.which("docker") is None
        or subprocess.run(["docker", "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("NO DOCKER COMPOSE: whether it takes deploy/compose.yaml is NOT TESTED here")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@each_service
def test_a_service_starts_a_command_that_its_image_takes(service):
    parses(COMMANDS[service["image"]], service["command"])
    assert f"FROM base AS {service['build']['target']}\n" in (ROOT / "Dockerfile").read_text()
    assert set(service["environment"]) <= environment_names()


@each_service
def test_a_service_is_no_root_and_writes_into_its_volume_only(service):
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "privileged" not in service
    assert service["volumes"] == ["./oncall:/oncall"]


def test_the_agent_sees_the_hosts_processes():
    assert (SERVICES["agent"]["pid"], SERVICES["agent"]["cgroup"]) == ("host", "host")


def test_every_secret_is_a_file_that_the_bot_is_told_of():
    document = yaml.safe_load(FILE.read_text())
    told = {
        value.removeprefix("/run/secrets/") for name, value in SERVICES["bot"]["environment"].items() if "TOKEN" in name
    }
    assert told == set(SERVICES["bot"]["secrets"]) == set(document["secrets"])
    page = (ROOT / "docs/install-docker.md").read_text()
    for secret in document["secrets"].values():
        assert re.search(rf"\b{Path(secret['file']).name}\b", page)
