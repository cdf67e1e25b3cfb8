"""Integrity keys: files of 32 random bytes, never in the database. The first of a keyring signs, all of them verify."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from milepost.consumer.integrity.facts import CheckpointFacts, HeadFacts, canonical
from milepost.schemas import InvalidSetting

KEY_BYTES: Final = 32
ID_BYTES: Final = 8
_ID_LABEL: Final = b"milepost integrity key id 1\n"
_HOW: Final = "make one with: (umask 077; openssl rand -out FILE 32)"


class IntegrityKey:
    """A key and its id. Neither `repr` nor `str` shows the key."""

    __slots__ = ("_key", "id")

    def __init__(self, key: bytes) -> None:
        """Raises `InvalidSetting` for anything but 32 bytes."""
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            found = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise InvalidSetting(f"integrity key: expected {KEY_BYTES} random bytes, found {found}; {_HOW}")
        self._key = key
        self.id = sha256(_ID_LABEL + key).digest()[:ID_BYTES]
        """The first 8 bytes of a SHA-256: stands beside each MAC, says nothing of the key."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IntegrityKey:
        """The key in a file. Raises `InvalidSetting` when it cannot be read, is no key, or others may read it."""
        file = Path(path)
        try:
            with file.open("rb") as stream:
                _check_access(file, os.fstat(stream.fileno()))
                content = stream.read(KEY_BYTES + 1)
        except OSError as error:
            raise InvalidSetting(f"integrity key {file}: {error.strerror or error}") from None
        if len(content) != KEY_BYTES:
            found = f"{len(content)} bytes" if len(content) < KEY_BYTES else "more"
            raise InvalidSetting(f"integrity key {file}: expected {KEY_BYTES} random bytes, found {found}; {_HOW}")
        return cls(content)

    def mac(self, facts: CheckpointFacts | HeadFacts) -> bytes:
        """The HMAC-SHA256 of a row's facts."""
        return hmac.digest(self._key, canonical(facts), "sha256")

    def __repr__(self) -> str:
        return f"<IntegrityKey {self.id.hex()}>"


class Keyring:
    """Keys by their ids. Not empty."""

    def __init__(self, keys: Sequence[IntegrityKey]) -> None:
        """Raises `InvalidSetting` without any key."""
        if not keys:
            raise InvalidSetting("integrity keys: expected one at least, found none")
        self._signing = keys[0]
        self._keys = {key.id: key for key in keys}

    @property
    def signing_id(self) -> bytes:
        """The id of the key that signs."""
        return self._signing.id

    @property
    def ids(self) -> frozenset[bytes]:
        """The ids of all keys."""
        return frozenset(self._keys)

    def sign(self, facts: CheckpointFacts | HeadFacts) -> tuple[bytes, bytes]:
        """What goes into the columns `mac` and `mac_key`."""
        return self._signing.mac(facts), self._signing.id

    def fits(self, facts: CheckpointFacts | HeadFacts, mac: bytes, key_id: bytes) -> bool | None:
        """Whether a MAC is that of the facts under the key it names; None when that key is not here."""
        key = self._keys.get(key_id)
        return hmac.compare_digest(key.mac(facts), mac) if key is not None else None


KeySource = str | os.PathLike[str] | IntegrityKey
"""A key, or the path of its file."""


def keyring(sources: Iterable[KeySource] | None) -> Keyring | None:
    """The keyring of keys or of their files, the signing one first; None when there are none.

    Raises `InvalidSetting` for what is no key.
    """
    if isinstance(sources, str | os.PathLike | IntegrityKey | bytes):
        raise InvalidSetting(f"integrity keys: expected several, such as [PATH], found one {type(sources).__name__}")
    keys = [source if isinstance(source, IntegrityKey) else IntegrityKey.load(source) for source in sources or ()]
    return Keyring(keys) if keys else None


def _check_access(file: Path, status: os.stat_result) -> None:
    """The rule that Postgres has for its own key files: nobody else, but root's file may be read by a group.

    Who can read the key can sign what they forge, so that a warning would come too late. Mounted secrets belong to root and are
    given to a process by a group.
    """
    if not stat.S_ISREG(status.st_mode):
        raise InvalidSetting(f"integrity key {file}: expected a file, found something else")
    forbidden = stat.S_IRWXO | stat.S_IWGRP | stat.S_IXGRP | (0 if status.st_uid == 0 else stat.S_IRGRP)
    if status.st_mode & forbidden:
        raise InvalidSetting(
            f"integrity key {file}: expected a file that only its owner can read (0600, or 0640 if it belongs to root), "
            f"found {stat.filemode(status.st_mode)}; chmod 600 it, and make a new key if somebody else may have read it"
        )
