"""Sixty stalls and look-alikes through the node's fold and the bot's judge."""

import pytest

from tests.stall_cases import Case, all_cases, first, resampled, verdicts

CASES = [*all_cases(), *(resampled(case) for case in all_cases())]


def _name(case: Case) -> str:
    return f"{case.id}-{case.tick_seconds:g}s"


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_a_case_ends_in_its_verdict_by_its_time_and_raises_nothing_else(case):
    said = verdicts(case)
    print(case.title, *said, sep="\n")
    assert said[-1][1] is case.expected
    assert not {verdict for _, verdict in said} & case.never
    if case.raise_by_min is not None:
        reached = first(said, case.expected)
        assert reached is not None
        assert reached <= case.raise_by_min


def test_all_sixty_cases_are_played():
    assert len({case.id for case in CASES}) == 60
