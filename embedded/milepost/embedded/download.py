"""Fetching jars by their place in a Maven repository. Nothing arrives under its final name unverified."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from jgo.maven import MavenContext
from tenacity import RetryError, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from milepost.embedded.errors import DownloadFailed, JarRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

_STAGING = "fetching-"
_AT_ONCE = 4
_TRIES = 3
_ANSWER_LIMIT = 30


def fetch(wanted: Mapping[str, str], target: Path, work: Path) -> None:
    """Puts the jars into `target`, each under its last name, once its SHA-256 is right.

    `work` is a folder on the same file system, whose lock the caller holds. What was verified before a failure stays.
    Raises JarRefused, DownloadFailed.
    """
    for left_behind in work.glob(f"{_STAGING}*"):  # by a process that was killed: half a jar at worst, never used
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_STAGING, dir=work) as staging:
        mirror = os.environ.get("MILEPOST_JARS_URL")
        repositories = {"mirror": mirror.rstrip("/")} if mirror else None
        context = MavenContext(repo_cache=Path(staging), remote_repos=repositories, timeout=_ANSWER_LIMIT)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            jobs = [pool.submit(_fetch_one, context, place, digest, target) for place, digest in wanted.items()]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _fetch_one(context: MavenContext, place: str, digest: str, target: Path) -> None:
    retrying = Retrying(
        stop=stop_after_attempt(_TRIES),
        wait=wait_exponential(multiplier=0.5, max=4),
        # a refused connection, a broken one, a time limit; jgo has no class for "not found"
        retry=retry_if_exception_type((OSError, RuntimeError)),
    )
    try:
        jar = retrying(_download, context, place)
    except RetryError as error:
        cause = error.last_attempt.exception()
        message = (
            f"Kafka's jar {PurePosixPath(place).name} could not be fetched ({_TRIES} tries): {cause}\n"
            "Expected a network with a Maven repository. Check the connection, HTTPS_PROXY and, behind a proxy with "
            "certificates of its own, REQUESTS_CA_BUNDLE; or set MILEPOST_JARS_URL to a mirror; or copy a filled cache "
            "from another machine and set MILEPOST_CACHE to it."
        )
        raise DownloadFailed(message) from cause
    found = digest_of(jar)
    if found != digest:
        source = (
            "MILEPOST_JARS_URL" if os.environ.get("MILEPOST_JARS_URL") else "the repository, or a proxy on the way,"
        )
        advice = (
            f"It was not kept. What {source} served is not Kafka's published jar: find out why before trying elsewhere."
        )
        raise JarRefused(jar.name, expected=digest, found=found, advice=advice)
    os.replace(jar, target / jar.name)  # noqa: PTH105


def _download(context: MavenContext, place: str) -> Path:
    *group, artifact, version, _ = PurePosixPath(place).parts
    jar = context.project(".".join(group), artifact).at_version(version).artifact()
    half = jar.cached_path
    try:
        return Path(jar.resolve())
    except BaseException:
        # jgo takes any file of that name for the whole one
        if half is not None:
            with suppress(OSError):
                half.unlink()
        raise


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
