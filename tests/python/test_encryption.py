# SPDX-License-Identifier: Apache-2.0
"""Fernet and RSA: round trips, keys that do not fit, altered data, key files; and datasets that litdata encrypted."""

from __future__ import annotations

import base64
import json
import multiprocessing
import pickle
import shutil
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import error_of
from golden_values import GOLDEN, PASSWORD, check, expectations
from stoker import StreamingDataLoader, StreamingDataset
from stoker.encryption import Encryption, FernetEncryption, RSAEncryption
from stoker.exceptions import InvalidArgumentError

SALT = bytes(range(16))
KINDS = ["fernet", "rsa"]


@cache
def made(kind: str, password: str = PASSWORD, level: str = "sample") -> Encryption:
    """Return an encryption; deriving a Fernet key and making an RSA key are slow on purpose."""
    if kind == "fernet":
        return FernetEncryption(password, level, SALT)
    return RSAEncryption(password, level)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ---- round trips


@settings(max_examples=40)
@given(data=st.binary(max_size=190), kind=st.sampled_from(KINDS))
def test_round_trip(data: bytes, kind: str) -> None:
    encrypted = made(kind).encrypt(data)
    assert type(encrypted) is bytes
    assert len(data) < 4 or data not in encrypted
    assert made(kind).decrypt(encrypted) == data


def test_fernet_takes_any_length() -> None:
    data = bytes(range(256)) * 4096
    assert made("fernet").decrypt(made("fernet").encrypt(data)) == data


def test_rsa_has_a_limit() -> None:
    assert len(made("rsa").encrypt(bytes(190))) == 256
    with pytest.raises(InvalidArgumentError, match=r"at most 190 bytes .* found 191; use Fernet"):
        made("rsa").encrypt(bytes(191))


@pytest.mark.parametrize("kind", KINDS)
def test_state_dict_holds_no_secret(kind: str) -> None:
    assert made(kind).state_dict() == {"algorithm": kind, "level": "sample"}


@pytest.mark.parametrize("kind", [FernetEncryption, RSAEncryption])
@pytest.mark.parametrize("level", ["file", "", None, 3])
def test_unknown_level(kind: Any, level: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="use 'sample' or 'chunk'"):
        kind("p", level)


def test_salts_differ() -> None:
    assert FernetEncryption("p")._salt != FernetEncryption("p")._salt


# ---- keys and data that do not fit


@settings(max_examples=60)
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_altered_data(data: st.DataObject, kind: str) -> None:
    encrypted = made(kind).encrypt(b"a secret")
    raw = bytearray(base64.urlsafe_b64decode(encrypted) if kind == "fernet" else encrypted)
    how = data.draw(st.sampled_from(["flip", "cut", "append"]))
    if how == "flip":
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    elif how == "cut":
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw += data.draw(st.binary(min_size=1, max_size=9))
    altered = base64.urlsafe_b64encode(raw) if kind == "fernet" else bytes(raw)
    with pytest.raises(InvalidArgumentError, match=r"cannot decrypt .* or the data was altered"):
        made(kind).decrypt(altered)


@settings(max_examples=60)
@given(at=st.integers(0), new=st.binary(max_size=5))
def test_altered_text_of_a_fernet_token_is_never_another_value(at: int, new: bytes) -> None:
    """Its base64 has several spellings of the same bytes; none of other bytes passes."""
    token = made("fernet").encrypt(b"a secret")
    at %= len(token)
    altered = token[:at] + new + token[at + 1 :]
    error = error_of(made("fernet").decrypt, altered)
    if error is None:
        assert made("fernet").decrypt(altered) == b"a secret"
    else:
        assert "the data was altered" in str(error)


def test_wrong_password_or_salt() -> None:
    token = made("fernet").encrypt(b"secret")
    for other in (made("fernet", "another"), FernetEncryption(PASSWORD, salt=bytes(16))):
        with pytest.raises(InvalidArgumentError, match="wrong password or key file"):
            other.decrypt(token)


def test_another_rsa_key() -> None:
    with pytest.raises(InvalidArgumentError, match="wrong password or key file"):
        RSAEncryption().decrypt(made("rsa").encrypt(b"secret"))


# ---- key files


@pytest.mark.parametrize("level", ["sample", "chunk"])
@pytest.mark.parametrize("kind", KINDS)
def test_key_file(kind: str, level: str, tmp_path: Path) -> None:
    encryption, path = made(kind, level=level), tmp_path / "key"
    encryption.save(path)
    assert mode(path) == 0o600
    assert PASSWORD not in path.read_text()
    assert {"algorithm": kind, "level": level}.items() <= json.loads(path.read_text()).items()
    loaded = type(encryption).load(str(path), PASSWORD)
    assert loaded.level == level
    assert loaded.decrypt(encryption.encrypt(b"secret")) == b"secret"
    assert encryption.decrypt(loaded.encrypt(b"secret")) == b"secret"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_file_that_others_could_read_is_closed_to_them(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("something longer than any key file " * 200)
    path.chmod(0o644)
    made(kind).save(path)
    assert mode(path) == 0o600
    assert type(made(kind)).load(path, PASSWORD).level == "sample"


def test_rsa_pem_files(tmp_path: Path) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.touch(0o644)
    made("rsa").save_keys(private, public)
    assert mode(private) == 0o600
    assert "ENCRYPTED" in private.read_text()
    loaded = RSAEncryption.load_keys(private, public, PASSWORD, level="chunk")
    assert loaded.level == "chunk"
    assert loaded.decrypt(made("rsa").encrypt(b"secret")) == b"secret"
    with pytest.raises(InvalidArgumentError, match=r"private\.pem: wrong password"):
        RSAEncryption.load_keys(private, public, "wrong")


def test_rsa_without_password(tmp_path: Path) -> None:
    encryption, path = made("rsa", ""), tmp_path / "key"
    encryption.save(path)
    assert RSAEncryption.load(path, "").decrypt(encryption.encrypt(b"x")) == b"x"
    # A password where none is needed does no harm.
    assert RSAEncryption.load(path, "any").decrypt(encryption.encrypt(b"x")) == b"x"


def test_pem_files_that_do_not_belong_together(tmp_path: Path) -> None:
    made("rsa").save_keys(tmp_path / "a", tmp_path / "a.public")
    made("rsa", "").save_keys(tmp_path / "b", tmp_path / "b.public")
    with pytest.raises(InvalidArgumentError, match=r"b\.public does not belong to .*a"):
        RSAEncryption.load_keys(tmp_path / "a", tmp_path / "b.public", PASSWORD)


def test_wrong_password_for_an_rsa_key_file(tmp_path: Path) -> None:
    made("rsa").save(tmp_path / "key")
    for password in ("wrong", ""):
        with pytest.raises(InvalidArgumentError, match="key: wrong password or damaged"):
            RSAEncryption.load(tmp_path / "key", password)


GOOD_FERNET = {"level": "sample", "salt": "AAECAwQFBgcICQoLDA0ODw=="}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no key file"),
        (b"\xff\xfe", "is no key file"),
        (b"[1]", "list instead of an object"),
        (b'"level salt"', "str instead of an object"),
        (b"{}", r"\['level', 'salt'\] are missing"),
        (json.dumps({**GOOD_FERNET, "salt": 3}).encode(), r"\['salt'\] are missing or no text"),
        (json.dumps({**GOOD_FERNET, "salt": "AAE"}).encode(), "salt is damaged"),
        (json.dumps({**GOOD_FERNET, "salt": "é"}).encode(), "salt is damaged"),
        (json.dumps({**GOOD_FERNET, "level": "x"}).encode(), "use 'sample' or 'chunk'"),
    ],
)
def test_no_fernet_key_file(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=message):
        FernetEncryption.load(tmp_path / "key", PASSWORD)


def test_no_rsa_key_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made("fernet").save(path)
    with pytest.raises(InvalidArgumentError, match=r"\['private_key', 'public_key'\] are missing"):
        RSAEncryption.load(path, PASSWORD)
    path.write_text(json.dumps({"private_key": "x", "public_key": "y", "level": "sample"}))
    with pytest.raises(InvalidArgumentError, match="damaged private key"):
        RSAEncryption.load(path, PASSWORD)
    with pytest.raises(FileNotFoundError):
        RSAEncryption.load(tmp_path / "missing", PASSWORD)


def test_another_kind_of_private_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    pem = Ed25519PrivateKey.generate().private_bytes(
        s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()
    )
    (tmp_path / "key").write_bytes(pem)
    with pytest.raises(InvalidArgumentError, match="another kind of key than RSA"):
        RSAEncryption.load_keys(tmp_path / "key", tmp_path / "key", "")


# ---- other processes


@pytest.mark.parametrize("kind", KINDS)
def test_travels_to_other_processes(kind: str) -> None:
    copy = pickle.loads(pickle.dumps(made(kind)))
    assert copy.level == "sample"
    assert copy.decrypt(made(kind).encrypt(b"secret")) == b"secret"
    assert made(kind).decrypt(copy.encrypt(b"secret")) == b"secret"


def test_travelled_rsa_key_is_still_saved_under_its_password(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(made("rsa"))).save(tmp_path / "key")
    with pytest.raises(InvalidArgumentError, match="wrong password"):
        RSAEncryption.load(tmp_path / "key", "")


def test_missing_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for kind in (FernetEncryption, RSAEncryption):
        with pytest.raises(ModuleNotFoundError, match="pip install cryptography"):
            kind("p")


def test_importing_stoker_does_not_import_cryptography() -> None:
    program = "import sys, stoker, stoker.encryption; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- datasets encrypted by litdata

FERNET = ["fernet_chunk", "fernet_sample", "fernet_zstd_chunk"]
RSA = ["rsa_chunk", "rsa_sample"]


@cache
def golden_key(name: str) -> Encryption:
    if name.startswith("rsa"):
        return RSAEncryption.load(GOLDEN / name / "rsa.pem", PASSWORD)
    return FernetEncryption.load(GOLDEN / name / "fernet.pem", PASSWORD)


def check_samples(name: str, samples: list[Any]) -> None:
    for expected, sample in zip(expectations()[name]["samples"], samples, strict=True):
        check(expected, sample, name)


@pytest.mark.parametrize("name", [*FERNET, *RSA])
def test_litdata_datasets(name: str) -> None:
    dataset = StreamingDataset(GOLDEN / name, encryption=golden_key(name))
    assert golden_key(name).level in name or name == "fernet_zstd_chunk"
    check_samples(name, list(dataset))
    check_samples(name, [dataset[i] for i in range(len(dataset))])
    for outside in (len(dataset), -len(dataset) - 1):
        with pytest.raises(IndexError):
            dataset[outside]


@pytest.mark.parametrize("name", RSA)
def test_litdata_pem_files(name: str) -> None:
    files = GOLDEN / name
    level = name.removeprefix("rsa_")
    pair = (files / "private.pem", files / "public.pem")
    key = RSAEncryption.load_keys(*pair, PASSWORD, level)
    check_samples(name, list(StreamingDataset(files, encryption=key)))


def test_in_spawned_workers() -> None:
    dataset = StreamingDataset(GOLDEN / "rsa_sample", encryption=golden_key("rsa_sample"))
    context = multiprocessing.get_context("spawn")
    loader = StreamingDataLoader(
        dataset, batch_size=2, num_workers=1, multiprocessing_context=context
    )
    numbers = [number for batch in loader for number in batch[0].tolist()]
    assert numbers == [sample["v"][0]["v"] for sample in expectations()["rsa_sample"]["samples"]]


@pytest.mark.parametrize("name", [*FERNET, *RSA])
def test_wrong_key_for_a_dataset(name: str) -> None:
    level = golden_key(name).level
    wrong = made("rsa" if name in RSA else "fernet", level=level)
    dataset = StreamingDataset(GOLDEN / name, encryption=wrong)
    for read in (lambda: dataset[0], lambda: list(dataset)):
        with pytest.raises(InvalidArgumentError, match="cannot decrypt"):
            read()


def test_another_algorithm_or_level_than_the_dataset() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"algorithm mismatch: the dataset has 'rsa', .*'fernet'"
    ):
        StreamingDataset(GOLDEN / "rsa_sample", encryption=made("fernet"))
    with pytest.raises(
        InvalidArgumentError, match=r"level mismatch: the dataset has 'chunk', .*'sample'"
    ):
        StreamingDataset(GOLDEN / "fernet_chunk", encryption=made("fernet"))


@pytest.mark.parametrize("name", ["fernet_chunk", "fernet_sample"])
def test_altered_chunk(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "d"
    shutil.copytree(GOLDEN / name, directory)
    path = directory / "chunk-0-1.bin"
    data = bytearray(path.read_bytes())
    data[len(data) - 60] ^= 1
    path.write_bytes(data)
    dataset = StreamingDataset(directory, encryption=golden_key(name), verify="never")
    assert dataset[0][0] == 0
    with pytest.raises(InvalidArgumentError, match="the data was altered"):
        [dataset[i] for i in (4, 5)]
