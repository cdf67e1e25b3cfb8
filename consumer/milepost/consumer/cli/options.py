"""Options that many commands share, each with its variable in the environment, and the types of their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import click

from milepost.schemas import DEFAULT_TOPIC

_Command = TypeVar("_Command", bound=Callable[..., Any])


class OrderedGroup(click.Group):
    """Lists its commands in the order in which they were added: the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the name is click's
        """The names, in order."""
        return list(self.commands)


kafka_option = click.option(
    "--kafka",
    envvar="MILEPOST_KAFKA",
    required=True,
    show_envvar=True,
    metavar="HOST:PORT",
    help="Where Kafka answers.",
)
topic_option = click.option(
    "--topic", envvar="MILEPOST_TOPIC", default=DEFAULT_TOPIC, show_default=True, show_envvar=True, help="The log."
)
database_option = click.option(
    "--database", envvar="MILEPOST_DATABASE", required=True, show_envvar=True, metavar="CONNINFO", help="The view."
)
integrity_keys_option = click.option(
    "--integrity-key",
    "integrity_keys",
    envvar="MILEPOST_INTEGRITY_KEY",
    show_envvar=True,
    multiple=True,
    type=click.Path(),  # in the environment several are separated as in PATH
    metavar="FILE",
    help="A key of 32 bytes; may be given several times: the first signs, all verify.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")


def log_options(command: _Command) -> _Command:
    """Where the log is."""
    return kafka_option(topic_option(command))


def log_and_view_options(command: _Command) -> _Command:
    """Where log and view are."""
    return log_options(database_option(command))


def a_uuid(value: str) -> UUID:
    """A UUID, or a usage error."""
    try:
        return UUID(value)
    except ValueError:
        raise click.BadParameter(f"expected a UUID, found {value!r}") from None


def a_moment(value: str) -> datetime:
    """A time with its offset from UTC, or a usage error."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.utcoffset() is None:
        raise click.BadParameter(f"expected a time such as 2026-11-30T12:00:00Z, found {value!r}")
    return found


def a_label(value: str) -> tuple[str, str]:
    """A label, KEY=VALUE, or a usage error."""
    key, equals, text = value.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"expected KEY=VALUE, found {value!r}")
    return key, text


def some_seconds(value: str) -> float:
    """A time in seconds, above nothing and at most a day, or a usage error."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise click.BadParameter(f"expected seconds, above 0 and at most 86400, found {value!r}")
    return seconds
