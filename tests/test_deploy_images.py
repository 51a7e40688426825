"""Both images: built from a base that is made here, then started read-only, as their own user, without rights."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.images import Builder, Image, require_tools, run
from tests.nats_server import free_port
from tests.programs import started

pytestmark = pytest.mark.slow  # some minutes: it fetches a system and all dependencies

USER = 10001
MIB = 1024 * 1024
BOT_STATE = "/var/lib/gpu-oncall"
AGENT_STATE = "/var/lib/gpu-oncall-agent"


@pytest.fixture(scope="module")
def builder(tmp_path_factory) -> Iterator[Builder]:
    require_tools("buildah", "debootstrap", "unshare", "setpriv")
    folder = tmp_path_factory.mktemp("images")
    yield Builder(folder)
    shutil.rmtree(folder)  # two gigabytes


@pytest.fixture(scope="module")
def base_bytes(builder) -> int:
    return builder.base()


@pytest.fixture(scope="module")
def agent(builder, base_bytes) -> Image:
    return builder.target("agent")


@pytest.fixture(scope="module")
def agent_for_kubernetes(builder, base_bytes) -> Image:
    """As docs/install-kubernetes.md builds it."""
    return builder.target("agent", REQUIREMENTS="k8s")


@pytest.fixture(scope="module")
def bot(builder, base_bytes) -> Image:
    return builder.target("bot")


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Path:
    """One for both, with free ports; folders are the defaults."""
    folder = tmp_path_factory.mktemp("config")
    listen, monitor = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    document = {"bot": {"mode": "shadow", "bus": {"embedded": {"listen": listen, "monitor": monitor}}}}
    document["bot"]["metrics"] = {"listen": f"127.0.0.1:{free_port()}"}
    document["agent"] = {"node": "gpu-01", "bus": {"servers": [f"tls://{listen}"]}}
    document["agent"]["metrics"] = {"listen": f"127.0.0.1:{free_port()}"}
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    (folder / "config.yaml").chmod(0o644)
    folder.chmod(0o755)
    return folder


def volume(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    os.chown(folder, USER, USER)
    for part in folder.parents:
        if part.stat().st_uid == os.geteuid() and part != Path("/"):
            part.chmod(part.stat().st_mode | 0o011)
    return folder


def test_images_are_small_and_start_as_a_user_that_is_not_root(agent, bot, base_bytes):
    added = {"agent": (agent.size_bytes - base_bytes) / MIB, "bot": (bot.size_bytes - base_bytes) / MIB}
    print(f"added to a base of {base_bytes / MIB:.0f} MiB: {added}")
    assert added["agent"] <= 40
    assert added["bot"] <= 250
    for image in (agent, bot):
        assert image.config["User"] == f"{USER}:{USER}"
        assert image.config["Cmd"] == ["run"]
        assert image.config["Healthcheck"]["Test"] == ["CMD", *image.config["Entrypoint"], "healthy"]


def test_only_the_image_for_kubernetes_can_ask_a_kubelet(agent, agent_for_kubernetes, config, tmp_path):
    state = volume(tmp_path / "state")

    def can_ask(image: Image) -> str:
        find = "import importlib.util as u; print(u.find_spec('grpc') is not None, u.find_spec('agent') is not None)"
        python = "/opt/gpu-oncall/bin/python3"
        return run(*image.inside(config, state, AGENT_STATE, [python, "-c", find]))

    assert can_ask(agent) == "False True\n"
    assert can_ask(agent_for_kubernetes) == "True True\n"
    version = run(*agent_for_kubernetes.command(config, state, AGENT_STATE, ["--version"]))
    assert version == run(*agent.command(config, state, AGENT_STATE, ["--version"]))
    print(f"with grpcio {(agent_for_kubernetes.size_bytes - agent.size_bytes) / MIB:.0f} MiB more")


async def test_they_start_read_only_join_and_say_that_they_are_well(agent, bot, config, tmp_path):
    bot_state, agent_state = volume(tmp_path / "bot"), volume(tmp_path / "agent")

    def in_bot(*arguments: str) -> str:
        return run(*bot.command(config, bot_state, BOT_STATE, arguments))

    def in_agent(*arguments: str) -> str:
        return run(*agent.command(config, agent_state, AGENT_STATE, arguments))

    assert f"made  {BOT_STATE}/bot.nkey (secret)" in in_bot("init", "--config", "/etc/gpu-oncall/config.yaml")
    async with started(bot.command(config, bot_state, BOT_STATE), bot_state) as bot_runs:
        await bot_runs.says("bot runs")
        token = in_bot("node", "add", "gpu-01").split()[-1]
        assert "joined as node gpu-01" in in_agent("join", token)
        async with started(agent.command(config, agent_state, AGENT_STATE), agent_state) as agent_runs:
            await agent_runs.says("bus connected")
            assert "gpu-01" in in_bot("node", "list")
            assert in_agent("healthy") == in_bot("healthy") == "ok\n"
    for image, state, state_at in ((bot, bot_state, BOT_STATE), (agent, agent_state, AGENT_STATE)):
        with pytest.raises(AssertionError, match=r"no (bot|agent) runs"):
            run(*image.command(config, state, state_at, ["healthy"]))
