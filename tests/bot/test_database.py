"""Where the database is: in the config, or in a secret that the config names; no message shows a password."""

import threading

import pytest
import sqlalchemy as sa

from bot.config import BotConfig
from bot.database import database_url, is_shared
from bot.store.engine import make_engine
from bot.store.migrate import is_present, migrate
from wire.configfile import ConfigError

SECRET = "hunter2"


def url(database, **environment):
    return database_url(BotConfig(database=database), environment)


def test_it_is_sqlite_in_the_data_dir_unless_something_is_said(tmp_path):
    config = BotConfig(data_dir=tmp_path)
    assert database_url(config, {}) == f"sqlite:///{tmp_path}/gpu-oncall.sqlite"
    assert not is_shared(config)


def test_a_url_with_a_password_is_a_secret_that_the_config_names(tmp_path):
    address = f"postgresql://bot:{SECRET}@db-host/oncall"
    (tmp_path / "url").write_text(address + "\n")
    assert url("postgresql://bot@db-host/oncall") == "postgresql://bot@db-host/oncall"
    assert url("DATABASE_URL", DATABASE_URL=address) == address
    assert url("DATABASE_URL", DATABASE_URL_FILE=str(tmp_path / "url")) == address


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "bot.database names the secret DATABASE_URL: put a URL into it, or a file into DATABASE_URL_FILE"),
        ({"DATABASE_URL": f"mysql://bot:{SECRET}@db"}, "the secret DATABASE_URL wants postgresql://USER:PASSWORD@"),
        ({"DATABASE_URL": f"postgresql://bot:{SECRET}%zz@db/x"}, "bot.database: the URL cannot be read, it wants"),
        ({"DATABASE_URL": f"postgresql://bot:{SECRET}@[db/x"}, "bot.database: the URL cannot be read, it wants"),
    ],
)
def test_a_secret_that_is_wrong_is_told_without_it(environment, sentence):
    with pytest.raises(ConfigError) as error:
        url("DATABASE_URL", **environment)
    assert str(error.value).startswith(sentence)
    assert SECRET not in str(error.value)


def test_a_wrong_password_is_told_without_it(postgres_url):
    engine = make_engine(postgres_url.replace("postgres@", f"nobody:{SECRET}@"))
    with pytest.raises(sa.exc.OperationalError) as error:
        engine.connect()
    assert 'role "nobody" does not exist' in str(error.value)
    assert SECRET not in repr(error.value) + repr(engine)
    engine.dispose()


def test_two_bots_that_start_at_once_on_an_empty_database_make_its_tables_once(postgres_url):
    engines = [make_engine(postgres_url) for _ in range(4)]
    with engines[0].connect() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
        connection.commit()
    failed = []

    def start(engine):
        try:
            migrate(engine)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    with engines[0].connect() as connection:
        assert is_present(connection)
    for engine in engines:
        engine.dispose()
