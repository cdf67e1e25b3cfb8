"""Who is at work on the view, and what they did: rows of `milepost.operator_acts`, each in the transaction of its act.

Triggers write most of them, so that what is done by hand counts, too; `record` is for acts that no table tells of.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping

import msgspec

from milepost.consumer.database import Connection


def system_user() -> str:
    """The user of the system that this process runs as."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container with a user of its own
        return f"uid {os.getuid()}"


def introduce(connection: Connection) -> None:
    """Say who sits here, for the acts of the open transaction. The server knows the login by itself."""
    # local to the transaction: behind a pooler the session may be somebody else's next
    who = f"{system_user()}@{socket.gethostname()}"
    connection.execute("select set_config('milepost.operator', %s, true)", [who])


def record(connection: Connection, what: str, details: Mapping[str, object]) -> None:
    """Record an act inside the open transaction: what was done, in two or three words, and to what.

    Acts of retention and of the quarantine are their tables' own to record: the server refuses them from anybody else.
    """
    introduce(connection)
    connection.execute(
        "insert into milepost.operator_acts (what, details) values (%s, %s::json)",
        [what, msgspec.json.encode(details).decode()],
    )
