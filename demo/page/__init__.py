"""The workspace in a browser: what one person sees, and what they do there, over HTTP on loopback.

    page = Page(workspace, commands, shortcuts, director)
    async with page.serving(8765) as url: ...

Every press, choice, submission and command goes through `workspace.person(...)`, so it reaches the app by Socket Mode
like from Slack itself. The page holds no state that matters: it draws the snapshots of `seen.py`.
"""

from demo.page.server import LARGEST_PORT, PORT, Page, PageCannotListen

__all__ = ["LARGEST_PORT", "PORT", "Page", "PageCannotListen"]
