"""What a node may send in a time, and what is said of one that sends more."""

from bot.limits import Budget, Limit

A, B = "gpuoncall.hb.a", "gpuoncall.hb.b"


def test_a_node_over_its_limit_touches_no_other_and_comes_back_with_time():
    budget = Budget(Limit(at_once=3, each_second=2))
    assert [budget.take(A, 0.0) for _ in range(5)] == [True, True, True, False, False]
    assert budget.take(B, 0.0)
    assert [budget.take(A, 1.0) for _ in range(3)] == [True, True, False]


def test_it_is_told_once_until_the_node_had_its_whole_budget_again():
    budget = Budget(Limit(at_once=1, each_second=1))
    told = []
    for now_seconds in (0.0, 0.1, 0.2, 5.0, 5.1):
        if not budget.take(A, now_seconds):
            told.append((now_seconds, budget.first_over(A)))
    assert told == [(0.1, True), (0.2, False), (5.1, True)]


def test_more_names_than_nodes_fill_no_memory():
    budget = Budget(Limit(at_once=9, each_second=9), most_nodes=2)
    assert [budget.take(f"gpuoncall.hb.n{number}", 0.0) for number in range(4)] == [True, True, False, False]
