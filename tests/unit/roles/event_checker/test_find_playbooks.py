# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""find_playbooks.py, which the role runs on the controller: what is installed on the VM, and under which name."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "roles" / "event_checker" / "files" / "find_playbooks.py"
FILES = [
    "play/drain.yml",
    "play/set/a.yml",
    "play/set/roles/r/tasks/main.yml",
    "play/set/.git/x",
    "play/set/__pycache__/x",
]
FILES += ["working/restore.yml", "working/drain.yml", "working/other/a.yml"]


@pytest.fixture
def place(tmp_path):
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "working" / "run.sh").write_text("")
    (tmp_path / "working" / "run.sh").chmod(0o755)
    os.symlink("a.yml", str(tmp_path / "play" / "set" / "link.yml"))
    return tmp_path


@pytest.fixture
def find(place):
    """find("drain.yml") runs the script as the role does, and gives its exit status, stdout and stderr."""

    def run(*entries):
        command = [sys.executable, "-B", str(SCRIPT), str(place / "play"), str(place / "working"), *entries]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
        return ended.returncode, ended.stdout, ended.stderr

    return run


SET = {
    "a.yml": "play/set/a.yml",
    "link.yml": "play/set/link.yml",
    "roles/r/tasks/main.yml": "play/set/roles/r/tasks/main.yml",
}


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        ([], {}),
        (["drain.yml"], {"drain.yml": "play/drain.yml"}),
        (["restore.yml"], {"restore.yml": "working/restore.yml"}),
        (["{place}/working/drain.yml"], {"drain.yml": "working/drain.yml"}),
        (["set"], {f"set/{name}": source for name, source in SET.items()}),
        (["set/"], SET),
        (["set/", "drain.yml", "drain.yml"], {**SET, "drain.yml": "play/drain.yml"}),
    ],
    ids=["none", "beside the playbook first", "working folder", "absolute", "folder", "its content", "twice the same"],
)
def test_which_files_go_where(find, place, entries, wanted):
    code, out, err = find(*(entry.format(place=place) for entry in entries))
    assert (code, err) == (0, "")
    found = {file["name"]: os.path.relpath(file["source"], str(place)) for file in json.loads(out)["files"]}
    assert found == wanted


def test_p13_a_playbook_of_the_collection_is_not_taken_for_one_of_the_user(place):
    # The folder of the playbook is that of the collection when install_checker or rehearse_checker runs.
    ours = SCRIPT.parents[3] / "playbooks"
    assert (ours / "restore.yml").is_file()
    os.symlink(str(ours), str(place / "link"))
    for folder in (ours, place / "link"):
        command = [sys.executable, "-B", str(SCRIPT), str(folder), str(place / "working")]
        run = functools.partial(subprocess.run, capture_output=True, text=True, check=False, timeout=20)
        found = json.loads(run([*command, "restore.yml"]).stdout)["files"]
        assert [file["source"] for file in found] == [str(place / "working" / "restore.yml")]
        assert run([*command, "approve.yml"]).stderr == f"there is no approve.yml in {place / 'working'}.\n"


@pytest.mark.parametrize("entry", ["set", "set/"])
@pytest.mark.parametrize(
    "links",
    [
        {"set/loop": "."},
        {"set/one": ".", "set/two": "."},
        {"set/roles/up": "..", "set/roles/r/top": "../.."},
        {"set/roles/there": "{place}/play/set/roles/r", "set/roles/r/back": "{place}/play/set/roles"},
    ],
    ids=["itself", "itself twice", "above", "in a circle"],
)
def test_a_link_back_to_a_folder_ends_there(find, place, entry, links):
    for name, target in links.items():
        os.symlink(target.format(place=place), str(place / "play" / name))
    code, out, err = find(entry)
    assert (code, err) == (0, "")
    names = [file["name"] for file in json.loads(out)["files"]]
    # A circle is entered by both of its links.
    wanted = {*SET, "roles/there/tasks/main.yml"} if "set/roles/there" in links else set(SET)
    assert {name[len(entry) + 1 :] if entry == "set" else name for name in names} == wanted


def test_a_folder_that_two_links_name_goes_to_both_places(find, place):
    (place / "play" / "pair").mkdir()
    for name in ("one", "two"):
        os.symlink("../set", str(place / "play" / "pair" / name))
    names = [file["name"] for file in json.loads(find("pair")[1])["files"]]
    assert names == [f"pair/{link}/{name}" for link in ("one", "two") for name in sorted(SET)]


def test_a_folder_comes_before_those_inside_it(find):
    assert json.loads(find("set")[1])["folders"] == ["set", "set/roles", "set/roles/r", "set/roles/r/tasks"]


def test_only_what_can_be_executed_here_can_be_there(find):
    files = json.loads(find("run.sh", "drain.yml")[1])["files"]
    assert {file["name"]: file["mode"] for file in files} == {"run.sh": "0700", "drain.yml": "0600"}


def test_p12_a_file_that_ansible_decrypts_is_told_apart(find, place):
    (place / "play" / "set" / "a.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n3165\n")
    files = json.loads(find("set/a.yml", "drain.yml")[1])["files"]
    assert {file["name"]: file["is_vaulted"] for file in files} == {"a.yml": True, "drain.yml": False}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["nowhere.yml"], ["nowhere.yml", "/play", "/work"]),
        (["set/", "other/"], ["set/a.yml", "other/a.yml", "installed as a.yml"]),
    ],
    ids=["not there", "two of one name"],
)
def test_what_cannot_be_installed_is_named(find, entries, words):
    code, out, err = find(*entries)
    assert (code, out) == (1, "")
    assert [word for word in words if word not in err] == []


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("", "an entry is empty."),
        (" ", "an entry is empty."),
        ("..", ".. would be installed outside the folder of the playbooks"),
        ("set/..", "set/.. would be installed outside the folder of the playbooks"),
    ],
)
def test_p14_an_entry_that_names_nothing_is_not_everything(find, entry, told):
    code, out, err = find(entry)
    assert (code, out) == (1, "")
    assert told in err
