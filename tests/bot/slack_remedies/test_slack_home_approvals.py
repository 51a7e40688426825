"""An approval that is given in App Home."""

import pytest

from tests.bot.remedy_bot import asked


@pytest.mark.usefixtures("node")
async def test_an_approver_finds_the_request_in_app_home_and_approves_it_there(bot, workspace, stall):
    card = await asked(bot, workspace, stall)
    bob, carol = workspace.person("bob"), workspace.person("carol")
    for person in (bob, carol):
        await person.open_home()
    await workspace.until(lambda: bob.home and carol.home)
    assert "Waiting for your approval" in str(bob.home.blocks)
    assert "Waiting for your approval" not in str(carol.home.blocks)
    for fact in ("What will be killed", "PID 4321, the runner chat", "it hangs since midnight", "It is to end #1"):
        assert fact in str(bob.home.blocks)
    await bob.press(bob.home, "Approve", confirm=True)
    await workspace.until(lambda: "Waiting for your approval" not in str(bob.home.blocks))
    await workspace.until(lambda: "Approved by <@U0BOB>" in card.text)
