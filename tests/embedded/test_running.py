"""What can be seen of a stack that is up."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import psutil
import psycopg
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from milepost.embedded.settings import KAFKA_SETTINGS, POSTGRES_SETTINGS, TOPIC

from .helpers import read_both, sockets_of, write_both

if TYPE_CHECKING:
    from milepost.embedded import Stack

_LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_both_answer(running: Stack) -> None:
    status = running.status()
    assert status.all_ready
    write_both(status, "first")
    assert read_both(status) == (["first"], ["first"])


def test_up_again_starts_nothing(running: Stack) -> None:
    before = running.status()
    assert running.up() == before


def test_environment_is_what_the_commands_read(running: Stack) -> None:
    status = running.status()
    assert running.environment() == {
        "MILEPOST_KAFKA": status.kafka_address,
        "MILEPOST_TOPIC": TOPIC,
        "MILEPOST_DATABASE": status.database,
    }


def test_status_tells_versions_and_files(running: Stack) -> None:
    status = running.status()
    assert status.kafka.version == "4.2.2"
    assert status.postgres.version is not None
    assert status.postgres.version.split(".")[0] == status.postgres.data_dir.name
    for server in (status.kafka, status.postgres):
        assert server.data_dir.is_dir()
        assert server.log_file.stat().st_size > 0


def test_nothing_listens_beyond_loopback(running: Stack) -> None:
    status = running.status()
    for server, listeners in ((status.kafka, 2), (status.postgres, 1)):
        sockets = sockets_of(server.pid)
        assert {socket.laddr.ip for socket in sockets} <= _LOOPBACK
        ports = {socket.laddr.port for socket in sockets if socket.status == psutil.CONN_LISTEN}
        assert len(ports) == listeners


def test_servers_have_the_settings_of_the_one_place(running: Stack) -> None:
    status = running.status()
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    # a client that is collected fails its own pending calls
    admin = AdminClient({"bootstrap.servers": status.kafka_address})
    found = admin.describe_configs([broker])[broker].result(20)
    assert {name: found[name].value for name in KAFKA_SETTINGS} == dict(KAFKA_SETTINGS)
    with psycopg.connect(status.database) as connection:
        shown = {
            name: connection.execute("select current_setting(%s)", [name]).fetchone() for name in POSTGRES_SETTINGS
        }
    assert shown == {name: (value,) for name, value in POSTGRES_SETTINGS.items()}


def test_database_is_utf8_and_checksummed_and_wants_the_password(running: Stack) -> None:
    database = running.status().database
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "select current_database(), current_setting('server_encoding'), current_setting('data_checksums')"
        ).fetchone()
    assert row == ("milepost", "UTF8", "on")
    password = database.split(":")[2].split("@")[0]
    try:
        psycopg.connect(database.replace(password, "wrong")).close()
    except psycopg.OperationalError as error:
        assert "password authentication failed" in str(error)
    else:
        raise AssertionError("a wrong password was taken")


def test_secrets_and_data_are_the_owners_alone(running: Stack) -> None:
    status = running.status()
    private = [running.directory / "postgres.password", status.kafka.log_file, status.postgres.log_file]
    private += [status.kafka.data_dir, status.postgres.data_dir]
    assert [path for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
