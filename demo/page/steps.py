"""The demo's story for the page: a free GPU, a question, a job that starts, a runner that hangs and is restarted."""

import contextlib
import json
from collections.abc import Callable, Sequence

from demo.fleet import BUSY, CANDIDATES_CHANNEL, CHANNEL, IDLE, PARKED, Fleet
from demo.page.director import Lever, Step
from demo.runner import Runner, State
from demo.workspace import Message, Workspace

NARRATOR = "alice"
RESTART = f"{PARKED} chat: restart of the runner"
PATIENCE_SECONDS = 20.0
JOB, HANG = ("Start", "End"), ("Let it hang", "Let it work")  # what the button says while it is off, and on


class Levers:
    """What people can change in the fleet, and how it stands."""

    def __init__(self, fleet: Fleet, runner: Runner) -> None:
        self._fleet = fleet
        self._runner = runner
        self._busy = {BUSY: True, IDLE: False}

    @property
    def all(self) -> Sequence[Lever]:
        jobs = [
            Lever(f"job:{node}", f"{node}: a job", self._has_job(node), JOB, self._job(node)) for node in self._busy
        ]
        about = f"{PARKED}: runner chat"
        return [*jobs, Lever("runner", about, lambda: self.is_hanging, HANG, self.runner)]

    @property
    def parked_pid(self) -> int:
        """Of the process that holds the GPU of the runner's node."""
        return self._fleet.parked.pid

    @property
    def is_hanging(self) -> bool:
        return self._runner.state is State.HUNG_AT_ZERO

    def start_job(self, node: str) -> None:
        self._fleet.start_job(node)
        self._busy[node] = True

    def runner(self) -> None:
        if self.is_hanging:
            self._runner.become(State.WORKING)
        else:
            self._runner.become(State.HUNG_AT_ZERO)

    def _has_job(self, node: str) -> Callable[[], bool]:
        return lambda: self._busy[node]

    def _job(self, node: str) -> Callable[[], None]:
        def pull() -> None:
            if self._busy[node]:
                self._fleet.end_job(node)
                self._busy[node] = False
            else:
                self.start_job(node)

        return pull


class Scenes:
    """The steps, each with what tells that it has happened, whoever did it."""

    def __init__(self, workspace: Workspace, levers: Levers) -> None:
        self._workspace = workspace
        self._levers = levers

    @property
    def steps(self) -> Sequence[Step]:
        return [*self._free_gpu(), *self._stall()]

    def _free_gpu(self) -> Sequence[Step]:
        place = CANDIDATES_CHANNEL
        return [
            Step(
                "The bot, its message broker and three GPU nodes start",
                "Real programs on this machine, with windows of 3 s in place of 5 min.",
                lambda: self._workspace.sockets.count > 0,
            ),
            Step(
                f"{IDLE} is idle for three windows in a row: one card",
                f"{BUSY} trains. On {PARKED} a process holds a GPU at 0 % and 0 MiB: no card for it, it is not free.",
                lambda: self._card(place, f" {IDLE}: ") is not None,
                channel=place,
            ),
            Step(
                "Alice presses Acknowledge",
                "The card is edited: it says who has seen it. Nothing is posted again.",
                lambda: self._says(place, IDLE, "Acknowledged by"),
                lambda: self._press(place, IDLE, "Acknowledge"),
                place,
            ),
            Step(
                f"Alice asks /gpu-why {PARKED} 0",
                "Why is it not free? The answer names the process. Only Alice sees it.",
                lambda: any(f"PID {self._levers.parked_pid}" in one.text for one in self._workspace.ephemerals),
                lambda: self._command(place, "/gpu-why", f"{PARKED} 0"),
                place,
            ),
            Step(
                f"A job starts on {IDLE}",
                "Within a second the card says that the GPU is in use, and closes.",
                lambda: self._card(place, f"OVER {IDLE}") is not None,
                self._start_job,
                place,
            ),
        ]

    def _stall(self) -> Sequence[Step]:
        return [
            Step(
                f"The runner chat on {PARKED} stops working",
                "Its API answers, and its gauge says that nobody waits. Test requests get no answer: a card in 30 s.",
                lambda: self._card(CHANNEL, f"STALL {PARKED}") is not None,
                self._hang,
                CHANNEL,
            ),
            Step(
                "Alice acknowledges the stall",
                "Otherwise people would be asked again after 10 minutes.",
                lambda: self._says(CHANNEL, PARKED, "Acknowledged by"),
                lambda: self._press(CHANNEL, PARKED, "Acknowledge"),
                CHANNEL,
            ),
            Step(
                "Alice asks for a restart of chat",
                "The dialog says what would be killed. Nothing happens before somebody approves it.",
                lambda: self._is_over or self._card(CHANNEL, RESTART) is not None,
                self._ask_for_restart,
                CHANNEL,
            ),
            Step(
                "Bob approves it",
                "The order is signed, the node looks once more, restarts chat, and proves it part by part.",
                lambda: self._is_decided,
                lambda: self._press(CHANNEL, RESTART, "Approve", "bob", confirm=True),
                CHANNEL,
            ),
            Step(
                "chat works again",
                "The stall's card turns: what ended it, what it was, and how long it lasted.",
                lambda: self._is_over,
                self._work,
                CHANNEL,
            ),
        ]

    # --- what people do ---------------------------------------------------------------------------------------------

    async def _press(
        self, channel: str, words: str, button: str, who: str = NARRATOR, confirm: bool | None = None
    ) -> None:
        if (card := self._card(channel, words)) is not None:
            await self._workspace.person(who).press(card, button, confirm=confirm)

    async def _ask_for_restart(self) -> None:
        """From the card's menu; the dialog is filled in as soon as it stands."""
        if (card := self._card(CHANNEL, f"STALL {PARKED}")) is None:
            return
        alice = self._workspace.person(NARRATOR)
        await alice.choose(card, "card_menu", "Restart runner…")
        with contextlib.suppress(TimeoutError):
            await self._workspace.until(lambda: "reason" in str(alice.modal and alice.modal.blocks), PATIENCE_SECONDS)
            await alice.submit({"reason": "it hangs and answers nobody"})
            await self._workspace.until(lambda: self._card(CHANNEL, RESTART) is not None, PATIENCE_SECONDS)
        if alice.modal is not None:
            await alice.close_modal()

    async def _command(self, channel: str, name: str, words: str) -> None:
        await self._workspace.person(NARRATOR).command(name, words, channel)

    async def _start_job(self) -> None:
        self._levers.start_job(IDLE)

    async def _hang(self) -> None:
        if not self._levers.is_hanging:
            self._levers.runner()

    async def _work(self) -> None:
        """By itself, where nobody restarted it."""
        if self._levers.is_hanging:
            self._levers.runner()

    # --- what has happened ------------------------------------------------------------------------------------------

    @property
    def _is_decided(self) -> bool:
        """Proved, or ended without it: then its title says that it is not done."""
        asked = self._card(CHANNEL, f"DONE {PARKED}")
        return asked is not None or (self._is_over and self._card(CHANNEL, RESTART) is None)

    @property
    def _is_over(self) -> bool:
        return self._card(CHANNEL, f"RECOVERED {PARKED}") is not None

    def _card(self, channel: str, words: str) -> Message | None:
        """The newest card of the channel whose first line holds the words."""
        cards = reversed(self._workspace.channel(channel).cards)
        return next((card for card in cards if words in card.text.split("\n")[0]), None)

    def _says(self, channel: str, subject: str, words: str) -> bool:
        card = self._card(channel, subject)
        return card is not None and words in json.dumps(card.blocks)
