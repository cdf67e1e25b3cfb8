"""`milepost quarantine`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final

import click

from milepost.consumer.cli.options import OrderedGroup, database_option, integrity_keys_option, json_option
from milepost.consumer.cli.output import print_array, print_facts, print_json, print_table, write
from milepost.consumer.database import Connection, connect, translated
from milepost.consumer.headers import raw_names, shown_bytes
from milepost.consumer.integrity.keys import keyring
from milepost.consumer.materializer import become_writer
from milepost.consumer.migrate import require_current
from milepost.consumer.quarantine import QuarantinedRecord, QuarantineEntry, dismiss, entries, find
from milepost.consumer.retry import DONE, Retry
from milepost.schemas import Position, Reason

_LARGEST_PARTITION: Final = 2**31 - 1
_LARGEST_OFFSET: Final = 2**63 - 1
_STATUSES: Final = ("open", "retried", "dismissed")


def a_record_id(value: str) -> Position:
    """`milepost.events/3@1234`, or `3@1234` with an empty topic, since a view has only one; or a usage error."""
    try:
        found = Position.parse(value if "/" in value else f"any/{value}")
    except ValueError:
        raise click.BadParameter(f"expected an id such as milepost.events/3@1234 or 3@1234, found {value!r}") from None
    if found.partition > _LARGEST_PARTITION or found.offset > _LARGEST_OFFSET:
        raise click.BadParameter(f"expected a partition and an offset that Kafka can have, found {value!r}")
    return found if "/" in value else Position("", found.partition, found.offset)


_ids_argument = click.argument("ids", type=a_record_id, nargs=-1, required=True, metavar="ID…")


@click.group("quarantine", cls=OrderedGroup)
def quarantine() -> None:
    """Records of the log that could not be applied. An ID is a position: milepost.events/3@1234, or 3@1234."""


@quarantine.command("list")
@database_option
@click.option("--reason-code", type=click.Choice([reason.value for reason in Reason]), help="Of this reason alone.")
@click.option("--status", type=click.Choice(_STATUSES), help="Of this status alone.")
@json_option
def list_entries(database: str, reason_code: str | None, status: str | None, as_json: bool) -> None:
    """List what stands in the quarantine, by partition and offset."""
    reason = Reason(reason_code) if reason_code is not None else None
    with _view(database) as connection:
        found = entries(connection, reason=reason, status=status)  # type: ignore[arg-type]
        if as_json:
            print_array(_document(entry) for entry in found)
            return
        print_table(
            ["id", "log_time", "size", "status", "reason", "detail"],
            ((e.position, e.log_time, e.size, e.status, e.reason, e.detail) for e in found),
            empty="nothing in the quarantine",
        )


@quarantine.command("show")
@click.argument("record_id", type=a_record_id, metavar="ID")
@database_option
@click.option("--value", "value_alone", is_flag=True, help="The value's bytes and nothing else.")
@json_option
def show(record_id: Position, database: str, value_alone: bool, as_json: bool) -> int:
    """Show a record: where it stood, its key, all its headers, why it is here, and who changed that."""
    with _view(database) as connection:
        found = find(connection, record_id.topic or None, record_id.partition, record_id.offset)
    if found is None:
        return _missing(record_id)
    if value_alone:
        if found.value is None:
            click.echo(f"milepost: the value of {found.entry.position} is null", err=True)
            return 1
        write(found.value)
    elif as_json:
        print_json({**_document(found.entry), "headers": _headers(found)})
    else:
        headers = [(f"header {name}", value) for name, value in _headers(found)]
        print_facts([*_document(found.entry).items(), *headers])
    return 0


@quarantine.command("retry")
@_ids_argument
@database_option
@integrity_keys_option
@json_option
def retry(ids: Sequence[Position], database: str, integrity_keys: tuple[str, ...], as_json: bool) -> int:
    """Apply records that this version reads as valid events, where the order of the log allows it.

    A record that is no valid event stays open. One whose session went on without it can't be applied any more; a replay into
    an empty database will hold it.
    """
    keys = keyring(integrity_keys)
    with _view(database) as connection:
        become_writer(connection)
        results = list(Retry(connection, keys).run(ids))
    if as_json:
        print_array({"id": _shown_id(r.position), "result": r.result.value, "detail": r.detail} for r in results)
    else:
        print_table(
            ["id", "result", "detail"], [(_shown_id(r.position), r.result.value, r.detail) for r in results], empty=""
        )
    return 0 if all(result.result in DONE for result in results) else 1


@quarantine.command("dismiss")
@_ids_argument
@click.option("--reason", required=True, help="Why nothing more needs to be done; kept beside the record.")
@database_option
@json_option
def dismiss_entries(ids: Sequence[Position], reason: str, database: str, as_json: bool) -> int:
    """Mark open records as done with. They stay, with who did it, when and why."""
    if not reason.strip() or "\0" in reason:
        raise click.BadParameter("expected a reason", param_hint="--reason")
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("expected a text in UTF-8", param_hint="--reason") from None
    results: list[tuple[str, str]] = []
    with _view(database) as connection:
        become_writer(connection)
        for wanted in dict.fromkeys(ids):
            found = find(connection, wanted.topic or None, wanted.partition, wanted.offset)
            if found is None:
                results.append((_shown_id(wanted), "not_found"))
            elif dismiss(connection, found.entry.position, reason):
                results.append((str(found.entry.position), "dismissed"))
            else:
                results.append((str(found.entry.position), f"already {found.entry.status}"))
    if as_json:
        print_array({"id": shown, "result": result} for shown, result in results)
    else:
        print_table(["id", "result"], results, empty="")
    return 0 if all(result == "dismissed" or result == "already dismissed" for _, result in results) else 1


@contextmanager
def _view(database: str) -> Iterator[Connection]:
    with closing(connect(database, application="milepost-quarantine")) as connection, translated(database):
        require_current(connection)
        yield connection


def _document(entry: QuarantineEntry) -> dict[str, object]:
    """The entry's facts; the key as a text where it is one."""
    return {
        "id": str(entry.position),
        "topic": entry.position.topic,
        "partition": entry.position.partition,
        "offset": entry.position.offset,
        "log_time": entry.log_time,
        "key": shown_bytes(entry.key),
        "size": entry.size,
        "reason": entry.reason,
        "detail": entry.detail,
        "status": entry.status,
        "note": entry.note,
        "changed_by": entry.changed_by,
        "changed_at": entry.changed_at,
        "recorded_at": entry.recorded_at,
    }


def _headers(found: QuarantinedRecord) -> list[tuple[object, object]]:
    return [(shown_bytes(name), shown_bytes(value)) for name, value in raw_names(found.headers)]


def _shown_id(position: Position) -> str:
    return str(position) if position.topic else f"{position.partition}@{position.offset}"


def _missing(position: Position) -> int:
    click.echo(f"milepost: the quarantine holds no record {_shown_id(position)}", err=True)
    return 1


COMMANDS: Final = [quarantine]
