"""Which config.yaml counts: the option, the variable, the folder, /etc, and nothing at all."""

from pathlib import Path

import pytest

from agent.config import AgentConfig
from agent.config_file import PLACES, find_config, load_config, require_config
from wire.configfile import ConfigError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPU_ONCALL_CONFIG", raising=False)
    if PLACES[1].exists():
        pytest.skip("this machine has a config of its own")
    return tmp_path


def test_the_option_counts_before_everything(folder):
    (folder / "config.yaml").touch()
    assert find_config(Path("mine.yaml"), {"GPU_ONCALL_CONFIG": "other.yaml"}) == Path("mine.yaml")


def test_then_the_variable_and_then_the_folder(folder):
    (folder / "config.yaml").touch()
    assert find_config(None, {"GPU_ONCALL_CONFIG": "other.yaml"}) == Path("other.yaml")
    assert find_config(None, {"GPU_ONCALL_CONFIG": ""}) == Path("config.yaml")
    assert find_config(None, {}) == Path("config.yaml")


def test_without_any_file_there_are_defaults_for_those_who_can_do_with_them(folder):
    assert find_config(None, {}) is None
    assert load_config(None) == AgentConfig()
    told = r"there is no config file: give --config PATH or set GPU_ONCALL_CONFIG, or let gpu-oncall-agent join make"
    with pytest.raises(ConfigError, match=told):
        require_config(None)


def test_a_file_that_was_named_must_exist(folder):
    with pytest.raises(ConfigError, match=r"mine\.yaml: cannot be read"):
        load_config(Path("mine.yaml"))


def test_a_pods_node_is_the_one_that_the_environment_names_unless_the_file_names_one(folder, monkeypatch):
    monkeypatch.setenv("GPU_ONCALL_NODE", "GPU_7.cluster.example")
    (folder / "config.yaml").write_text("agent: {}\n")
    assert require_config(None).node == "gpu-7"
    (folder / "config.yaml").write_text("agent: {node: mine}\n")
    assert require_config(None).node == "mine"
    monkeypatch.setenv("GPU_ONCALL_NODE", "---")
    (folder / "config.yaml").write_text("agent: {}\n")
    with pytest.raises(ConfigError, match=r"agent.node: host name '---' gives no usable node name"):
        require_config(None)
