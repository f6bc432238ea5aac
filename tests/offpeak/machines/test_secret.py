"""A password is read from a file that no other user can read, and is never printed by accident."""

import errno
import pickle
from pathlib import Path

import pytest

from offpeak.errors import BadInput, BadInventory
from offpeak.machines.credentials import Credential, Secret, read_secret


def _file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    file = folder / "password"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_the_first_line_is_the_password(tmp_path: Path) -> None:
    assert read_secret(_file(tmp_path, b"pa ss\xc3\xa4\r\nsecond\n")).value == b"pa ss\xc3\xa4"
    assert Credential("bmc", password_file=tmp_path / "password").password().value == b"pa ss\xc3\xa4"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(BadInput, match="others than its owner may read it") as caught:
        read_secret(_file(tmp_path, b"hunter2", mode))
    assert caught.value.hint == f"chmod 600 {tmp_path / 'password'}"


def test_what_systemd_passes_has_the_mask_of_an_access_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _file(tmp_path, b"hunter2", 0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "elsewhere"))
    with pytest.raises(BadInput, match="others than its owner"):
        read_secret(file)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert read_secret(file).value == b"hunter2"
    file.unlink()
    with pytest.raises(BadInput, match="others than its owner"):
        read_secret(_file(tmp_path, b"hunter2", 0o444))


@pytest.mark.parametrize("content", [b"", b"\n", b"\nsecond"])
def test_an_empty_password_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(BadInput, match="first line is empty"):
        read_secret(_file(tmp_path, content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"password: cannot be read: No such file") as caught:
        read_secret(tmp_path / "password")
    assert caught.value.hint.startswith("write the password into it")
    with pytest.raises(BadInventory, match=r"credentials\.bmc: has no password_file"):
        Credential("bmc").password()


def test_a_file_of_another_user_is_not_to_be_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    file = _file(tmp_path, b"hunter2")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadInput, match="cannot be read: Permission denied") as caught:
        read_secret(file)
    assert caught.value.hint == "run the command as root, or as the user of the agent"


def test_secret_is_not_shown_or_stored() -> None:
    secret = Secret(b"hunter2")
    shown = [repr(secret), str(secret), f"{secret}", repr([secret]), "%r %s" % (secret, secret)]  # noqa: UP031
    assert not any("hunter2" in text for text in shown)
    with pytest.raises(TypeError, match="not stored"):
        pickle.dumps(secret)
