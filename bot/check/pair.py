"""Two bots, of which one waits: who works, and whether a second one could."""

from sqlalchemy.exc import SQLAlchemyError

from bot.check.finding import Finding, advice, ok
from bot.config import BotConfig
from bot.database import is_shared
from bot.lock import bot_runs
from bot.standby import who_works

NOBODY_GOES_ON = "when this host is away, nobody is told anything until it is back"


def about_pair(config: BotConfig) -> list[Finding]:
    """Nothing on SQLite, where there is one bot."""
    if not is_shared(config):
        return []
    if config.bus.embedded_server() is not None:
        todo = "to have two, name bot.bus.servers in both: docs/operations.md"
        return [advice("standby", "no second bot can wait: this one's bus is its own", NOBODY_GOES_ON, todo)]
    try:
        holder, is_this = who_works(config)
    except SQLAlchemyError:
        return []  # another finding tells that the database does not answer
    runs_here = bot_runs(config.data_dir)
    if runs_here and holder and not is_this:
        return [ok("standby", f"the bot of this host waits; the one on {holder} works")]
    if runs_here:
        return [ok("standby", "the bot of this host works")]
    works = f"; the one on {holder} works" if holder else ""
    return [advice("standby", f"no bot waits on this host{works}", "nobody goes on when it is away", "gpu-oncall run")]
