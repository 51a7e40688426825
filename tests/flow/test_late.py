"""What a spool flushes late is recorded and judged, and never called free now."""

from demo.gpus import gpu, play, training
from tests.flow.record import recorded_windows, rows


async def test_idle_windows_from_before_a_job_are_recorded_and_nothing_is_posted(line, tmp_path):
    recording = tmp_path / "gpus.jsonl"
    play(recording, gpu(0, 1))
    agent = line.machine.node("gpu-01", collector="replay", replay_file=str(recording))
    bot = line.machine.bot()
    state_dir = line.folder / "gpu-01"
    async with line.running(agent):
        await line.until(lambda: [verdict for _, verdict in recorded_windows(state_dir)].count("candidate") >= 4)
        play(recording, training(0, 1))
        await line.until(lambda: recorded_windows(state_dir)[-1][1] == "held")
        async with line.running(bot):
            await line.until(lambda: len(line.stored("gpu-01")) >= len(recorded_windows(state_dir)) > 6)
            stored = [one.gpus[0].verdict for one in line.stored("gpu-01") if one.gpus]
    assert stored.count("candidate") >= 4
    assert line.cards == []
    assert rows(line.machine.data_dir, "SELECT * FROM incident") == []
    assert rows(line.machine.data_dir, "SELECT * FROM outbox") == []
