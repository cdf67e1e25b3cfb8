"""The check of an export: every change is noticed, and no file, however it was made, brings it down."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from milepost.consumer.audit.export_archive import (
    CHECKSUM,
    HISTORY,
    MANIFEST,
    ArchiveReader,
    ArchiveWriter,
    checksum_of,
    state_name,
)
from milepost.consumer.audit.export_check import MOST_PROBLEMS, ExportCheck, check_export
from milepost.consumer.audit.export_import import ImportRequest, import_session
from tests.audit_export.conftest import Ground

Members = dict[str, bytes]
BLOCK = 512


@pytest.fixture(scope="package")
def archive(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small export: the states that the view holds."""
    path = tmp_path_factory.mktemp("export") / "export.tar"
    ground.export(path, kafka=False)
    return path.read_bytes()


@pytest.fixture
def check(tmp_path: Path) -> Callable[[bytes], ExportCheck]:
    """The check of some bytes."""

    def checked(content: bytes) -> ExportCheck:
        path = tmp_path / "export.tar"
        path.write_bytes(content)
        with path.open("rb") as stream:
            return check_export(stream)

    return checked


Check = Callable[[bytes], ExportCheck]


def unpacked(archive: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        return {member.name: found.extractfile(member).read() for member in found}  # type: ignore[union-attr]


def packed(members: Members) -> bytes:
    stream = io.BytesIO()
    writer = ArchiveWriter(stream)
    for name, content in members.items():
        writer.add(name, content)
    writer.finish()
    return stream.getvalue()


def described(members: Members) -> Members:
    """The same with a manifest and a checksum that say of history what it is, as a careful forger's would."""
    manifest = json.loads(members[MANIFEST])
    for member in manifest["members"]:
        content = members[member["name"]]
        member |= {"size": len(content), "sha256": sha256(content).hexdigest()}
    return with_manifest(members, manifest)


def with_manifest(members: Members, manifest: dict[str, Any]) -> Members:
    text = json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"
    return members | {MANIFEST: text, CHECKSUM: checksum_of(text)}


def with_row(members: Members, number: int, /, **changes: object) -> Members:
    lines = members[HISTORY].splitlines()
    row = json.loads(lines[number - 1]) | changes
    lines[number - 1] = json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
    return described(members | {HISTORY: b"".join(line + b"\n" for line in lines)})


def column(members: Members, number: int, name: str) -> Any:
    return json.loads(members[HISTORY].splitlines()[number - 1])[name]


def test_repacked_it_is_the_same(archive: bytes, check: Check) -> None:
    members = unpacked(archive)
    assert packed(members) == packed(described(members)) == archive
    assert check(archive).problems == []


def test_a_clock_that_differs_a_little_is_no_forgery(archive: bytes, check: Check) -> None:
    """Each broker has a clock of its own, and a partition's leader may change."""
    members = unpacked(archive)
    before = datetime.fromisoformat(column(members, 4, "log_time")) - timedelta(seconds=59)
    found = check(
        packed(with_row(members, 5, log_time=f"{before.replace(tzinfo=None).isoformat('T', 'microseconds')}Z"))
    )
    assert found.problems == []


def test_only_the_owner_may_read_what_is_unpacked(archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        assert {member.mode for member in found} == {0o600}


def test_no_byte_can_be_changed(archive: bytes, check: Check) -> None:
    numbers = random.Random(7)
    places = [*range(0, BLOCK, 7), *range(len(archive) - 2 * BLOCK, len(archive), 31)]
    places += [numbers.randrange(len(archive)) for _ in range(300)]
    for place in places:
        changed = bytearray(archive)
        changed[place] ^= 1 << numbers.randrange(8)
        assert not check(bytes(changed)).ok, place


def test_nothing_can_be_cut_off_or_put_behind(archive: bytes, check: Check) -> None:
    for size in {0, 1, 511, 512, 513, *range(0, len(archive), 1_999), len(archive) - BLOCK, len(archive) - 1}:
        assert not check(archive[:size]).ok, size
    for more in (b"\0", b"x", bytes(BLOCK), archive):
        assert not check(archive + more).ok


EDITS: list[tuple[str, Callable[[Members], Members], str]] = [
    ("state", lambda m: m | {state_name(10): b"[0]"}, "states/00000000000000000010.json: SHA-256: expected"),
    ("longer state", lambda m: m | {state_name(10): b"[9] "}, "states/00000000000000000010.json: bytes: expected 3"),
    ("other state's", lambda m: m | {state_name(10): m[state_name(8)]}, "states/00000000000000000010.json: SHA-256"),
    ("label", lambda m: with_row(m, 8, labels="{}"), "history.jsonl, seq 8: chain: expected"),
    ("time", lambda m: with_row(m, 1, event_time="2026-11-30T12:00:00.000001Z"), "history.jsonl, seq 1: chain"),
    ("outcome", lambda m: with_row(m, 3, outcome="applied"), "history.jsonl, seq 3: chain"),
    ("chain", lambda m: with_row(m, 11, chain="00" * 32), "history.jsonl, seq 11: chain"),
    ("chain's form", lambda m: with_row(m, 11, chain="x"), "seq 11: chain: expected 64 hexadecimal digits"),
    ("tenant", lambda m: with_row(m, 5, tenant_id="other"), "history.jsonl, seq 5: tenant_id: expected 'acme'"),
    ("topic", lambda m: with_row(m, 5, topic="other"), "history.jsonl, seq 5: topic"),
    ("partition", lambda m: with_row(m, 5, partition=99), "history.jsonl, seq 5: partition: expected"),
    (
        "offset below 0",
        lambda m: with_row(m, 1, offset=-1),
        "history.jsonl, seq 1: offset: expected 0 or more, found -1",
    ),
    ("offset twice", lambda m: with_row(m, 5, offset=column(m, 4, "offset")), "history.jsonl, seq 5: offset: expected"),
    (
        "offset too high",
        lambda m: with_row(m, 5, offset=10**12),
        "history.jsonl, seq 6: offset: expected 1000000000001",
    ),
    (
        "offset too low",
        lambda m: with_row(m, 5, offset=column(m, 3, "offset")),
        "history.jsonl, seq 5: offset: expected",
    ),
    (
        "log time too early",
        lambda m: with_row(m, 5, log_time="2020-01-01T00:00:00.000000Z"),
        "seq 5: log_time: expected",
    ),
    (
        "log time too late",
        lambda m: with_row(m, 5, log_time="2199-01-01T00:00:00.000000Z"),
        "seq 6: log_time: expected",
    ),
    ("bad log time", lambda m: with_row(m, 5, log_time="noon"), "seq 5: 'log_time': expected an RFC 3339 time"),
    ("seq", lambda m: with_row(m, 5, seq=6), "history.jsonl, line 5: expected seq 5, found 6"),
    ("no digest", lambda m: with_row(m, 8, sha256=None), "seq 8: expected a checkpoint id and a SHA-256"),
    ("bad time", lambda m: with_row(m, 8, event_time="noon"), "seq 8: 'event_time': expected an RFC 3339 time"),
    ("unknown field", lambda m: with_row(m, 8, more=1), "history.jsonl, line 8: Object contains unknown field `more`"),
    ("wrong type", lambda m: with_row(m, 8, step=[[]]), "history.jsonl, line 8: Expected `int | null`"),
    ("no last event", lambda m: described(m | {HISTORY: b"".join(m[HISTORY].splitlines(keepends=True)[:-1])}), "00011"),
    (
        "no state",
        lambda m: {n: c for n, c in m.items() if n != state_name(8)},
        "expected the state of pinned, found none",
    ),
    ("history's digest", lambda m: m | {HISTORY: m[HISTORY].replace(b"travel", b"trovel")}, "history.jsonl: SHA-256"),
    ("checksum", lambda m: m | {MANIFEST: m[MANIFEST].replace(b"acme", b"acne")}, "the SHA-256 that stands in"),
    ("newest", lambda m: edited(m, "head", newest_checkpoint_id="d"), "manifest.json: head.newest_checkpoint_id"),
    ("deletion", lambda m: edited(m, "head", deleted_seq=None), "manifest.json: head.deleted_seq"),
    ("format", lambda m: with_manifest(m, json.loads(m[MANIFEST]) | {"format": "x"}), "manifest.json: format"),
    ("more in it", lambda m: with_manifest(m, json.loads(m[MANIFEST]) | {"x": 1}), "unknown field `x`"),
    ("deep", lambda m: m | sealed(b'{"format":' + b"[" * 90_000), "manifest.json:"),
]


def edited(members: Members, part: str, **changes: object) -> Members:
    manifest = json.loads(members[MANIFEST])
    manifest[part] |= changes
    return with_manifest(members, manifest)


def sealed(text: bytes) -> Members:
    return {MANIFEST: text, CHECKSUM: checksum_of(text)}


@pytest.mark.parametrize(("edit", "said"), [case[1:] for case in EDITS], ids=[case[0] for case in EDITS])
def test_what_does_not_fit_is_named(
    archive: bytes, check: Check, edit: Callable[[Members], Members], said: str, tmp_path: Path
) -> None:
    content = packed(edit(unpacked(archive)))
    found = check(content)
    assert not found.ok
    assert any(said in problem for problem in found.problems), found.problems
    with (tmp_path / "export.tar").open("rb") as stream:
        refused = import_session(ImportRequest(kafka="127.0.0.1:1", topic="none"), stream)
    assert isinstance(refused, ExportCheck)


def tarred(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def link(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info


def zipped(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("README.txt", content)
    return stream.getvalue()


def huge(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, 0
    return info.tobuf(tarfile.GNU_FORMAT)


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "zeros": lambda _: bytes(10_240),
    "noise": lambda _: random.Random(1).randbytes(100_000),
    "a zip bomb": lambda _: zipped(bytes(30_000_000)),
    "compressed": lambda archive: gzip.compress(archive),
    "a path upwards": lambda _: tarred((tarfile.TarInfo("../../etc/passwd"), b"x")),
    "a link": lambda _: tarred((link("README.txt"), b"")),
    "a long name": lambda _: tarred((tarfile.TarInfo("a" * 5_000), b"x"), form=tarfile.GNU_FORMAT),
    "extended headers": lambda _: tarred((tarfile.TarInfo("ü" * 200), b"x")),
    "a size without end": lambda _: huge("README.txt", 2**61),
    "a negative size": lambda _: huge("README.txt", -5) + bytes(2 * BLOCK),
    "twice the same": lambda archive: packed(dict(unpacked(archive)))[: -2 * BLOCK] + packed(unpacked(archive)),
    "a state twice": lambda archive: twice(unpacked(archive)),
    "a stranger": lambda archive: packed({"more.txt": b"x", **unpacked(archive)}),
    "another order": lambda archive: packed(dict(sorted(unpacked(archive).items()))),
    "a line without end": lambda archive: packed(unpacked(archive) | {HISTORY: b" " * 9_000_000}),
    "many lines": lambda archive: packed(unpacked(archive) | {HISTORY: b"\n" * 3_000_000}),
    "a large manifest": lambda archive: packed(unpacked(archive) | sealed(b" " * 20_000_000)),
    "a large state": lambda archive: packed(unpacked(archive) | {state_name(10): b" " * 17_000_000}),
}


def twice(members: Members) -> bytes:
    whole = packed(members)
    state = packed({state_name(10): members[state_name(10)]})[: -2 * BLOCK]
    at = whole.index(state)
    return whole[:at] + state + whole[at:]


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_little_memory(
    archive: bytes, check: Check, make: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(make(archive))
    with path.open("rb") as stream:
        tracemalloc.start()
        found = check_export(stream)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert not found.ok
    assert 1 <= len(found.problems) <= MOST_PROBLEMS
    assert peak < 40_000_000, peak


def test_a_sparse_file_that_claims_to_be_a_petabyte(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as stream:
        stream.write(huge("README.txt", 2**42))
        stream.truncate(2**42 + BLOCK)
    with path.open("rb") as stream:
        assert not check_export(stream).ok


def test_a_large_member_has_the_size_that_it_says(tmp_path: Path) -> None:
    """Sizes of 8 GiB and more are written in another form than smaller ones."""
    path = tmp_path / "large"
    with path.open("wb") as stream:
        writer = ArchiveWriter(stream)
        with writer.growing("README.txt") as member:
            member.seek(9 * 2**30, io.SEEK_CUR)
        writer.finish()
    with path.open("rb") as stream:
        found = ArchiveReader(stream).member(0)
        assert found is not None
        assert (found.name, found.size) == ("README.txt", 9 * 2**30)
        assert ArchiveReader(stream).member(found.end) is None
