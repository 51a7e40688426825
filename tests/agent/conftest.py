"""The driver of the node, for tests of the collector nvml."""

from pathlib import Path

import pytest

from tests.agent.nvml_machine import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)
