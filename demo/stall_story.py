"""The second story: a runner hangs while its API answers; somebody asks for a reboot, and another one approves it."""

from collections.abc import Callable

from demo.fleet import CHANNEL, PARKED
from demo.runner import Runner, State
from demo.workspace import Message, Person, Workspace
from demo.workspace.transcript import message_transcript

DEADLINE_SECONDS = 150.0


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
        await self._workspace.until(lambda: _offers_restart(self._cards("STALL")), seconds=DEADLINE_SECONDS)
        (card,) = self._cards("STALL")
        self._say(f"test requests for one token each are not answered: one card, in #{CHANNEL}")
        self._show(card)
        await self._asked()
        await self._approved()
        await self._workspace.until(lambda: _is_over(card), seconds=DEADLINE_SECONDS)
        self._say("the stall's card says that it is over, and what ended it")
        self._show(card)

    async def _asked(self) -> None:
        """In a dialog that says what would be killed, with the node's name typed."""
        bob = self._workspace.person("bob")
        await bob.command("/gpu-reboot", PARKED, CHANNEL)
        await self._workspace.until(lambda: _is_filled(bob), seconds=DEADLINE_SECONDS)
        await bob.submit({"reason": "it hangs and answers nobody", "node_name": PARKED})
        await self._workspace.until(lambda: bool(self._cards("APPROVAL WANTED")), seconds=DEADLINE_SECONDS)
        self._say(f"bob typed /gpu-reboot {PARKED} and why: nothing happens before somebody approves it")
        self._show(self._cards("APPROVAL WANTED")[0])

    async def _approved(self) -> None:
        (card,) = self._cards("APPROVAL WANTED")
        await self._workspace.person("alice").press(card, "Approve", confirm=True)
        self._say(f"alice pressed Approve: the node asks its runner once more, and then {PARKED} is rebooted")
        await self._workspace.until(lambda: card.text.startswith("DONE"), seconds=DEADLINE_SECONDS)
        self._say(f"{PARKED} came back with a new boot, its GPU is there, and chat generates again: proved")
        self._show(card)

    def _cards(self, beginning: str) -> list[Message]:
        return [one for one in self._workspace.channel(CHANNEL).cards if one.text.startswith(beginning)]

    def _show(self, card: Message) -> None:
        replies = self._workspace.channel(CHANNEL).replies(card)
        self._tell(message_transcript(card, replies, self._workspace.names) + "\n")


def _is_filled(person: Person) -> bool:
    return person.modal is not None and "One moment" not in str(person.modal.blocks)


def _offers_restart(cards: list[Message]) -> bool:
    return bool(cards) and "restart_runner" in str(cards[0].blocks)


def _is_over(card: Message) -> bool:
    return card.text.startswith("RECOVERED") and "done, and proved" in card.text
