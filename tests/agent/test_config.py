"""The agent's section: wrong files and the sentence that each gets; config.yaml documents every key."""

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import fields

from agent.config import AgentConfig, Bus, load
from agent.remedy_config import Reboot
from agent.runner_config import Canary, RunnerConfig
from wire.configfile import ConfigError, load_section
from wire.subjects import is_node_name
from wire.yamllines import parse

ROOT = Path(__file__).parents[2]
WRONG = sorted((ROOT / "tests/cases/config/agent").glob("*.yaml"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_config_gets_its_sentence(path):
    with pytest.raises(ConfigError) as error:
        load(path)
    assert str(error.value).replace(str(path), "config.yaml") == path.with_suffix(".txt").read_text().rstrip("\n")
    assert "hush" not in str(error.value)


def test_the_shipped_file_says_the_defaults():
    shipped = load_section(ROOT / "config.yaml", "agent", AgentConfig)
    assert shipped == AgentConfig()


def test_the_shipped_file_documents_every_key_and_its_examples_load(tmp_path):
    text = re.sub(r"^( *)#(\w|- )", r"\1\2", (ROOT / "config.yaml").read_text(), flags=re.MULTILINE)
    path = tmp_path / "config.yaml"
    path.write_text(text)
    load(path)
    documented = {".".join(map(str, place)) for place in parse(text).lines}
    assert set(_keys(AgentConfig, "agent")) <= documented
    assert set(_keys(RunnerConfig, "agent.runners.0")) | set(_keys(Canary, "agent.runners.0.canary")) <= documented
    assert set(_keys(Reboot, "agent.remedies.reboot_node")) - {"agent.remedies.reboot_node.command"} <= documented
    limits = {"timeout", "minimum_interval", "per_day"}
    assert {f"agent.remedies.restart_runner.chat.{key}" for key in limits} <= documented


def _keys(struct: type[msgspec.Struct], above: str):
    for info in fields(struct):
        yield f"{above}.{info.name}"
        if isinstance(info.type, type) and issubclass(info.type, msgspec.Struct):
            yield from _keys(info.type, f"{above}.{info.name}")


def test_without_a_name_the_node_takes_the_hosts_made_to_fit():
    assert is_node_name(load(ROOT / "config.yaml").node)


def test_demo_may_be_faster_than_real_life(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "agent: {mode: demo, window: 2s, sample_every: 200ms, heartbeat_every: 500ms, bus: {insecure: true}}\n"
    )
    assert load(path).window.total_seconds() == 2


def test_the_key_lies_in_the_state_dir_unless_a_file_is_named():
    assert AgentConfig(state_dir=Path("/s")).key_file() == Path("/s/node.nkey")
    assert AgentConfig(bus=Bus(credentials=Path("/k"))).key_file() == Path("/k")
