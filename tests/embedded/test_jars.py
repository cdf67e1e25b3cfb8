"""Kafka's jars: only the pinned ones, whatever the network, the disk or another process does."""

from __future__ import annotations

import hashlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from milepost.embedded import DownloadFailed, JarRefused, UnusableFolder
from milepost.embedded.jars import JarCache, cache_folder, pinned
from milepost.embedded.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

_GOOD = b"the jar as it was published" * 1000
_BAD = b"another jar"
_PINS = {f"org/example/{name}/1.0/{name}-1.0.jar": hashlib.sha256(_GOOD).hexdigest() for name in ("a", "b", "c")}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        """Not on the test's output."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Maven repository's files, served on loopback."""
    folder = tmp_path / "repository"
    for place in _PINS:
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_bytes(_GOOD)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("MILEPOST_JARS_URL", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()
        thread.join()


@pytest.fixture
def told() -> list[str]:
    return []


def test_the_list_is_sha256sums_own_format_and_complete() -> None:
    pins = pinned()
    assert len(pins) == 46
    assert len({Path(place).name for place in pins}) == 46
    assert all(len(digest) == 64 and place.endswith(".jar") for place, digest in pins.items())


def test_jars_are_fetched_once(repository: Path, tmp_path: Path, told: list[str]) -> None:
    cache = JarCache(tmp_path / "cache", _PINS)
    libs = cache.ready(told.append)
    assert sorted(path.name for path in libs.iterdir()) == ["a-1.0.jar", "b-1.0.jar", "c-1.0.jar"]
    for place in _PINS:
        (repository / place).unlink()
    assert JarCache(tmp_path / "cache", _PINS).ready(told.append) == libs
    assert len(told) == 1
    # no repository of jgo's, no half jar
    assert sorted(path.name for path in cache.folder.iterdir() if path.name != "lock") == ["libs", "verified.json"]


def test_a_wrong_jar_of_the_network_is_refused_and_not_kept(repository: Path, tmp_path: Path, told: list[str]) -> None:
    wrong = next(iter(_PINS))
    (repository / wrong).write_bytes(_BAD)
    cache = JarCache(tmp_path / "cache", _PINS)
    with pytest.raises(JarRefused, match=r"a-1\.0\.jar") as refused:
        cache.ready(told.append)
    assert (refused.value.expected, refused.value.found) == (_PINS[wrong], hashlib.sha256(_BAD).hexdigest())
    assert "a-1.0.jar" not in {path.name for path in cache.libs.iterdir()}
    (repository / wrong).write_bytes(_GOOD)
    assert cache.ready(told.append) == cache.libs


def test_a_changed_jar_of_the_cache_is_refused_by_name_with_both_digests(
    repository: Path, tmp_path: Path, told: list[str]
) -> None:
    cache = JarCache(tmp_path / "cache", _PINS)
    cache.ready(told.append)
    (cache.libs / "b-1.0.jar").write_bytes(_BAD)
    with pytest.raises(JarRefused) as refused:
        cache.ready(told.append)
    message = str(refused.value)
    for part in ("b-1.0.jar", hashlib.sha256(_GOOD).hexdigest(), hashlib.sha256(_BAD).hexdigest(), "Remove"):
        assert part in message
    assert str(pickle.loads(pickle.dumps(refused.value))) == message
    (cache.libs / "b-1.0.jar").unlink()
    assert cache.ready(told.append) == cache.libs


def test_an_unknown_jar_is_refused(repository: Path, tmp_path: Path, told: list[str]) -> None:
    cache = JarCache(tmp_path / "cache", _PINS)
    cache.ready(told.append)
    (cache.libs / "extra.jar").write_bytes(_BAD)
    with pytest.raises(JarRefused, match=r"extra\.jar is refused: .*none of Kafka's pinned jars"):
        cache.ready(told.append)


def test_what_a_killed_download_left_is_never_used(repository: Path, tmp_path: Path, told: list[str]) -> None:
    cache = JarCache(tmp_path / "cache", _PINS)
    place = next(iter(_PINS))
    half = cache.folder / "fetching-dead" / place
    half.parent.mkdir(parents=True)
    half.write_bytes(_GOOD[:100])
    cache.ready(told.append)
    assert (cache.libs / "a-1.0.jar").read_bytes() == _GOOD
    assert list(cache.folder.glob("fetching-*")) == []


def test_two_at_once_share_one_cache(repository: Path, tmp_path: Path, told: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(JarCache(tmp_path / "cache", _PINS).ready, told.append) for _ in range(4)]
    assert {job.result() for job in jobs} == {JarCache(tmp_path / "cache", _PINS).libs}
    assert len(told) == 1


def test_no_network_is_told(tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILEPOST_JARS_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(DownloadFailed, match="Check the connection") as failed:
        JarCache(tmp_path / "cache", _PINS).ready(told.append)
    assert "MILEPOST_CACHE" in str(failed.value)


def test_a_cache_that_can_not_be_made_is_told(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFolder, match="Set MILEPOST_CACHE"):
        JarCache(tmp_path / "file", _PINS).ready(told.append)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MILEPOST_CACHE": "/m", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/m"),
        ({"MILEPOST_CACHE": "", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/milepost"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/milepost"),
        ({"HOME": "/h"}, "/h/.cache/milepost"),
    ],
)
def test_where_the_cache_is(environ: dict[str, str], expected: str) -> None:
    assert cache_folder(environ) == Path(expected)


def test_without_a_home_in_the_environment_the_users_own_is_taken() -> None:
    assert cache_folder({"HOME": ""}) == cache_folder({})
    assert cache_folder({}).is_absolute()
