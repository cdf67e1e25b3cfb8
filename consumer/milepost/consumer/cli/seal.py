"""`milepost audit keygen` and `milepost audit seal`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from milepost.consumer.audit import seal_view
from milepost.consumer.audit.keys import generate, load_private, write_new
from milepost.consumer.cli.options import database_option, json_option
from milepost.consumer.cli.output import print_facts, print_json, write
from milepost.consumer.compare import snapshot

_NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command("keygen")
@click.option(
    "--to", required=True, type=_NEW_FILE, metavar="FILE", help="The private key; the public one is FILE.pub."
)
@json_option
def keygen(to: Path, as_json: bool) -> int:
    """Make a key for seals (Ed25519). Whoever has the private file can seal, whoever has the public one can verify."""
    public, name = generate(to)
    facts = {"private_key": str(to), "public_key": str(public), "key_id": name}
    if as_json:
        print_json(facts)
    else:
        print_facts(facts.items())
    return 0


@click.command("seal")
@database_option
@click.option("--key", required=True, type=_NEW_FILE, metavar="FILE", help="The private key, by milepost audit keygen.")
@click.option(
    "--to", type=_NEW_FILE, metavar="FILE", help="A file that does not exist yet; standard output if left out."
)
def seal(database: str, key: Path, to: Path | None) -> int:
    """Write down what the view is now, signed: verify --seal shows a later restore of an older copy, or a rewritten log.

    Keep seals where who administers the database or Kafka cannot change them.
    """
    private = load_private(key)
    with snapshot(database) as connection:
        document = seal_view(connection, private).to_json()
    if to is None:
        write(document)
    else:
        write_new(to, document, 0o644)
        click.echo(f"sealed to {to}", err=True)
    return 0


COMMANDS: Final = [keygen, seal]
