"""The story beside the page: what it does by itself, and what a pause, a push and people's own acts do to it."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from demo.page.director import Ask, Director, Lever, Step
from demo.workspace import Workspace


class Stage:
    """Two steps that somebody does, after one that happens by itself."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.happened, self.acted, self.is_on = set(), [], False
        steps = [self.step("begins", by_itself=True), self.step("press"), self.step("ask")]
        lever = Lever("job", "a job", lambda: self.is_on, ("Start", "End"), self.pull)
        self.director = Director(workspace, steps, [lever], reading_seconds=0.5)

    def step(self, name, by_itself=False):
        async def act():
            self.acted.append(name)
            self.happen(name)

        return Step(name, "look", lambda: name in self.happened, None if by_itself else act)

    def happen(self, name):
        self.happened.add(name)
        self.workspace.changed()

    def pull(self):
        self.is_on = not self.is_on

    def how(self):
        return [str(step["how"]) for step in self.director.told()["steps"]]

    async def until(self, *how):
        await self.workspace.until(lambda: self.how() == [*how], seconds=20)


@asynccontextmanager
async def playing():
    async with Workspace() as workspace:
        stage = Stage(workspace)
        task = asyncio.create_task(stage.director.run())
        try:
            yield stage
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_it_plays_to_its_end_by_itself_at_the_speed_that_was_asked_for():
    async with playing() as stage:
        stage.director.obey(Ask("speed", speed=4.0))
        await stage.until("now", "coming", "coming")
        stage.happen("begins")
        await stage.until("done", "done", "done")
        assert stage.acted == ["press", "ask"]
        assert all(step["seconds"] >= 0 for step in stage.director.told()["steps"])


async def test_a_pause_holds_the_next_step_and_a_push_does_it_nevertheless():
    async with playing() as stage:
        stage.director.obey(Ask("pause"))
        stage.happen("begins")
        await stage.until("done", "coming", "coming")
        stage.director.obey(Ask("next"))
        await stage.until("done", "done", "coming")
        assert stage.acted == ["press"]
        assert stage.director.told()["is_playing"] is False
        stage.director.obey(Ask("play"))
        await stage.until("done", "done", "done")


async def test_what_a_person_does_is_not_done_again_and_pauses_the_story():
    async with playing() as stage:
        stage.happen("begins")
        await stage.until("done", "coming", "coming")
        stage.director.somebody_acted()
        stage.happen("press")
        await stage.until("done", "done", "coming")
        assert stage.acted == []
        assert stage.director.told()["why_paused"].startswith("Paused, because you acted")


async def test_a_lever_moves_the_fleet_and_says_how_it_stands():
    async with playing() as stage:
        assert stage.director.obey(Ask("lever", lever="job")) is None
        (lever,) = stage.director.told()["levers"]
        assert lever["is_on"] is True
        assert stage.director.told()["is_playing"] is False


async def test_an_act_that_finds_nothing_to_press_waits_for_it_to_happen():
    async with Workspace() as workspace:
        happened = []

        async def act():
            raise LookupError("no such button")

        director = Director(workspace, [Step("press", "look", lambda: bool(happened), act)])
        task = asyncio.create_task(director.run())
        await workspace.until(lambda: director.told()["steps"][0]["how"] == "now", seconds=20)
        happened.append(True)
        workspace.changed()
        await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("asked", [Ask("stop"), Ask("speed", speed=100.0), Ask("lever", lever="bomb")])
async def test_what_the_story_does_not_know_is_told(asked):
    async with Workspace() as workspace:
        assert "The story knows play" in Director(workspace, []).obey(asked)
