# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P11: the folder of a report, as another user may leave it: FIFOs, links and full disks block and spoil nothing."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.files import (
    FolderError,
    delete_slices,
    make_folder,
    read_slices,
    write_files,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.slices import SliceError


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_in(folder: Path, contents: dict[str, str]) -> None:
    write_files({str(folder / name): content for name, content in contents.items()})


def test_p11_files_take_the_place_of_fifos_and_links(tmp_path: Path) -> None:
    precious, folder = tmp_path / "precious", tmp_path / "out"
    precious.write_text("precious")
    folder.mkdir()
    os.mkfifo(folder / "report.html")
    (folder / "report.csv").symlink_to(precious)
    (folder / "report.md").write_text("old")
    contents = {f"report.{ending}": f"{ending} ü\r\n" for ending in ("html", "csv", "md", "json")}
    write_in(folder, contents)
    assert precious.read_text() == "precious"
    assert {path.name: path.read_bytes().decode() for path in folder.iterdir()} == contents
    assert {path.lstat().st_mode & 0o7777 for path in folder.iterdir()} == {0o644}


def test_p11_on_a_full_disk_all_files_stay_as_they_are(tmp_path: Path) -> None:
    write_in(tmp_path, {"a": "old", "b": "old"})
    with full_disk(1000), pytest.raises(FolderError, match=r"/b cannot be written \(File too large\)"):
        write_in(tmp_path, {"a": "new", "b": "new" * 1000})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old", "b": "old"}


def test_a_folder_in_the_place_of_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(FolderError, match=r"/report\.md cannot be written \(Is a directory\)"):
        write_in(tmp_path, {"report.md": "new"})
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_p11_slices_are_files_and_nothing_else(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", ".hidden.json", "a.txt"):
        (tmp_path / name).write_text(name)
    os.mkfifo(tmp_path / "fifo.json")
    (tmp_path / "link.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    assert read_slices(str(tmp_path)) == [(f"{tmp_path}/a.json", b"a.json"), (f"{tmp_path}/b.json", b"b.json")]


def test_a_folder_that_does_not_exist_has_no_slices_and_one_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert read_slices(str(tmp_path / "missing")) == []
    (tmp_path / "file").touch()
    with pytest.raises(SliceError, match="file cannot be read"):
        read_slices(str(tmp_path / "file"))


def test_old_slices_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    for name in ("old.json", "new.json", "old.txt"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (0, 2000 if name == "new.json" else 1000))
    (tmp_path / "link.json").symlink_to(tmp_path / "old.txt")
    assert delete_slices(str(tmp_path), 1000.0) == []
    assert {path.name for path in tmp_path.iterdir()} == {"new.json", "old.txt", "link.json"}


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_folder_is_made_with_those_above_it_but_not_in_check_mode(tmp_path: Path, check_mode: bool) -> None:
    folder = tmp_path / "reports" / "web [1]"
    assert make_folder(str(folder), check_mode)
    assert folder.exists() != check_mode
    if not check_mode:
        assert not make_folder(str(folder), check_mode)


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize("where", ["file", "file/below", "link", "/proc/sys"])
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, where: str, check_mode: bool) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FolderError, match=rf"{where} cannot be written \(.+\)$"):
        make_folder(os.path.join(tmp_path, where), check_mode)
