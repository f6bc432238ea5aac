"""Reading plain and gzipped text, and writes that never leave half a file."""

import gzip
import io
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from offpeak.errors import BadPrices, BadTrace, CannotWrite
from offpeak.files import is_there, read_bytes, read_stdin, replacing

pytestmark = pytest.mark.quick

TEXT = b"1 2 3\n" * 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "a.log"


@pytest.mark.parametrize(
    "content", [TEXT, gzip.compress(TEXT, mtime=0), b"\xef\xbb\xbf" + TEXT, gzip.compress(TEXT, mtime=0) * 2]
)
def test_text_is_read_plain_or_gzipped_and_without_a_mark(log: Path, content: bytes) -> None:
    log.write_bytes(content)
    assert read_bytes(log, BadTrace) in (TEXT, TEXT * 2)


def test_an_empty_file_is_empty_text(log: Path) -> None:
    log.write_bytes(b"")
    assert read_bytes(log, BadTrace) == b""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(TEXT, mtime=0)[:-3], "the gzip file ends too early"),
        (gzip.compress(TEXT, mtime=0)[:5], "the gzip file ends too early"),
        (gzip.compress(TEXT, mtime=0)[:-8] + b"\0" * 8, "the gzip file is damaged"),
        (gzip.compress(TEXT, mtime=0)[:12] + b"\xff" * 50, "the gzip file is damaged"),
        (b"\x1f\x8b\xff\xff" + b"x" * 20, "the gzip file is damaged"),
        (TEXT + b"\0", "is a binary file"),
        (gzip.compress(b"\x7fELF\0\0", mtime=0), "is a binary file"),
    ],
)
def test_binary_file_is_refused_with_a_hint(log: Path, content: bytes, message: str) -> None:
    log.write_bytes(content)
    with pytest.raises(BadTrace) as caught:
        read_bytes(log, BadTrace)
    assert str(caught.value) == f"{log}: {message}"
    assert caught.value.hint


def test_a_missing_file_and_a_folder_are_refused_by_the_error_that_is_requested(tmp_path: Path) -> None:
    with pytest.raises(BadPrices, match=r"gone\.csv: no such file"):
        read_bytes(tmp_path / "gone.csv", BadPrices)
    with pytest.raises(BadPrices, match=r"is a directory"):
        read_bytes(tmp_path, BadPrices)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BadPrices, match=r"cannot be read: Not a directory"):
        read_bytes(tmp_path / "file" / "x.csv", BadPrices)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(log: Path) -> None:
    log.write_bytes(TEXT)
    log.chmod(0)
    with pytest.raises(BadTrace, match="Permission denied"):
        read_bytes(log, BadTrace)


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT, mtime=0)])
def test_standard_input_may_be_gzipped_too(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_stdin(BadTrace) == TEXT


def test_a_truncated_pipe_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(TEXT, mtime=0)[:-1])))
    with pytest.raises(BadTrace, match="standard input: the gzip file ends too early"):
        read_stdin(BadTrace)


def test_a_finished_write_replaces_the_file_and_leaves_nothing_else(log: Path) -> None:
    log.write_bytes(b"old")
    with replacing(log) as file:
        file.write(b"new")
        assert log.read_bytes() == b"old"
    assert log.read_bytes() == b"new"
    assert list(log.parent.iterdir()) == [log]


def _write_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_an_interrupted_write_leaves_the_old_file(log: Path) -> None:
    log.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        _write_half(log)
    assert log.read_bytes() == b"old"
    assert list(log.parent.iterdir()) == [log]


def test_a_link_stays_a_link(log: Path) -> None:
    log.write_bytes(b"old")
    link = log.with_name("link")
    link.symlink_to(log)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert log.read_bytes() == b"new"


def test_a_new_file_has_the_permissions_that_any_program_would_give(log: Path) -> None:
    with replacing(log) as file:
        file.write(b"new")
    plain = log.with_name("plain")
    plain.touch()
    assert log.stat().st_mode == plain.stat().st_mode


def test_a_device_is_written_and_stays_a_device() -> None:
    with replacing(Path("/dev/null")) as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()


def test_a_missing_folder_and_a_folder_as_target_are_refused_with_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match="No such file or directory") as caught, replacing(tmp_path / "no" / "a"):
        pass
    assert caught.value.hint == f"`mkdir -p {tmp_path / 'no'}` makes the folder"
    with pytest.raises(CannotWrite, match="Is a directory") as caught, replacing(tmp_path):
        pass
    assert "name a file" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CannotWrite, match="Permission denied"), replacing(tmp_path / "a"):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_is_not_missing_because_its_folder_is_closed() -> None:
    with TemporaryDirectory() as name:
        closed = Path(name, "closed")
        closed.mkdir(mode=0)
        Path(name).chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionError):
                is_there(closed / "nodes.toml")
        finally:
            os.seteuid(0)
        assert not is_there(closed / "nodes.toml")
        assert not is_there(Path("/dev/null/nodes.toml"))
