"""Every tenth reading is missing: no stall is overlooked, and hardly a look-alike is taken for one."""

import os
import random

import pytest

from tests.stall_cases import Case, all_cases, continued, first, resampled, verdicts, with_holes

SHARE = 0.1
RUNS = 300 if "FUZZ_RUNS" in os.environ else 3  # `make fuzz` sets it
STALLS = [case for case in all_cases() if case.is_stall]
LOOKALIKES = [case for case in all_cases() if not case.is_stall]
LATEST_MIN = 45.0


def missed(case: Case, runs: int) -> list[int]:
    """Seeds with which the stall was not said in 45 minutes."""
    long = continued(case, LATEST_MIN)
    return [seed for seed in range(runs) if first(played(long, seed), case.expected) is None]


def false_alarms(case: Case, runs: int) -> list[int]:
    return [seed for seed in range(runs) if {verdict for _, verdict in played(case, seed)} & case.never]


def played(case: Case, seed: int):
    return verdicts(with_holes(case, SHARE, random.Random(f"{case.id} {seed}")))


def check(runs: int, cases_of) -> None:
    overlooked = {case.id: seeds for case in STALLS if (seeds := missed(cases_of(case), runs))}
    alarms = {case.id: seeds for case in LOOKALIKES if (seeds := false_alarms(cases_of(case), runs))}
    print(f"{runs} runs each: overlooked {overlooked}, false alarms {alarms}")
    assert overlooked == {}
    assert sum(map(len, alarms.values())) <= 5


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("cases_of", [lambda case: case, resampled], ids=["as_written", "in_30_s_ticks"])
def test_with_holes_no_stall_is_overlooked_and_hardly_a_look_alike_raises(cases_of):
    check(RUNS, cases_of)
