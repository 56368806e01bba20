from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest

from kspec.errors import FileError, KspecError
from kspec.files import explain, read_regular, resolved, system_refusals


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "see who owns it, and who may read and write it"),
        (errno.EROFS, "it is on a read-only file system; use another folder"),
        (errno.ENOSPC, "free some space, or use another disk"),
        (errno.EMFILE, r"raise the limit on open files \(ulimit -n\)"),
        (errno.ENAMETOOLONG, "use a shorter name"),
    ],
)
def test_an_error_has_path_reason_and_remedy(number: int, remedy: str) -> None:
    error = OSError(number, os.strerror(number), "a/b")
    match = rf"^a/b: {os.strerror(number)}; {remedy}$"
    with pytest.raises(FileError, match=match) as caught, system_refusals():
        raise error
    assert caught.value.__cause__ is error
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (FileError, str(caught.value))


def test_an_error_without_number_or_path_keeps_its_words() -> None:
    assert explain(OSError("cannot map")) == "cannot map"
    assert explain(OSError(errno.EIO, "I/O error", 12)).startswith("I/O error; the disk")
    assert explain(OSError(errno.ENOENT, "No such file or directory", b"caf\xe9")).startswith(
        "caf\udce9: No such"
    )


def test_errors_of_kspec_and_other_errors_pass() -> None:
    for error in (KspecError("a"), FileError("b"), KeyError("c")):
        with pytest.raises(type(error)) as caught, system_refusals():
            raise error
        assert caught.value is error


def test_a_removed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    match = r"^the current folder was removed; change to one"
    with pytest.raises(FileError, match=match), system_refusals():
        Path.cwd()


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("pipe", errno.EINVAL),
        ("loop", errno.ELOOP),
        ("folder", errno.EISDIR),
        ("none", errno.ENOENT),
        ("file/below", errno.ENOTDIR),
        ("n" * 300, errno.ENAMETOOLONG),
        ("a\0b", errno.EINVAL),
        ("a\ud800b", errno.EINVAL),
        ("/dev/null", errno.EINVAL),
    ],
)
def test_only_files_are_read(tmp_path: Path, path: str, number: int) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    assert read_regular(tmp_path / "file") == b"content"
    with pytest.raises(OSError) as caught:
        read_regular(tmp_path / path)
    assert caught.value.errno == number
    assert ascii(path)[1:-1] in explain(caught.value)


def test_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("other")
    assert resolved(tmp_path / "link/x") == tmp_path.resolve() / "other/x"
    assert resolved(tmp_path / "loop").name == "loop"
