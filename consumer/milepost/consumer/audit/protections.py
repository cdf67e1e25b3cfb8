"""Do the protections of the tables still stand: whoever switched one off could have changed what nothing else notices."""

from __future__ import annotations

from milepost.consumer import queries
from milepost.consumer.audit.findings import Findings
from milepost.consumer.database import Connection


def check_protections(connection: Connection, findings: Findings) -> None:
    """That history is append-only, that row-level security is forced, and that no role of milepost may change history."""
    for table, protection, stands in connection.execute(queries.load("audit")["protections"]):
        if not stands:
            findings.add(
                str(table), {"protection": str(protection)}, "protection", "in force", "switched off or granted"
            )
