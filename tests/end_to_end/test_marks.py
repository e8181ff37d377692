# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""P16: a VM that is out of service on our account carries a mark, and the next run sees it (D1, D2, D6)."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import (
    RESTORING,
    RUN,
    encode,
    file_name,
    longest_work,
    new_mark,
)
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import LONGEST_RUN
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import (
    FAR_OFF,
    LONG,
    RESPOND,
    Fleet,
    left_by_killed_run,
    summary_of,
)

# Seconds after which a run that a signal did not end is killed
PATIENCE = 30

HOLD = """
- name: Remember the controller
  ansible.builtin.raw: >-
    echo {{ lookup('ansible.builtin.pipe', "awk '/^PPid/{print $2}' /proc/$PPID/status") }} >{{ story }}.controller;
    mv {{ story }}.controller {{ story | dirname }}/controller
- name: Hold
  ansible.builtin.raw: until [ -e {{ story | dirname }}/go ]; do sleep 0.1; done
"""


@pytest.fixture
def fleet(ansible, simulator, tmp_path):
    (tmp_path / "fleet").mkdir()
    hosts = {"host-a": "web-1", "host-b": "web-2"}
    return Fleet(ansible, simulator, tmp_path / "fleet", hosts, hosts)


@pytest.fixture
def marks(tmp_path):
    """The marks on the VMs."""

    def read():
        return [json.loads(path.read_text()) for path in (tmp_path / "home/marks").glob("*.mark.json")]

    return read


def phases(fleet):
    return {event["phase"] for event in fleet.azure.control("GET", "/simulator/events")["events"]}


def least_asked(fleet, *vms):
    """Return how often that VM has asked that has asked less often."""
    requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
    asked = Counter(one["vm"] for one in requests if "/metadata/scheduledevents" in one["path"])
    return min(asked[vm] for vm in vms or ("web-1", "web-2"))


def waits(fleet):
    """Return what tells whether each host is asked again and again in the wait for the end of the event."""
    asked_at_start = []

    def is_waiting():
        if "started" not in phases(fleet):
            return False
        asked_at_start.append(least_asked(fleet))
        return asked_at_start[-1] >= asked_at_start[0] + 3

    return is_waiting


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# A run that was killed may be at work for as long as this, and the next one waits for it.
TIMEOUTS = {"event_response_prepare_timeout": 20, "event_response_restore_timeout": 20}


def break_off(fleet, stage, how):
    """Run, and kill Ansible in the middle of a stage; what it had begun on the hosts ends by itself."""
    controller, go = fleet.folder / "controller", fleet.folder / "go"

    def kill():
        # Read once: a task that outlives Ansible writes down another process, the one that adopted it.
        process = int(controller.read_text())
        begun = time.monotonic()
        # As people do it: of Python's locks, one may swallow the KeyboardInterrupt that Ansible makes of the signal, or
        # Ansible may hang for good.
        while is_alive(process) and time.monotonic() < begun + LONGEST_RUN:
            os.kill(process, how if time.monotonic() < begun + PATIENCE else signal.SIGKILL)
            go.touch()
            time.sleep(1)

    if stage == "waiting":
        (fleet.folder / "go").touch()
    reached = {"preparing": controller.exists, "waiting": waits(fleet), "restoring": controller.exists}
    hold = {"prepare" if stage != "restoring" else "restore": HOLD, **TIMEOUTS}
    with fleet.meanwhile(reached[stage], kill):
        run = fleet.respond("-e", "awx_job_id=812", playbook=RESPOND, **hold)
    assert run.code != 0
    return run


@pytest.mark.parametrize(
    ("stage", "again", "how", "story"),
    [
        ("preparing", "before", signal.SIGKILL, ["prepare", "prepare", "restore completed"]),
        ("preparing", "after", signal.SIGTERM, ["prepare", "restore -"]),
        ("waiting", "during", signal.SIGINT, ["prepare", "restore completed"]),
        ("waiting", "after", signal.SIGKILL, ["prepare", "restore -"]),
        ("restoring", "after", signal.SIGTERM, ["prepare", "restore completed", "restore -"]),
    ],
)
@pytest.mark.matrix
@pytest.mark.releases
def test_d1_a_run_that_was_broken_off_is_mended_by_the_next(fleet, marks, stage, again, how, story):
    lasts = LONG if stage == "waiting" else 0
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF, started_for=lasts)
    break_off(fleet, stage, how)
    assert {mark["event_id"] for mark in marks()} == {event}
    assert {mark["job"] for mark in marks()} == {"812"}
    if (stage, again) == ("preparing", "after"):
        fleet.azure.control("DELETE", f"/simulator/events/{event}")
    elif (stage, again) == ("waiting", "after"):
        fleet.pass_time(LONG)
    if again == "during":
        before = least_asked(fleet)
        # The second question of the run is one that comes after it has seen the event.
        with fleet.meanwhile(lambda: least_asked(fleet) >= before + 2, lambda: fleet.pass_time(LONG)):
            run = fleet.respond(playbook=RESPOND)
    else:
        run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert marks() == []
    assert "host-a is out of service since" in run.words
    assert "by AWX job 812 of" in run.words
    assert summary_of(run)["not_restored"] == []
    for host in ("host-a", "host-b"):
        assert [line.replace(f" {host} Reboot", "") for line in fleet.story(host)] == story, run.out


@pytest.mark.releases
def test_p16_a_vm_carries_a_mark_while_it_is_out_of_service(fleet, marks):
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    keep = "- name: Look\n  ansible.builtin.raw: cp -r $AZURE_MAINTENANCE_MARKS {{ story }}.marks\n"
    run = fleet.respond(playbook=RESPOND, restore=keep, event_response_restore_timeout=45)
    assert run.code == 0, run.out + run.err
    assert marks() == []
    for host in ("host-a", "host-b"):
        kept = [json.loads(path.read_text()) for path in (fleet.folder / f"{host}.story.marks").glob("*.mark.json")]
        assert {mark["event_id"] for mark in kept} == {event}
        assert {(mark["state"], longest_work(mark)) for mark in kept} == {("restoring", 45.0)}
        assert all(mark["controller"] and mark["user"] and mark["since"] and mark["vm_id"] for mark in kept)


@pytest.mark.releases
def test_p3_a_mark_counts_for_as_long_as_the_files_of_all_hosts_of_the_run_may_take_together(fleet, marks):
    """Each host waits for the others: for their files, and for those that have a fork before it."""
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    keep = "- name: Look\n  ansible.builtin.raw: cp -r $AZURE_MAINTENANCE_MARKS {{ story }}.marks\n"
    fleet.write_files(prepare=keep, restore=keep.replace(".marks", ".back"))
    for host, seconds in (("host-a", 40), ("host-b", 30)):
        (fleet.folder / f"{host}.yml").write_text((fleet.folder / "prepare.yml").read_text())
        own = {"event_response_prepare": str(fleet.folder / f"{host}.yml"), "event_response_prepare_timeout": seconds}
        fleet.set(host, **own)
    settings = {
        "event_response_restore": str(fleet.folder / "restore.yml"),
        "event_response_wait_timeout": LONGEST_RUN,
        "event_response_restore_timeout": 45,
    }
    run = fleet.run(RESPOND, "--forks", "1", "--extra-vars", json.dumps(settings))
    assert run.code == 0, run.out + run.err
    for host in ("host-a", "host-b"):
        for kept, state, seconds in (("marks", "preparing", 70.0), ("back", "restoring", 90.0)):
            files = (fleet.folder / f"{host}.story.{kept}").glob("*.mark.json")
            found = [json.loads(path.read_text()) for path in files]
            assert {(mark["state"], longest_work(mark)) for mark in found} == {(state, seconds)}, host


@pytest.mark.matrix
def test_where_no_mark_can_be_written_nobody_is_prepared_and_the_run_says_so(fleet, tmp_path):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    (tmp_path / "home/marks").write_text("no folder")
    run = fleet.respond(playbook=RESPOND, event_response_wait_timeout=60)
    assert run.code == 2, run.out + run.err
    assert fleet.story("host-a") == fleet.story("host-b") == []
    assert fleet.approved == []
    assert (
        "could not be prepared: Mark this host as out of service: The mark of this VM could not be written" in run.words
    )


@pytest.mark.matrix
def test_in_check_mode_no_mark_is_written(fleet, marks):
    fleet.announce("web-1", "web-2", notice=FAR_OFF)
    run = fleet.respond("--check", playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert marks() == []


@pytest.mark.matrix
def test_d6_a_second_run_says_at_once_who_is_at_work(fleet, marks):
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    break_off(fleet, "preparing", signal.SIGKILL)
    run = fleet.respond("--check", playbook=RESPOND)
    assert "host-a, host-b are out of service" in run.words or "host-a is out of service since" in run.words
    assert f"for Reboot {event[:8]} by AWX job 812 of" in run.words
    assert len(marks()) == 2


@pytest.mark.matrix
@pytest.mark.releases
def test_p3_a_host_that_another_run_puts_back_is_prepared_when_that_has_ended(fleet, tmp_path):
    fleet.announce("web-1", notice=FAR_OFF)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    mark = new_mark(RUN, {"event_id": "A1", "event_type": "Freeze"}, now, run="0a1b")
    path = tmp_path / "home/marks" / file_name(mark)
    path.parent.mkdir()
    path.write_bytes(encode({**mark, "state": RESTORING}))
    before = []

    def end_the_restore():
        before.extend(fleet.story("host-a"))
        path.unlink()

    def has_asked_again():
        requests = fleet.azure.control("GET", "/simulator/journal")["requests"]
        return len([one for one in requests if "/metadata/scheduledevents" in one["path"]]) >= 2

    with fleet.meanwhile(has_asked_again, end_the_restore):
        run = fleet.respond("--limit", "host-a,localhost", playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert before == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]
    assert "Somebody may be at work on host-a." in run.words


# In place of the id that the command calls which writes a mark: another run begins to restore at that moment
ID = """#!/bin/sh
if [ ! -e {begun} ]; then
  touch {begun}
  mkdir -p {marks}
  mv {mark} {marks}
fi
PATH={path} exec id "$@"
"""


@pytest.mark.matrix
@pytest.mark.releases
def test_p3_a_restore_that_begins_between_the_question_and_the_mark_is_waited_for(fleet, tmp_path):
    fleet.announce("web-1", notice=FAR_OFF)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    mark = new_mark(RUN, {"event_id": "A1", "event_type": "Freeze"}, now, run="0a1b", vm_id=fleet.azure.vm_id("web-1"))
    path, marks = tmp_path / file_name(mark), tmp_path / "home/marks"
    path.write_bytes(encode({**mark, "state": RESTORING}))
    programs, begun = tmp_path / "programs", tmp_path / "begun"
    programs.mkdir()
    (programs / "id").write_text(ID.format(begun=begun, marks=marks, mark=path, path=os.environ["PATH"]))
    (programs / "id").chmod(0o755)
    before = []

    def end_the_restore():
        before.extend(fleet.story("host-a"))
        (marks / path.name).unlink()

    def is_asked_since():
        return begun.exists() and least_asked(fleet, "web-1") >= 2

    play = {"hosts": "host-a", "environment": {"PATH": f"{programs}:{os.environ['PATH']}"}}
    with fleet.meanwhile(is_asked_since, end_the_restore):
        run = fleet.respond(play=play)
    assert run.code == 0, run.out + run.err
    assert before == []
    assert fleet.story("host-a") == ["prepare host-a Reboot", "restore host-a Reboot completed"]
    assert "Another run, or the checker, is at work on this host at this moment." in run.words


@pytest.mark.matrix
@pytest.mark.releases
def test_p2_a_host_that_a_person_restores_while_another_one_still_prepares_is_prepared_again(fleet):
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    go = fleet.folder / "go"
    hold = f"""
    - name: Hold
      ansible.builtin.raw: touch {go}.wanted; until [ -e {go} ]; do sleep 0.1; done
      when: inventory_hostname == "host-b"
    """
    restore = ["-e", "restore_open=true", "-e", f"event_response_restore={fleet.folder}/restore.yml"]

    def put_back():
        other = fleet.run("fleetops.azure_maintenance.restore", *restore, "--limit", "host-a,localhost")
        assert other.code == 0, other.out + other.err
        go.touch()

    with fleet.meanwhile(Path(f"{go}.wanted").exists, put_back):
        run = fleet.respond(playbook=RESPOND, prepare=hold)
    assert run.code == 0, run.out + run.err
    again = ["prepare host-a Reboot", "restore host-a Reboot -"]
    assert fleet.story("host-a") == [*again, "prepare host-a Reboot", "restore host-a Reboot completed"]
    assert fleet.story("host-b") == ["prepare host-b Reboot", "restore host-b Reboot completed"]
    assert fleet.approved == [("web-1", [event])]
    assert "host-a was restored by somebody else while this run went on." in run.words


# In place of the sh that the commands for marks call: that of a user who is not root
SH = """#!/bin/sh
[ "$(id -u)" != 0 ] || exec setpriv --reuid=65534 --clear-groups /bin/sh "$@"
exec /bin/sh "$@"
"""


@pytest.mark.matrix
@pytest.mark.releases
def test_p2_a_user_who_cannot_remove_the_mark_of_another_restores_no_vm_before_its_event(fleet, tmp_path):
    event = fleet.announce("web-1", notice=FAR_OFF)
    name, content = left_by_killed_run({"event_id": event, "event_type": "Reboot"}, fleet.azure.vm_id("web-1"))
    fleet.write_files()
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").write_text(SH)
    (programs / "sh").chmod(0o755)
    restore = ["fleetops.azure_maintenance.restore", "-e", f"event_response_restore={fleet.folder}/restore.yml"]
    # Others may not look into the folder of a test.
    with tempfile.TemporaryDirectory() as folder:
        marks = Path(folder, "marks")
        marks.mkdir()
        (marks / name).write_bytes(content)
        for place, mode in ((Path(folder), 0o755), (marks, 0o555)):
            place.chmod(mode)
        fleet.settings = {"AZURE_MAINTENANCE_MARKS": str(marks), "PATH": f"{programs}:{os.environ['PATH']}"}
        run = fleet.run(*restore, "-e", "restore_open=true", "--limit", "host-a,localhost")
        left = [path.name for path in marks.iterdir()]
        marks.chmod(0o755)
    assert run.code == 2, run.out + run.err
    assert "host-a could not be restored: Mark this host as being put back: The event is not over, and" in run.words
    assert fleet.story("host-a") == []
    assert left == [name]


def test_the_playbook_restore_lists_and_then_puts_back_what_a_run_has_left(fleet, marks):
    event = fleet.announce("web-1", "web-2", notice=FAR_OFF)
    break_off(fleet, "preparing", signal.SIGKILL)
    restore = ["fleetops.azure_maintenance.restore", "-e", f"event_response_restore={fleet.folder}/restore.yml"]
    early = fleet.run(*restore)
    assert early.code == 2, early.out + early.err
    assert "The event is not over, so the VM stays as it is." in early.words
    fleet.azure.control("DELETE", f"/simulator/events/{event}")
    listed = fleet.run(*restore, "--check")
    assert listed.code == 0, listed.out + listed.err
    assert f"for Reboot {event[:8]} by AWX job 812 of" in listed.words
    assert f"Reboot {event} ended, would be restored: host-a, host-b" in listed.words
    assert len(marks()) == 2
    assert fleet.story("host-a") == ["prepare host-a Reboot"]
    run = fleet.run(*restore)
    assert run.code == 0, run.out + run.err
    assert f"Reboot {event} ended, restored: host-a, host-b" in run.words
    assert marks() == []
    for host in ("host-a", "host-b"):
        assert fleet.story(host) == [f"prepare {host} Reboot", f"restore {host} Reboot -"]
    assert fleet.approved == []


@pytest.mark.matrix
def test_a_restore_that_fails_in_each_run_is_tried_once_in_each_and_leaves_one_mark(fleet, marks):
    fleet.announce("web-1", notice=FAR_OFF, started_for=0)
    fails = "- name: Refill\n  ansible.builtin.raw: echo tried >>{{ story }}; false\n"
    for number in (1, 2, 3):
        run = fleet.respond(playbook=RESPOND, restore=fails)
        assert run.code == 2, run.out + run.err
        assert "host-a could not be restored: Refill" in run.words
        assert fleet.story("host-a").count("tried") == number
        assert [mark["state"] for mark in marks()] == ["failed"]
    run = fleet.respond(playbook=RESPOND)
    assert run.code == 0, run.out + run.err
    assert marks() == []


@pytest.mark.matrix
@pytest.mark.parametrize(("given", "refused"), [("ture", True), ("[]", True), ("", False), ("no", False)])
def test_restore_open_must_be_true_or_false(fleet, given, refused):
    settings = json.dumps({"restore_open": given, "event_response_restore": "nothing"})
    run = fleet.run("fleetops.azure_maintenance.restore", "-e", settings)
    assert run.code == (2 if refused else 0), run.out + run.err
    assert (f"restore_open must be true or false, not '{given}'. No host was asked." in run.words) is refused


@pytest.mark.matrix
def test_the_playbook_restore_needs_a_file(fleet):
    run = fleet.run("fleetops.azure_maintenance.restore")
    assert run.code == 2, run.out + run.err
    assert "event_response_restore must be" in run.words


@pytest.mark.matrix
def test_p3_a_restore_that_failed_is_not_told_as_another_run_at_work(fleet, marks):
    """Its own mark for the first event says that, when the host is to be restored for the second."""
    for _event in range(2):
        fleet.announce("web-1", notice=FAR_OFF)
    run = fleet.respond(playbook=RESPOND, restore="- name: Refill\n  ansible.builtin.raw: 'false'\n")
    assert run.code == 2, run.out + run.err
    assert [line.split()[0] for line in fleet.story("host-a")] == ["prepare", "prepare", "restore", "restore"]
    assert [mark["state"] for mark in marks()] == ["failed", "failed"]
    assert "Another run, or the checker" not in run.words


BASE64 = """#!/bin/sh
if [ -e {full} ]; then echo 'No space left on device' >&2; exit 1; fi
PATH={path} exec base64 "$@"
"""


@pytest.mark.matrix
@pytest.mark.parametrize("fails", ["", "false"], ids=["prepared", "failed"])
def test_p16_a_mark_that_cannot_be_changed_is_said_and_loses_no_run(fleet, marks, tmp_path, fails):
    fleet.announce("web-1", notice=FAR_OFF)
    programs, full = tmp_path / "programs", tmp_path / "full"
    programs.mkdir()
    (programs / "base64").write_text(BASE64.format(full=full, path=os.environ["PATH"]))
    (programs / "base64").chmod(0o755)
    task = "- name: Fill or free the disk\n  ansible.builtin.raw: {}\n"
    play = {"hosts": "host-a", "environment": {"PATH": f"{programs}:{os.environ['PATH']}"}}
    files = {"prepare": task.format(f"touch {full}; {fails}"), "restore": task.format(f"rm {full}")}
    run = fleet.respond(play=play, **files)
    assert run.code == (2 if fails else 0), run.out + run.err
    assert [line.split()[0] for line in fleet.story("host-a")] == ["prepare", "restore"]
    assert marks() == []
    told = " ".join((run.out + run.err).split())
    state = "failed" if fails else "prepared"
    assert f"The mark of host-a could not be changed to {state}: No space left on device" in told
    assert told.count("The mark of host-a could not be changed") == 1
