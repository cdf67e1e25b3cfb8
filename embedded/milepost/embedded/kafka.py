"""Kafka: its folder, its command line, its first sign of life."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from base64 import urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from milepost.embedded.errors import ServerFailed
from milepost.embedded.jars import JarCache, cache_folder
from milepost.embedded.java import find_java
from milepost.embedded.process import Launch, run
from milepost.embedded.server import NotReady, Server
from milepost.embedded.settings import KAFKA_HEAP, KAFKA_NODE, KAFKA_SETTINGS, KAFKA_VERSION, LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FORMAT_LIMIT = 60.0
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


class KafkaServer(Server):
    """One node, broker and controller in one, KRaft."""

    name = "kafka"
    title = f"Kafka {KAFKA_VERSION}"
    ports_needed = 2
    stopping: ClassVar[Sequence[tuple[int, float]]] = ((signal.SIGTERM, 30.0), (signal.SIGKILL, 10.0))
    ready_limit = 120.0

    def __init__(self, directory: Path, progress: Callable[[str], None]) -> None:
        """Touches nothing."""
        self._folder = directory / "kafka"
        self._properties = self._folder / "server.properties"
        self._progress = progress
        self._java = ""
        self._libs = Path()
        self._client: tuple[int, AdminClient] | None = None

    @property
    def data(self) -> Path:
        return self._folder / "data"

    @property
    def signature(self) -> Sequence[str]:
        return ("kafka.Kafka", str(self._properties))

    def find_programs(self) -> str:
        self._java = find_java()
        self._libs = JarCache(cache_folder()).ready(self._progress)
        return KAFKA_VERSION

    def prepare(self, ports: Sequence[int]) -> Launch:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = {**KAFKA_SETTINGS, **_placed(*ports)}
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "ascii")
        if self._cluster_id() is None:
            self._format()
        return self._launch(f"-Xmx{KAFKA_HEAP}", "-XX:+UseG1GC", program="kafka.Kafka", arguments=())

    def ask(self, port: int, limit: float) -> None:
        # kept: a client that is thrown away takes its connection attempts with it
        if self._client is None or self._client[0] != port:
            self._client = (port, _client(port))
        try:
            metadata = self._client[1].list_topics(timeout=limit)
        except KafkaException as error:
            raise NotReady(str(error.args[0].str())) from error
        if metadata.cluster_id != self._cluster_id():
            raise NotReady(
                f"another cluster, {metadata.cluster_id}, answers on port {port}; ours is {self._cluster_id()}"
            )
        if KAFKA_NODE not in metadata.brokers:
            raise NotReady("the broker has not joined its cluster yet")

    def _cluster_id(self) -> str | None:
        try:
            lines = (self.data / "meta.properties").read_text("ascii").splitlines()
        except OSError:
            return None
        return dict(line.split("=", 1) for line in lines if "=" in line).get("cluster.id")

    def _format(self) -> None:
        """Makes the data folder, all or nothing."""
        for left_behind in self._folder.glob("format-*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        # an id must not begin with "-", which would be an option
        cluster = "m" + urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii")[1:22]
        # a name of its own: a format whose caller was killed may still be at work
        with tempfile.TemporaryDirectory(prefix="format-", dir=self._folder) as work:
            arguments = ("format", "-t", cluster, "-c")
            launch = self._launch("-XX:TieredStopAtLevel=1", program="kafka.tools.StorageTool", arguments=arguments)
            done = run(replace(launch, folder=Path(work)), _FORMAT_LIMIT)
            if done.returncode != 0:
                said = (done.stdout + done.stderr).strip()
                raise ServerFailed(f"Kafka's storage could not be formatted in {work}:\n{said}")
            Path(work, "data").rename(self.data)

    def _launch(self, *options: str, program: str, arguments: Sequence[str]) -> Launch:
        command = [
            self._java,
            *options,
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
            "-cp",
            f"{self._libs}/*",
            program,
            *arguments,
            str(self._properties),
        ]
        # without a UTF-8 locale Java can't open folders with other letters than ASCII's
        return Launch(command=command, folder=self._folder, environment={**os.environ, "LC_ALL": "C.UTF-8"})


def _placed(port: int, controller_port: int) -> dict[str, str]:
    """The settings that name ports and folders."""
    broker, controller = f"{LOOPBACK}:{port}", f"{LOOPBACK}:{controller_port}"
    return {
        # a static quorum, so that the controller's port may change between starts
        "controller.quorum.voters": f"{KAFKA_NODE}@{controller}",
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        # relative to the working folder: a list, so a comma in a full path would split it
        "log.dirs": "data",
    }


def _client(port: int) -> AdminClient:
    settings: dict[str, Any] = {
        "bootstrap.servers": f"{LOOPBACK}:{port}",
        # a refused connection is what is waited out here, not news
        "log_level": 0,
        "error_cb": lambda _: None,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
        # KIP-1102: who was told once that there is no broker begins anew; after five minutes by default
        "metadata.recovery.rebootstrap.trigger.ms": 2_000,
    }
    return AdminClient(settings)
