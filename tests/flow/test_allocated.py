"""A GPU that is idle and given to a pod, from the kubelet's socket to the card."""
# ruff: noqa: F811, F401 - fixtures of another story

import asyncio
import json

import pytest
import yaml

from tests.fake_kubelet import FakeKubelet, device, pod
from tests.fake_nvml import fake_uuid
from tests.flow.test_real_path import IS_HOST, driver, installed, programs


@pytest.mark.skipif(not IS_HOST, reason="not in the host's PID namespace: an empty process list proves nothing here")
async def test_a_gpu_that_a_kubelet_gives_away_leaves_its_card_although_nothing_runs_on_it(
    line,
    installed,
    workspace,
    driver,
    tmp_path,
):
    config = yaml.safe_load(installed.read_text())
    config["agent"]["schedulers"] = {"kubelet_socket": str(tmp_path / "kubelet.sock")}
    installed.write_text(yaml.safe_dump(config))
    bot, agent = programs(installed, workspace, driver)
    with FakeKubelet(tmp_path / "kubelet.sock") as kubelet:
        async with line.running(bot, agent):
            card = (await line.until(lambda: line.cards))[0]
            kubelet.answer = pod("train-0", device(fake_uuid(2)))
            await line.until(lambda: '"actions"' not in json.dumps(card.blocks))
            assert "allocated: pod ml/train-0" in json.dumps(card.blocks)
            await told_idle(line, workspace)
    assert line.cards == [card]


async def told_idle(line, workspace):
    """Asked until it is: in a window that a busy machine spoiled nobody knows that it idles."""
    async with asyncio.timeout(150):
        while True:
            seen = await workspace.person("bob").command("/gpu-candidates", "")
            await line.until(lambda seen=seen: seen.ephemerals)
            if "allocated, idle" in json.dumps(seen.ephemerals[-1].blocks):
                return
            await asyncio.sleep(1)
