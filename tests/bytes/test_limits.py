"""16 MiB passes and one byte more does not; what waits in the log does not wait in memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from milepost.producer import CheckpointPublisher
from milepost.schemas import MAX_STATE_BYTES, CheckpointCreated, InvalidEvent, SessionDeleted, encode
from tests.fixtures.commands import Milepost, wait_until
from tests.fixtures.raw_kafka import RawRecord, produce_bytes

WAITING = 100
LARGEST_MEMORY_MB = 512


def state_of(size: int) -> bytes:
    return b'{"$type":0,"text":"'.ljust(size - 2, b"x") + b'"}'


def test_one_byte_too_many_is_refused_with_both_numbers(kafka_servers: str, topic: str) -> None:
    event = CheckpointCreated(tenant_id="t", session_id="s", state=state_of(MAX_STATE_BYTES + 1))
    with (
        CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test") as publisher,
        pytest.raises(InvalidEvent, match="at most 16777216 bytes, found 16777217 bytes"),
    ):
        publisher.publish(event)


def test_the_command_line_refuses_it_with_the_limit(milepost: Milepost) -> None:
    done = milepost.result("publish", "t", "s", stdin=state_of(MAX_STATE_BYTES + 1))
    assert done.returncode == 2
    assert b"at most 16777216 bytes" in done.stderr


def test_the_largest_state_with_the_largest_attributes(milepost: Milepost, kafka_servers: str, topic: str) -> None:
    """What each limit allows by itself is allowed together: the record stays under 17 MiB."""
    wide = "😀" * 512
    event = CheckpointCreated(
        tenant_id="t" * 128,
        session_id=wide,
        checkpoint_id=wide,
        parent_id=wide,
        state=state_of(MAX_STATE_BYTES),
        next_node="😀" * 4_096,
        framework_version="😀" * 4_096,
        labels={"k": "x" * 65_528},
    )
    with CheckpointPublisher(kafka_servers, topic=topic, source="/runtimes/test") as publisher:
        publisher.publish(event).result(60)
    milepost.run("consume", "--until-caught-up")
    assert milepost.run("get", "t" * 128, wide, wide) == event.state


def test_what_waits_in_the_log_does_not_wait_in_memory(
    milepost: Milepost, kafka_servers: str, topic: str, other_database: str, tmp_path: Path
) -> None:
    """A hundred states of 16 MiB, dull ones: Kafka's limits count what is compressed, and these go into 900 bytes each."""
    milepost.run("retention", "set", "--newest", "2")
    state = state_of(MAX_STATE_BYTES)
    for session in range(4):
        produce_bytes(kafka_servers, topic, records(f"s{session}", state, WAITING // 4))
    peak = peak_of_catching_up(milepost, tmp_path / "log")
    assert f'"applied":{WAITING}' in (tmp_path / "log").read_text()
    assert 16 < peak < LARGEST_MEMORY_MB
    peak = peak_of(milepost, tmp_path / "replay", "replay", "--into", other_database, "--retain", "2")
    assert f'"applied":{WAITING}' in (tmp_path / "replay").read_text()
    assert 16 < peak < LARGEST_MEMORY_MB


@pytest.mark.parametrize("name", [b"other", b"ce_other"])
def test_nor_do_headers(milepost: Milepost, kafka_servers: str, topic: str, tmp_path: Path, name: bytes) -> None:
    """60 deletions without a value, and 16 MiB in a header of each."""
    made = encode(SessionDeleted(tenant_id="t", session_id="s"), source="/runtimes/test")
    headers = {name.encode(): value.encode() if isinstance(value, str) else value for name, value in made.headers}
    pad = (name, b"x" * MAX_STATE_BYTES)
    produce_bytes(
        kafka_servers,
        topic,
        [
            RawRecord(made.key, None, [*(headers | {b"ce_id": b"%032x" % (each + 1)}).items(), pad])
            for each in range(60)
        ],
    )
    peak = peak_of_catching_up(milepost, tmp_path / "log")
    assert f'"{"quarantined" if name == b"ce_other" else "applied"}":60' in (tmp_path / "log").read_text()
    assert 16 < peak < LARGEST_MEMORY_MB


def peak_of_catching_up(milepost: Milepost, log: Path) -> int:
    """The most memory that the consumer had, in MB."""
    return peak_of(milepost, log, "consume", "--until-caught-up")


def peak_of(milepost: Milepost, log: Path, *arguments: str) -> int:
    """The most memory that a command had, in MB."""
    with milepost.running(*arguments, "--json", log=log) as process:
        peaks: list[int] = []

        def has_ended() -> bool:
            peaks.append(peak_mb(process.pid))
            return process.poll() is not None

        wait_until(has_ended, "the end of the log", limit=240)
    return max(peaks)


def records(session: str, state: bytes, number: int) -> list[RawRecord]:
    """Checkpoints of one session with the same state, which is encoded once."""
    made = encode(CheckpointCreated(tenant_id="t", session_id=session, state=state), source="/runtimes/test")
    headers = {name.encode(): value.encode() if isinstance(value, str) else value for name, value in made.headers}
    return [
        RawRecord(
            made.key,
            made.value,
            [*(headers | {b"ce_id": b"%032x" % (each + 1), b"ce_checkpointid": b"%04d" % each}).items()],
        )
        for each in range(number)
    ]


def peak_mb(pid: int) -> int:
    """The most memory that a process ever had, in MB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1024 if found is not None else 0  # one that has ended has none
