"""Every bench runs, in a tiny form; how long anything takes is asserted nowhere."""

import gc
import os
import shutil
import subprocess

import pytest

from bench import __main__ as program
from bench import (
    agent,
    card,
    drain,
    idle_rule,
    ingest,
    limited,
    peers,
    postgresql,
    presses,
    prometheus,
    reports,
    runners,
)
from bench.figure import Figure, percentile, table
from bench.fleet_windows import fleet_windows
from bench.judging import judging
from bench.report import report
from bench.spent import yardstick_seconds
from tests.build import START
from tests.compiler import require_compiler
from tests.fake_nvml import FakeNvml
from wire import subjects


def figures_by_name(figures: list[Figure]) -> dict[str, Figure]:
    for figure in figures:
        assert min(figure.values) > 0, figure
    return {figure.name: figure for figure in figures}


def test_ingest_is_measured_against_the_libraries_alone():
    figures = figures_by_name(ingest.measure(ingest.Size(nodes=5, windows=4, repeats=2)))
    assert len(figures["ingest"].values) == 2
    assert min(figures["ingest, against decode + INSERT alone"].values) > 1, "judging cannot cost nothing"


def test_ingest_on_postgresql_is_measured_beside_sqlite():
    figures = figures_by_name(postgresql.measure(ingest.Size(nodes=5, windows=4, repeats=2)))
    assert not figures or len(figures["ingest on PostgreSQL, against SQLite"].values) == 2


async def test_a_chunk_leaves_next_to_nothing_to_the_garbage_collector(tmp_path):
    """A cycle that held the chunk's rows cost a tenth of the time at 2,000 windows a second."""
    nodes, left = 20, []
    windows = fleet_windows(nodes, 6)
    async with judging(tmp_path / "bot.sqlite") as parts:
        for begin in range(0, len(windows), nodes):
            gc.collect()
            await parts.ingest.take(subjects.STREAM, START, windows[begin : begin + nodes])
            left.append(gc.collect())
    assert min(left) < nodes  # the least: what other tests left behind is collected here too


def test_a_stream_is_drained_from_the_real_server_as_often_as_wanted():
    figures = figures_by_name(drain.measure(drain.Size(nodes=5, windows=4, repeats=2)))
    assert len(figures["drain of a full stream"].values) == 2


def test_a_card_is_posted_for_every_node():
    figures = figures_by_name(card.measure(card.Size(bots=1, cards=2)))
    name = "last window published to card posted"
    assert len(figures[name].values) == 2
    assert figures[f"{name}, p99"].values == [max(figures[name].values)]


def test_every_press_is_acknowledged_and_answered_while_windows_are_stored():
    figures = figures_by_name(presses.measure(presses.Size(presses=6, windows_per_second=100, seconds=2, repeats=1)))
    assert {"stored meanwhile", "click to acknowledgement, p99", "click to answer, p99"} <= set(figures)


def test_windows_are_stored_and_cards_come_after_slack_refused_them():
    size = limited.Size(cards=2, refused_seconds=2, windows_per_second=100, repeats=1)
    figures = figures_by_name(limited.measure(size))
    assert {"stored while Slack says 429", "cards after 429", "calls that Slack refused"} == set(figures)


def test_a_report_is_made_from_a_record_of_hours():
    figures = figures_by_name(reports.measure(reports.Size(nodes=2, days=2, repeats=1)))
    assert set(figures) == {"report: time", "report: memory of its process"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_report_over_90_days_of_1000_gpus_takes_less_than_10_s_and_500_mib():
    figures = figures_by_name(reports.measure(reports.Size(repeats=1)))
    assert figures["report: time"].values[0] < 10
    assert figures["report: memory of its process"].values[0] < 500


def test_an_agents_processes_are_all_counted():
    require_compiler()
    size = agent.Size(settle_seconds=0, seconds=0.2, pieces=1, own_environment=False)
    figures = {figure.name: figure for figure in agent.measure(size)}
    memory = figures["agent, memory (PSS)"]
    assert "2 processes" in memory.work, "the agent and its NVML worker"
    assert 5 < min(memory.values) <= min(figures["agent, memory (RSS)"].values)


def test_ticks_of_runners_are_measured_against_the_same_requests_alone():
    figures = figures_by_name(runners.measure(runners.Size(ticks=2, lines=10)))
    assert len(figures["tick of 4 runners, calls"].values) == 2
    assert min(figures["tick of 4 runners, against http.client alone"].values) > 0


def test_the_stand_in_for_nvidia_smi_reads_the_same_driver_as_the_agent(tmp_path):
    require_compiler()
    driver = FakeNvml(tmp_path, [agent.gpu(index) for index in range(2)])
    program = peers.build_nvidia_smi(tmp_path)
    told = [
        subprocess.run([program, f"--query-{query}"], env=driver.env, capture_output=True, text=True, check=True).stdout
        for query in peers.QUERIES
    ]
    first, second = (gpu.uuid for gpu in driver.gpus)
    assert told == [
        f"0, {first}, 97, 61440, 81920\n1, {second}, 0, 0, 81920\n",
        f"{first}, {os.getpid()}, [Not Found], 61440\n",
    ]
    peer = peers.cron(tmp_path, {**driver.env, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, peers.Size(calls=2))
    assert len(peer.sample_seconds) == 2
    assert second in (tmp_path / "cron.log").read_text()


def test_what_the_common_rule_says_of_our_cases_is_what_prometheus_says():
    figures = {figure.name: figure for figure in idle_rule.measure()}
    readings = figures["GPUs of recorded readings told wrongly"]
    stories = figures["stories of stalls and look-alikes told wrongly"]
    assert [*readings.values, *stories.values] == [0, 0]
    assert min(*readings.theirs, *stories.theirs) > 0
    series = list(idle_rule.reading_series())
    assert sum(one.is_right for one in series) > 5
    if shutil.which("promtool") is None:
        pytest.skip("NO PROMTOOL: what the rule says was worked out, and NOT ASKED of Prometheus here")
    wrong = idle_rule.Series("wrong", [0] * 20, is_right=True)
    idle_rule.confirm([wrong])
    with pytest.raises(subprocess.CalledProcessError):
        idle_rule.confirm([FiresNever(wrong.name, wrong.minutes, wrong.is_right)])


class FiresNever(idle_rule.Series):
    def fires_at(self) -> int | None:
        return None


def test_prometheus_and_alertmanager_notify_and_are_timed():
    if any(shutil.which(program) is None for program in prometheus.PROGRAMS):
        pytest.skip("NO PROMETHEUS: the bench beside it is NOT TESTED here")
    assert len(prometheus.seconds_to_webhook(prometheus.Size(notifications=2, every_seconds=1))) == 2


@pytest.mark.parametrize(("percent", "value"), [(50, 2), (75, 3), (76, 4), (99, 4), (100, 4)])
def test_a_percentile_is_one_of_the_values(percent, value):
    assert percentile([3, 1, 4, 2], percent) == value


def test_the_yardstick_measures_something():
    assert yardstick_seconds() > 0


def test_the_table_has_the_smallest_the_middle_and_the_largest_value():
    text = table([("ingest", Figure("speed", [3.0, 1234.5, 2.0], "windows/s", "the same", "at least 2,000"))])
    assert text.splitlines()[-1] == (
        "| speed | 2 | 3 | 1,234 | windows/s | at least 2,000 |  |  | the same | make bench ARGS=ingest |"
    )
    beside = table([("peers", Figure("CPU", [3.0], "s", "the same", peer="cron", theirs=[2.0, 1.5, 1.0]))])
    assert beside.splitlines()[-1] == "| CPU | 3 | 3 | 3 | s |  | cron: 1.5 | 2 | the same | make bench ARGS=peers |"
    assert text in report(text)


def test_an_unknown_name_is_told_with_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        program.main(["ingestion"])
    assert f"there is no bench 'ingestion': choose from {', '.join(program.BENCHES)}" in capsys.readouterr().err
