# SPDX-License-Identifier: Apache-2.0
"""Encryption of samples or whole chunks, with key files that litdata reads and writes.

``level`` says what is encrypted: "sample" = the bytes of each item, "chunk" = the whole chunk file. Needs the package
cryptography.
"""

from __future__ import annotations

import base64
import json
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

from stoker.exceptions import InvalidArgumentError

EncryptionLevel = Literal["sample", "chunk"]
_ITERATIONS = 480_000
_SALT_BYTES = 16
_RSA_BITS = 2048
_RSA_MAX_BYTES = 190  # 256 bytes less OAEP with SHA-256


class Encryption(ABC):
    """What encrypts and decrypts the bytes of a dataset. Users may subclass it."""

    level: EncryptionLevel

    @property
    @abstractmethod
    def algorithm(self) -> str:
        """Name stored in the index; reading compares it."""

    @abstractmethod
    def encrypt(self, data: bytes) -> bytes:
        """Return the ciphertext."""

    @abstractmethod
    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            ValueError: wrong password or key.
        """

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what the index stores: algorithm and level."""

    @abstractmethod
    def save(self, file_path: str | Path) -> None:
        """Write the key file. It never holds a password."""

    @classmethod
    @abstractmethod
    def load(cls, file_path: str | Path, password: str) -> Encryption:
        """Read a key file."""


def _checked_level(level: str) -> EncryptionLevel:
    if level not in ("sample", "chunk"):
        msg = f"level={level!r} is unknown; use 'sample' or 'chunk'."
        raise InvalidArgumentError(msg)
    return level  # type: ignore[return-value]


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = "Encryption needs the package cryptography: pip install cryptography"
        raise ModuleNotFoundError(msg) from error


def _read_key_file(file_path: str | Path, needed: tuple[str, ...]) -> dict[str, str]:
    try:
        content = json.loads(Path(file_path).read_text())
    except ValueError as error:
        msg = f"{file_path} is no key file: {error}"
        raise InvalidArgumentError(msg) from error
    if not isinstance(content, dict):
        msg = (
            f"{file_path} is no key file: it holds a {type(content).__name__} instead of an object"
        )
        raise InvalidArgumentError(msg)
    missing = [key for key in needed if not isinstance(content.get(key), str)]
    if missing:
        msg = f"{file_path} is no key file of this kind: {missing} are missing or no text"
        raise InvalidArgumentError(msg)
    return content


def _write_private(file_path: str | Path, text: str) -> None:
    """Write a file that only the owner may read, also where a file was that others may read."""
    descriptor = os.open(file_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)


class FernetEncryption(Encryption):
    """Fernet (AES-128-CBC with HMAC-SHA256), the key derived from a password (PBKDF2-HMAC-SHA256, 480,000 rounds).

    Args:
        password: any text.
        level: "sample" or "chunk".
        salt: 16 bytes; None = new ones. The key file keeps them: without it the data is lost.
    """

    algorithm: ClassVar[str] = "fernet"

    def __init__(self, password: str, level: str = "sample", salt: bytes | None = None) -> None:
        _require_cryptography()
        from cryptography.fernet import Fernet
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC

        self.level = _checked_level(level)
        self._salt = os.urandom(_SALT_BYTES) if salt is None else salt
        derive = PBKDF2HMAC(hashes.SHA256(), length=32, salt=self._salt, iterations=_ITERATIONS)
        self._key = base64.urlsafe_b64encode(derive.derive(password.encode()))
        self._fernet = Fernet(self._key)

    def __getstate__(self) -> dict[str, Any]:
        """Travel to worker processes as the key; the cipher itself cannot since cryptography 51."""
        return {name: value for name, value in self.__dict__.items() if name != "_fernet"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from cryptography.fernet import Fernet

        self.__dict__.update(state)
        self._fernet = Fernet(self._key)

    def encrypt(self, data: bytes) -> bytes:
        """Return a Fernet token."""
        return self._fernet.encrypt(data)

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes of a Fernet token.

        Raises:
            ValueError: wrong password or key file, or altered data.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(data)
        except InvalidToken as error:
            msg = "Fernet cannot decrypt the data: wrong password or key file, or the data was altered"
            raise InvalidArgumentError(msg) from error

    def state_dict(self) -> dict[str, Any]:
        """Return algorithm and level."""
        return {"algorithm": self.algorithm, "level": self.level}

    def save(self, file_path: str | Path) -> None:
        """Write algorithm, level and salt as JSON."""
        salt = base64.urlsafe_b64encode(self._salt).decode()
        _write_private(file_path, json.dumps({**self.state_dict(), "salt": salt}))

    @classmethod
    def load(cls, file_path: str | Path, password: str) -> FernetEncryption:
        """Read a key file.

        Raises:
            InvalidArgumentError: it is none.
        """
        content = _read_key_file(file_path, ("level", "salt"))
        try:
            salt = base64.b64decode(content["salt"], b"-_", validate=True)
        except ValueError as error:
            msg = f"{file_path} is no key file: its salt is damaged ({error})"
            raise InvalidArgumentError(msg) from error
        return cls(password, content["level"], salt)


class RSAEncryption(Encryption):
    """RSA-2048 with OAEP (SHA-256): at most 190 bytes per sample or chunk.

    Args:
        password: protects the private key in files; "" = none.
        level: "sample" or "chunk".
    """

    algorithm: ClassVar[str] = "rsa"

    def __init__(self, password: str = "", level: str = "sample") -> None:
        _require_cryptography()
        from cryptography.hazmat.primitives.asymmetric import rsa

        self._adopt(
            rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS), password, level
        )

    def _adopt(self, private_key: Any, password: str, level: str) -> None:
        self.level = _checked_level(level)
        self._password = password
        self._private: Any = private_key
        self._public: Any = private_key.public_key()

    def __getstate__(self) -> dict[str, Any]:
        """Travel to worker processes with the key as bytes."""
        from cryptography.hazmat.primitives import serialization as s

        der = self._private.private_bytes(s.Encoding.DER, s.PrivateFormat.PKCS8, s.NoEncryption())
        return {"key": der, "password": self._password, "level": self.level}

    def __setstate__(self, state: dict[str, Any]) -> None:
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        key = load_der_private_key(state["key"], None)
        self._adopt(key, state["password"], state["level"])

    @staticmethod
    def _padding() -> Any:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        return padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)

    def encrypt(self, data: bytes) -> bytes:
        """Return 256 bytes of ciphertext.

        Raises:
            InvalidArgumentError: more than 190 bytes.
        """
        if len(data) > _RSA_MAX_BYTES:
            msg = f"RSA encrypts at most {_RSA_MAX_BYTES} bytes at a time, found {len(data)}; use FernetEncryption."
            raise InvalidArgumentError(msg)
        encrypted: bytes = self._public.encrypt(data, self._padding())
        return encrypted

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes.

        Raises:
            ValueError: wrong key, or altered data.
        """
        try:
            plain: bytes = self._private.decrypt(data, self._padding())
        except ValueError as error:
            msg = "RSA cannot decrypt the data: wrong password or key file, or the data was altered"
            raise InvalidArgumentError(msg) from error
        return plain

    def state_dict(self) -> dict[str, Any]:
        """Return algorithm and level."""
        return {"algorithm": self.algorithm, "level": self.level}

    def _pem(self) -> tuple[str, str]:
        from cryptography.hazmat.primitives import serialization as s

        secret = (
            s.BestAvailableEncryption(self._password.encode())
            if self._password
            else s.NoEncryption()
        )
        private = self._private.private_bytes(
            s.Encoding.PEM, s.PrivateFormat.TraditionalOpenSSL, secret
        )
        public = self._public.public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo)
        return private.decode(), public.decode()

    def save(self, file_path: str | Path) -> None:
        """Write both keys (the private one under the password) and the level as JSON; never the password."""
        private, public = self._pem()
        content = {**self.state_dict(), "private_key": private, "public_key": public}
        _write_private(file_path, json.dumps(content))

    def save_keys(self, private_path: str | Path, public_path: str | Path) -> None:
        """Write the two keys as PEM files."""
        private, public = self._pem()
        _write_private(private_path, private)
        Path(public_path).write_text(public)

    @classmethod
    def load(cls, file_path: str | Path, password: str) -> RSAEncryption:
        """Read a key file.

        Raises:
            InvalidArgumentError: it is none, or the password is wrong.
        """
        content = _read_key_file(file_path, ("private_key", "public_key", "level"))
        return cls._from_pem(content["private_key"], password, content["level"], str(file_path))

    @classmethod
    def load_keys(
        cls, private_path: str | Path, public_path: str | Path, password: str, level: str = "sample"
    ) -> RSAEncryption:
        """Read two PEM files; the public key must belong to the private one.

        Raises:
            InvalidArgumentError: they are none or do not belong together, or the password is wrong.
        """
        loaded = cls._from_pem(Path(private_path).read_text(), password, level, str(private_path))
        if loaded._pem()[1].split() != Path(public_path).read_text().split():  # noqa: SLF001 - own class
            msg = f"{public_path} does not belong to {private_path}"
            raise InvalidArgumentError(msg)
        return loaded

    @classmethod
    def _from_pem(cls, private: str, password: str, level: str, where: str) -> RSAEncryption:
        _require_cryptography()
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

        encrypted = "ENCRYPTED" in private
        try:
            key = serialization.load_pem_private_key(
                private.encode(), password.encode() if encrypted else None
            )
        except (ValueError, TypeError) as error:
            msg = f"{where}: wrong password or damaged private key"
            raise InvalidArgumentError(msg) from error
        if not isinstance(key, RSAPrivateKey):
            msg = f"{where} holds another kind of key than RSA ({type(key).__name__})"
            raise InvalidArgumentError(msg)
        made = cls.__new__(cls)
        made._adopt(key, password, level)  # noqa: SLF001 - own class
        return made
