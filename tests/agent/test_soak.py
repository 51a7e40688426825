"""The agent's half of `make soak`, shorter: neither memory nor file handles grow."""

from bench.soak.agent import measured
from bench.soak.row import broken
from tests.compiler import require_compiler


async def test_neither_memory_nor_file_handles_of_the_agent_grow(tmp_path):
    require_compiler()
    rows = await measured(tmp_path, samples=300)
    assert broken(rows) == []
