"""A runtime that publishes: `python -m tests.chaos.publisher SERVERS TOPIC SPOOL LEDGER`, told what by lines `SEED EVENTS`.

The id of each event is written to the ledger after `publish` has returned: from then on it must come into the log, whatever
becomes of this process. Bad records and an aborted transaction go beside it, without a promise.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from milepost.producer import CheckpointPublisher
from tests.chaos.traffic import bad_records, made

MARK: Final = "mark"
"""A line that begins so is answered with its second word, once everything before it is done and all bad records are there."""
_PAUSE_SECONDS: Final = 0.002
_CLOSE_SECONDS: Final = 2.0
_BAD_SECONDS: Final = 15.0


class Publishing:
    """The publisher and what goes beside it."""

    def __init__(self, servers: str, topic: str, spool: Path, ledger: Path) -> None:
        self._servers, self._topic = servers, topic
        self._publisher = CheckpointPublisher(
            servers,
            topic=topic,
            source="/runtimes/chaos",
            spool=spool,
            kafka={"reconnect.backoff.max.ms": 500},
        )
        self._ledger = ledger.open("a", buffering=1)
        self._raw = Producer(self._settings())

    def publish(self, seed: int, number: int) -> None:
        """Publish so many events, each with its line in the ledger, a bad record now and then."""
        chosen = random.Random(seed)
        for event in made(chosen, number):
            self._publisher.publish(event)
            self._ledger.write(f"{event.event_id.hex}\n")
            if chosen.random() < 0.03:
                ((key, value, headers),) = bad_records(chosen, 1)
                self._raw.produce(self._topic, value, key, headers=headers)
                self._raw.poll(0)
            time.sleep(_PAUSE_SECONDS)
        if chosen.random() < 0.3:
            with suppress(KafkaException):
                self._abort(chosen)

    def wait_bad_records(self) -> None:
        """Wait until the log has the bad records, or never will: one that came later would be news to who has read the log."""
        if self._raw.flush(_BAD_SECONDS):
            # a client that was told once that there is no broker asks nobody any more
            self._raw.purge()
            self._raw.flush(1)
            self._raw = Producer(self._settings())

    def close(self) -> None:
        """End as a runtime ends; what is not delivered stays in the spool."""
        self._publisher.close(timeout=_CLOSE_SECONDS)

    def _abort(self, chosen: random.Random) -> None:
        """Records that nobody may see, and a marker that takes an offset."""
        producer = Producer(
            {
                **self._settings(),
                "transactional.id": f"chaos-{chosen.getrandbits(64)}",
                # who dies in a transaction keeps readers of committed records waiting for so long
                "transaction.timeout.ms": 3_000,
            }
        )
        producer.init_transactions(2)
        producer.begin_transaction()
        for key, value, headers in bad_records(chosen, 3):
            producer.produce(self._topic, value, key, headers=headers)
        producer.flush(2)
        producer.abort_transaction(2)

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "partitioner": "murmur2_random",
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }


def main() -> None:
    """Publish what is asked for until standard input ends or SIGTERM comes."""
    servers, topic, spool, ledger = sys.argv[1:]
    publishing = Publishing(servers, topic, Path(spool), Path(ledger))

    def stop(_number: int, _frame: FrameType | None) -> None:
        publishing.close()
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    print("ready", flush=True)
    for line in sys.stdin:
        seed, number = line.split()
        if seed == MARK:
            publishing.wait_bad_records()
            print(number, flush=True)
        else:
            publishing.publish(int(seed), int(number))
    publishing.close()


if __name__ == "__main__":
    main()
