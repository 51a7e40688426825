"""A bus that runs elsewhere: the config that its servers need, and whether they keep to it."""

from pathlib import Path

from bot import clock
from bot.broker.embedded import own_url
from bot.broker.nodes import NodeFiles, read_nodes
from bot.broker.probe_key import probe_key, probe_key_file
from bot.broker.rights_check import Attempt, Bus, attempts
from bot.broker.serverconf import Cluster, ServerSettings, ServerTls, render
from bot.config import BotConfig
from wire import nkey, subjects, units
from wire.configfile import ConfigError
from wire.credentials import read_seed
from wire.files import unwritten

REPLICAS = 3


def server_config(
    config: BotConfig,
    *,
    name: str,
    listen: str,
    monitor: str,
    store: str | Path,
    max_store: str,
    cert: str | Path,
    key: str | Path,
    cluster: Cluster | None,
) -> str:
    """One server's whole config. Raises ConfigError."""
    files = NodeFiles(config.data_dir)
    try:
        settings = ServerSettings(
            name=name,
            listen=listen,
            monitor=monitor,
            store=Path(store),
            pid_file=None,
            max_store_bytes=units.parse_size(max_store),
            bot_key=nkey.public_key(read_seed(config.key_file())),
            nodes={**files.nodes(), subjects.PROBE: probe_key(config.data_dir)},
            joins={node: join.key for node, join in files.open_joins(clock.now()).items()},
            tls=ServerTls(Path(cert), Path(key)),
            cluster=cluster,
            replicas=REPLICAS if cluster else 1,
        )
        return render(settings)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(unwritten(error, "the bot's user")) from error


async def check_rights(config: BotConfig) -> list[Attempt]:
    """On every server. Raises ConfigError where one cannot be asked."""
    if not (probe := probe_key_file(config.data_dir)).exists():
        whose = "the bot makes it at its first start, gpu-oncall bus print-config for servers of your own"
        raise ConfigError(f"the probe's key {probe} is not there yet: {whose}")
    embedded = config.bus.embedded_server()
    servers = [own_url(config, embedded)] if embedded else config.bus.servers
    other = next(iter(read_nodes(config.data_dir)), "another-node")
    tried: list[Attempt] = []
    for server in servers:
        bus = Bus(server, config.ca_file(), read_seed(config.key_file()), config.data_dir)
        try:
            tried += [attempt async for attempt in attempts(bus, other)]
        except OSError as error:
            place = server.partition("://")[2]
            raise ConfigError(
                f"the bus at {place} cannot be asked: {error}: is the bot or its server running?"
            ) from error
    return tried
