"""Seals: an older copy that was restored and a log that was rewritten show; so do seals that were edited or made by others."""

from __future__ import annotations

import json
import re
import stat
import uuid
from pathlib import Path

import msgspec
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from psycopg import conninfo

from milepost.consumer.audit import NamedSeal, Seal, VerifyReport, VerifyRequest, read_seal, seal_view, verify
from milepost.consumer.audit.keys import generate, load_private, load_public
from milepost.consumer.compare import snapshot
from milepost.schemas import InvalidSetting, MilepostError, WrongView
from tests.audit.conftest import Filled, edit, temporary
from tests.audit.fake_log import against
from tests.fixtures.view import PARTITIONS, PostgresView

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"


class Sealer:
    """A key in a folder, and what can be done with it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "key"
        self.public, self.id = generate(self.file)

    def seal(self, database: str) -> Seal:
        with snapshot(database) as connection:
            return seal_view(connection, load_private(self.file))

    def request(self, database: str, seal: Seal) -> VerifyRequest:
        seals = [NamedSeal("s", seal)]
        return VerifyRequest(database=database, seals=seals, public_keys=[load_public(self.public)])


@pytest.fixture
def sealer(tmp_path: Path) -> Sealer:
    return Sealer(tmp_path)


def found(report: VerifyReport) -> set[str]:
    assert not report.verified
    return set(report.by_field)


def test_keys_are_for_their_owner_and_never_overwritten(sealer: Sealer) -> None:
    assert stat.S_IMODE(sealer.file.stat().st_mode) == 0o600
    before = sealer.file.read_bytes(), sealer.public.read_bytes()
    with pytest.raises(MilepostError, match="never overwritten"):
        generate(sealer.file)
    sealer.public.unlink()
    with pytest.raises(MilepostError, match="not overwritten"):
        generate(sealer.file)
    assert (sealer.file.read_bytes(), sealer.public.exists()) == (before[0], False)
    for load, content in ((load_private, before[1]), (load_public, before[0]), (load_public, b"no key")):
        sealer.file.write_bytes(content)
        with pytest.raises(InvalidSetting, match="expected an Ed25519"):
            load(sealer.file)


def test_where_the_view_stands_and_later(
    filled: Filled, sealer: Sealer, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = read_seal("s", sealer.seal(filled.database).to_json())
    report = verify(sealer.request(filled.database, seal))
    checked = ["signature", "identity of the log", "positions", "totals"]
    assert report.seals[0].checked == [*checked, f"digests of {PARTITIONS} partitions, as the view holds them"]
    assert report.verified
    earlier = sealed_earlier(filled, sealer, template)
    report = verify(sealer.request(filled.database, earlier))
    assert (report.verified, report.deviations) == (False, 0)
    assert all("give --kafka" in line for line in report.unchecked) and report.unchecked
    report = against(monkeypatch, filled.database, filled.records, request=sealer.request(filled.database, earlier))
    assert (report.verified, report.first) == (True, [])
    assert any("recomputed from the log" in line for line in report.seals[0].checked)


def sealed_earlier(filled: Filled, sealer: Sealer, template: str) -> Seal:
    """The seal of a view that has not all of the records yet."""
    with temporary(filled.database, template) as database:
        view = PostgresView(database)
        view.apply(filled.records[:15])
        view.close()
        return sealer.seal(database)


def test_a_log_with_one_other_record(
    filled: Filled, sealer: Sealer, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = sealed_earlier(filled, sealer, template)
    forged = [
        msgspec.structs.replace(filled.records[0], log_time=filled.records[0].log_time + 1_000),
        *filled.records[1:],
    ]
    report = against(monkeypatch, filled.database, forged, request=sealer.request(filled.database, seal))
    assert found(report) == {"partitions.digest"}
    (deviation,) = report.first
    assert deviation.key == {"seal": "s", "partition": str(forged[0].partition)}
    assert deviation.expected.startswith(seal.partitions[forged[0].partition].digest)


def test_an_older_copy(filled: Filled, edited: Filled, sealer: Sealer) -> None:
    view = PostgresView(edited.database)
    last = filled.records[-1]
    view.apply([msgspec.structs.replace(last, offset=last.offset + 1)])
    view.close()
    seal = sealer.seal(edited.database)
    report = verify(sealer.request(filled.database, seal))
    assert found(report) == {"partitions.next_offset"}
    assert "an older copy was restored" in report.first[0].found


def test_seals_that_are_not_genuine(filled: Filled, sealer: Sealer, tmp_path: Path) -> None:
    seal = sealer.seal(filled.database)
    changed = msgspec.structs.replace(seal, sealed_at="2020-01-01T00:00:00.000000Z")
    assert found(verify(sealer.request(filled.database, changed))) == {"seal.signature"}
    (tmp_path / "other").mkdir()
    other = Sealer(tmp_path / "other")
    report = verify(other.request(filled.database, seal))
    assert found(report) == {"seal.key_id"}
    assert (report.first[0].found, other.id in report.first[0].expected) == (sealer.id, True)
    assert "signature" not in report.seals[0].checked
    assert report.seals[0].unchecked == [f"signature: give the public key {sealer.id}"]
    pretended = msgspec.structs.replace(seal, key_id=other.id)
    assert found(verify(other.request(filled.database, pretended))) == {"seal.signature"}
    for content in (b"{}", b"\xff", seal.to_json().replace(b'"version": 1', b'"version": 2')):
        with pytest.raises(InvalidSetting, match="seal s: expected"):
            read_seal("s", content)


def test_totals_that_became_less_and_another_log(edited: Filled, sealer: Sealer) -> None:
    seal = sealer.seal(edited.database)
    edit(
        edited.database,
        "update milepost.partitions set events = events - 1, applied = applied - 1 where partition = 0",
        "update milepost.partitions set topic_id = 'x', digest = sha256('x') where topic_id <> 'x'",
    )
    expected = {"partitions.events", "partitions.applied", "partitions.topic_id", "partitions.digest"}
    assert found(verify(sealer.request(edited.database, seal))) >= expected


def test_a_seal_is_of_the_whole_log(edited: Filled, sealer: Sealer) -> None:
    edit(edited.database, """update milepost.view set replay = '{"until": {}, "is_cut": false, "tenant_id": "acme"}'""")
    with pytest.raises(WrongView):
        sealer.seal(edited.database)


def test_the_pages_example() -> None:
    """The canonical bytes and the signature, by the page's words alone."""
    page = PAGE.read_text(encoding="utf-8")
    document = json.loads(re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0])
    signature = bytes.fromhex(document.pop("signature"))
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(document["public_key"])).verify(signature, canonical)
    assert f"\n{canonical.decode()}\n" in page
    seal = read_seal("page", json.dumps({**document, "signature": signature.hex()}).encode())
    assert seal.canonical() == canonical


def test_a_role_that_sees_one_tenant_alone_is_refused(filled: Filled) -> None:
    name = f"reader_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(filled.database, autocommit=True) as connection:
        connection.execute(f"create role {name} login password 'x' in role milepost_reader")
        try:
            with pytest.raises(WrongView):
                verify(VerifyRequest(database=conninfo.make_conninfo(filled.database, user=name, password="x")))
        finally:
            connection.execute(f"drop role {name}")
