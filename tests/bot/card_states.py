"""The table of states of cards: what `docs/cards.md` shows, and what tests/cases/cards keeps word for word."""

from tests.bot.gpu_states import GPUS
from tests.bot.remedy_states import REMEDIES
from tests.bot.report_state import REPORT
from tests.bot.runner_states import RUNNERS
from tests.bot.unseen_states import UNSEEN

STATES = [*GPUS, *RUNNERS, *UNSEEN, *REMEDIES, REPORT]
