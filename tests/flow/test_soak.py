"""The bot's half of `make soak`, shorter, and what `make soak` says of something that grew."""

import pytest

from bench.soak import __main__ as program
from bench.soak import bot
from bench.soak.row import Row, broken, growth, table


async def test_neither_memory_nor_handles_nor_database_nor_log_of_the_bot_grow(tmp_path):
    rows = await bot.measured(tmp_path / "place", rounds=24)
    assert broken(rows) == []


def test_what_grew_more_than_it_may_is_named_with_what_was_wanted():
    grown = growth("bot", "memory (PSS)", "MiB", (90.0, 97.0), 6)
    rows = [grown, growth("bot", "memory (PSS)", "MiB", (90.0, 96.0), 6), Row("bot", "rounds", "", 12, 24)]
    assert broken(rows) == ["bot: memory (PSS): 90, then 97 MiB; wanted at most 6 more"]
    assert table(rows).splitlines()[2] == "| bot | memory (PSS) | 90 | 97 | MiB | at most 6 more |"


def test_the_log_counts_by_round_and_not_by_point():
    point = {"incidents": 0, "bot_mib": 1, "server_mib": 1, "bot_handles": 1, "server_handles": 1, "database_mib": 1}
    points = [{**point, "windows": 1, "rounds": at, "log_bytes": size} for at, size in ((10, 0), (20, 100), (30, 500))]
    said = {row.name: (row.middle, row.end) for row in bot._rows([*points, {**points[-1], "rounds": 40}])}
    assert said["log per round"] == (10.0, 20.0)


def test_soak_ends_with_the_sentence_when_something_grew(tmp_path, monkeypatch, capsys):
    async def grown(folder, count):
        return [growth("bot", "file handles", "", (20, 20 + count), 4)]

    monkeypatch.setattr(program.agent, "measured", grown)
    monkeypatch.setattr(program.bot, "measured", grown)
    with pytest.raises(SystemExit, match=r"bot: file handles: 20, then 32; wanted at most 4 more"):
        program.main(["--rounds=12", "--samples=10"])
    assert "| bot | file handles | 20 | 32 |" in capsys.readouterr().out
