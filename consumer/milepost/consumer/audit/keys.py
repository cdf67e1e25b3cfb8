"""Keys of seals: Ed25519, in PEM files that other tools read too."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from milepost.schemas import InvalidSetting, MilepostError

_ID_DIGITS: Final = 16


def generate(to: Path) -> tuple[Path, str]:
    """A new key: the private one in `to` for its owner alone, the public one beside it. Gives where that is, and the key's id.

    Raises `MilepostError` when one of the files exists: a key is never overwritten.
    """
    key = Ed25519PrivateKey.generate()
    public = to.with_name(f"{to.name}.pub")
    if public.exists():
        raise MilepostError(f"expected no file {public}, found one; a key is never overwritten: name another file")
    private_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_new(to, private_pem, 0o600)
    write_new(public, _public_pem(key.public_key()), 0o644)
    return public, key_id(key.public_key())


def load_private(path: Path) -> Ed25519PrivateKey:
    """The private key in a file. Raises `InvalidSetting`, which never shows what the file holds."""
    content = _read(path, "key")
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidSetting(
            f"key: expected an Ed25519 private key in PEM without a password in {path}, found something else; "
            "make one with: milepost audit keygen"
        )
    return key


def load_public(path: Path) -> Ed25519PublicKey:
    """The public key in a file. Raises `InvalidSetting`."""
    content = _read(path, "public-key")
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidSetting(
            f"public-key: expected an Ed25519 public key in PEM in {path}, found something else; "
            "milepost audit keygen writes one beside the private key"
        )
    return key


def raw(key: Ed25519PublicKey) -> bytes:
    """Its 32 bytes."""
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def key_id(key: Ed25519PublicKey) -> str:
    """What names a key: the first 16 hexadecimal digits of the SHA-256 of its 32 bytes."""
    return sha256(raw(key)).hexdigest()[:_ID_DIGITS]


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not exist yet. Raises `MilepostError`."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise MilepostError(f"expected no file {path}, found one; it is not overwritten: name another") from None
    except OSError as error:
        raise MilepostError(f"could not write {path}: {error.strerror}") from error


def _public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidSetting(f"{setting}: could not read {path}: {error.strerror}") from None
