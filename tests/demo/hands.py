"""Somebody at the page: presses, fills in and types, and waits until the app has got it."""

from axe_playwright_python.async_playwright import Axe

from demo.workspace.elements import placed_elements


class Hands:
    """Presses as a person does, and waits until the app has got it."""

    def __init__(self, workspace, tab):
        self.workspace, self.tab = workspace, tab

    async def acked(self, deed):
        """Does it, and waits for the envelope that it leads to."""
        known = len(self.workspace.sockets.envelopes)
        await deed
        await self.workspace.until(lambda: len(self.workspace.sockets.envelopes) > known, seconds=20)
        envelope = self.workspace.sockets.envelopes[known]
        await self.workspace.until(lambda: envelope.acked_at or envelope.failure, seconds=20)
        assert envelope.failure is None

    async def sound(self):
        """No finding of axe-core that it calls serious, or even moderate."""
        found = (await Axe().run(self.tab)).response["violations"]
        assert [(one["id"], one["impact"], [_finding(node) for node in one["nodes"]]) for one in found] == []

    async def go(self, channel):
        await self.tab.get_by_role("navigation").get_by_role("button", name=channel).click()
        await self.tab.get_by_role("heading", name=channel, exact=False).first.wait_for()

    def card(self, words):
        return self.tab.get_by_role("article").filter(has=self.tab.get_by_role("heading", name=words)).last

    async def press(self, card, words):
        await self.acked(card.get_by_role("button", name=words).click())

    async def pick(self, card, entry):
        await card.get_by_role("button", name="More actions").click()
        await self.acked(self.tab.get_by_role("menuitem", name=entry).click())

    async def fill_in(self, title, submit, **values):
        """The dialog: fills in by label, submits, reads the outcome, and closes it."""
        dialog = self.tab.get_by_role("dialog", name=title)
        button = dialog.get_by_role("button", name=submit, exact=True)
        await button.wait_for()
        await self.sound()
        for label, value in values.items():
            field = dialog.get_by_label(label)
            await (field.check() if value is True else field.fill(value))
        await self.acked(button.click())
        await button.wait_for(state="hidden")
        outcome = self.tab.locator("#modal")  # which may have another title
        await outcome.get_by_role("button", name="Close", exact=True).click()
        await outcome.wait_for(state="hidden")

    async def answered(self, words):
        await self.tab.locator(".only-me").filter(has_text=words).last.wait_for()

    async def type(self, command, words):
        known = len(self.workspace.ephemerals)
        box = self.tab.get_by_label("Message or /command")
        await box.fill(f"{command} {words}".strip())
        await box.press("Escape")
        await self.acked(box.press("Enter"))
        await self.workspace.until(lambda: len(self.workspace.ephemerals) > known, seconds=20)


def _finding(node):
    """What it is, and for colours their contrast."""
    reasons = [check["message"] for kind in ("any", "all", "none") for check in node[kind]]
    return node["html"], reasons


def pressed(workspace):
    """action ids, and for menus the entry."""
    bodies = [one.payload for one in workspace.sockets.envelopes if one.payload.get("type") == "block_actions"]
    return {_what(action["action_id"], action.get("selected_option")) for body in bodies for action in body["actions"]}


def shown(workspace):
    """The same of everything that people could have pressed at any time."""
    messages = [one for channel in workspace.channels.values() for one in channel.messages.values()]
    drawings = [version.blocks for one in [*messages, *workspace.ephemerals] for version in one.versions]
    drawings += [version["blocks"] for view in workspace.views.values() for version in view.versions]
    elements = [placed for blocks in drawings for placed in placed_elements(blocks) if placed.block["type"] != "input"]
    return {
        _what(placed.action_id, option)
        for placed in elements
        for option in (placed.element["options"] if placed.element["type"] == "overflow" else [None])
    }


def _what(action_id, option):
    return f"{action_id}/{option['value'].partition(':')[0]}" if option else action_id
