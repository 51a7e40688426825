"""What a runner in each state has done so far. It lives by looks: between two reads of a page one step passes."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """`hung`: the API is alive, and its gauge still shows who waits. `hung_at_zero`: it says that nobody does."""

    WORKING = "working"
    RESTING = "resting"
    LONG_PREFILL = "long_prefill"
    THINKING = "thinking"
    LOADING = "loading"
    ASLEEP = "asleep"
    HUNG = "hung"
    HUNG_AT_ZERO = "hung_at_zero"
    ERRORING = "erroring"
    DEAD = "dead"
    SLOW = "slow"
    WANTS_KEY = "wants_key"


HANGING = frozenset({State.HUNG, State.HUNG_AT_ZERO})
MOVING = frozenset({State.WORKING, State.LONG_PREFILL, State.THINKING, State.SLOW})
HOLDING = HANGING | {State.LONG_PREFILL, State.THINKING, State.LOADING}
"""States in which a generation gets no answer: its one slot is taken, or nothing takes it up."""

_IN_WORK = {State.HUNG: 3, State.ERRORING: 3, **dict.fromkeys(MOVING, 3)}
_STARTS = frozenset({State.LOADING, State.DEAD})


@dataclass
class Life:
    """Counters of one life. `prefilled` are tokens of a prompt that is still being read, `task` numbers its requests.

    `idle_at_seconds` is when a request last ended, on the runner's own clock `now_seconds`. `starts` counts its lives,
    `look_seconds` pass with each look.
    """

    completed: int = 400
    generated: int = 90_000
    prompted: int = 30_000
    prefilled: int = 0
    cache_share: float = 0.1
    task: int = 400
    now_seconds: int = 0
    idle_at_seconds: int = 0
    starts: int = 0
    look_seconds: int = 30

    def begin(self, state: State) -> None:
        """What is loading or gone will come back as another process that has done nothing yet."""
        if state in _STARTS:
            self.completed = self.generated = self.prompted = self.prefilled = self.task = 0
            self.starts += 1

    def look(self, state: State) -> None:
        self.now_seconds += self.look_seconds
        if state is State.WORKING:
            self.did(completed=1, generated=120, prompted=40)
        elif state is State.LONG_PREFILL:  # in most runners no counter moves before the first token
            self.cache_share += 0.001
            self.prefilled += 512
        elif state is State.THINKING:
            self.generated += 120
        elif state is State.SLOW:  # as on a CPU: now and then something is completed
            is_complete = self.now_seconds % (10 * self.look_seconds) == 0
            self.did(completed=int(is_complete), generated=4, prompted=0)

    def did(self, *, completed: int, generated: int, prompted: int) -> None:
        self.completed += completed
        self.task += completed
        self.generated += generated
        self.prompted += prompted
        if completed:
            self.idle_at_seconds = self.now_seconds


def in_work(state: State) -> int:
    """How many requests its own gauge shows."""
    return _IN_WORK.get(state, 0)
