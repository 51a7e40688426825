"""The second story: a runner hangs while its API answers and its gauge says that nobody waits; then it recovers."""

from collections.abc import Callable

from demo.fleet import CHANNEL, PARKED
from demo.runner import Runner, State
from demo.workspace import Message, Workspace
from demo.workspace.transcript import message_transcript

DEADLINE_SECONDS = 60.0


class StallStory:
    """`say` hears each step, `tell` each state of the card. Begins beside the first story, and is told after it."""

    def __init__(
        self, runner: Runner, workspace: Workspace, say: Callable[[str], None], tell: Callable[[str], None]
    ) -> None:
        self._runner = runner
        self._workspace = workspace
        self._say = say
        self._tell = tell

    def begin(self) -> None:
        self._runner.become(State.HUNG_AT_ZERO)
        self._say(f"on {PARKED} the runner chat hangs: its API answers, and its gauge says that nobody waits")

    async def play(self) -> None:
        """Raises TimeoutError where it does not go on."""
        await self._workspace.until(lambda: bool(self._cards()), seconds=DEADLINE_SECONDS)
        (card,) = self._cards()
        self._say(f"test requests for one token each are not answered: one card, in #{CHANNEL}")
        self._show(card)
        await self._workspace.person("bob").press(card, "Acknowledge")
        self._runner.become(State.WORKING)
        self._say("chat works again by itself")
        await self._workspace.until(lambda: card.text.startswith("RECOVERED"), seconds=DEADLINE_SECONDS)
        self._say("the card says so, and what ended it")
        self._show(card)

    def _cards(self) -> list[Message]:
        return self._workspace.channel(CHANNEL).cards

    def _show(self, card: Message) -> None:
        replies = self._workspace.channel(CHANNEL).replies(card)
        self._tell(message_transcript(card, replies, self._workspace.names) + "\n")
