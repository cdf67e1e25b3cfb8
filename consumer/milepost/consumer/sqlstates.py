"""What Postgres' error codes mean for a consumer. The table in docs/operating.md is checked against this one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Meaning(StrEnum):
    """What is to be done about an error."""

    AWAY = "connect again, and wait until it works"
    BUSY = "try again"
    SCARCE = "try again, and say so loudly: somebody has to make room"
    RECORD = "quarantine the record"
    ACCESS = "end: the login or a privilege is not what it must be"
    SCHEMA = "end: the database is not what this version needs"
    OTHER = "stop the partitions whose records bring it, and try them again later"


# the longest prefix holds
MEANINGS: Final[Mapping[str, Meaning]] = {
    "08": Meaning.AWAY,  # connection
    "0A000": Meaning.BUSY,  # a plan that was kept does not fit any more; a new connection has none
    "22": Meaning.RECORD,
    "23": Meaning.RECORD,
    "23505": Meaning.OTHER,  # a key that is there already says something of the view, not of the record
    "25": Meaning.AWAY,  # 25006 read-only after a failover, 25P03 and 25P04 ended by a timeout
    "28": Meaning.ACCESS,  # password, pg_hba.conf
    "3D": Meaning.SCHEMA,
    "3F": Meaning.SCHEMA,
    "40": Meaning.BUSY,  # 40001 serialization_failure, 40P01 deadlock_detected
    "42": Meaning.SCHEMA,
    "42501": Meaning.ACCESS,
    "53": Meaning.SCARCE,  # 53100 disk_full, 53200 out_of_memory, 53300 too_many_connections
    "54": Meaning.RECORD,  # what exceeds a limit of the program
    "55": Meaning.BUSY,  # 55P03 lock_not_available
    "57": Meaning.AWAY,  # 57P01 to 57P03 shut down, crashed, starting
    "57014": Meaning.BUSY,  # statement_timeout, or cancelled by somebody
    "58": Meaning.SCARCE,  # 58030 io_error
}


def meaning(state: str) -> Meaning:
    """What an SQLSTATE means; an empty one is a connection that broke or was never made."""
    if not state:
        return Meaning.AWAY
    return MEANINGS.get(state) or MEANINGS.get(state[:2]) or Meaning.OTHER
