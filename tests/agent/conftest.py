"""The driver of the node, for tests of the collector nvml; and a spool."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.spool import Spool
from tests.agent.nvml_machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.fixture
async def spool(tmp_path: Path) -> AsyncIterator[Spool]:
    spool = Spool(tmp_path, 1024 * 1024)
    await spool.open()
    yield spool
    await spool.close()
