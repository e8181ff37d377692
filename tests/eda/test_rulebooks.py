# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks, run by the real ansible-rulebook: the source and the real checker, playbooks and job templates."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import subprocess
import sys
import threading

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.tests.certificates import make_certificate
from ansible_collections.fleetops.azure_maintenance.tests.eda.rulebook import (
    LONGEST_WAIT,
    NOWHERE,
    Awx,
    inject_faults,
    polls,
    rulebook,
)
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program
from ansible_collections.fleetops.azure_maintenance.tests.simulator import ROOT, plain_environment
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.machine import Machine

need_program("java", package="default-jre-headless")

NAME = "fleetops.azure_maintenance."
JOBS = {"prepare_job_template": "Drain a VM", "restore_job_template": "Refill a VM"}


def hostile(folder):
    """Text that runs a program where it is taken for a template."""
    return f"{{{{ lookup('pipe', 'touch {folder}/hacked') }}}}"


@pytest.fixture
def awx():
    stand_in = Awx(*JOBS.values())
    yield stand_in
    stand_in.close()
    assert not stand_in.unexpected


def with_awx(awx):
    return {"EDA_CONTROLLER_URL": awx.url, "EDA_CONTROLLER_TOKEN": "secret-of-awx"}


@pytest.fixture
def port():
    return free_port()


@pytest.fixture
def checker(tmp_path, simulator):
    """The real checker of web-1; its rule posts each phase to a webhook."""
    azure = simulator("--vms", "web-1,web-2")
    (tmp_path / "checker").mkdir()
    machine = Machine(tmp_path / "checker", azure.endpoint("web-1"))
    machine.azure = azure
    over = threading.Event()

    def let_time_pass():
        while not over.wait(0.5):
            machine.clock.wake()

    time_passes = threading.Thread(target=let_time_pass, daemon=True)
    time_passes.start()
    yield machine
    over.set()
    time_passes.join()
    machine.kill_all()


def post_to(checker, port, folder):
    token = folder / "token"
    token.write_text("secret-of-the-webhook\n")
    token.chmod(0o600)
    tls = str(make_certificate(folder / "tls.pem", "IP:127.0.0.1"))
    step = {"webhook": f"https://127.0.0.1:{port}/azure", "token_file": str(token), "ca_file": tls}
    checker.configure({"name": "Tell", "on_announced": [step], "on_started": [step], "on_ended": [step], "timeout": 60})
    return {
        "webhook_host": "127.0.0.1",
        "webhook_port": port,
        "webhook_token": "secret-of-the-webhook",
        "webhook_certfile": tls,
        "webhook_keyfile": tls,
    }


def post(variables, token, resource_name):
    """Post what a checker could, and return the status of the answer."""
    event = {"event_id": "FORGED", "event_type": "Reboot", "affects_this_vm": True}
    content = {"maintenance_event": event, "maintenance_phase": "announced", "maintenance_outcome": None}
    host, port = variables["webhook_host"], variables["webhook_port"]
    context = ssl.create_default_context(cafile=variables["webhook_certfile"])
    connection = http.client.HTTPSConnection(host, port, timeout=LONGEST_WAIT, context=context)
    body = json.dumps({**content, "resource_name": resource_name})
    connection.request("POST", "/azure", body, {"Authorization": f"Bearer {token}"})
    status = connection.getresponse().status
    connection.close()
    return status


def phases(runs):
    return [(run["kind"], run["maintenance_phase"], run["maintenance_outcome"], run["host"]) for run in runs]


PREPARED = ("prepare", "announced", None, "web-1")
RESTORED = ("restore", "ended", "withdrawn", "web-1")


@pytest.mark.hostile_text
def test_source_to_playbook_and_on_through_faults(simulator, tmp_path):
    """bench_eda.py injects faults for ten minutes."""
    azure = simulator("--vms", "web-1,web-2")
    env = {"AZURE_IMDS_ENDPOINT": azure.endpoint("web-1")}
    with rulebook(tmp_path, NAME + "scheduled_events", env=env) as running:
        running.wait_for("first question", lambda: polls(azure))
        azure.announce("Freeze", "web-1")
        event_id = azure.announce("Reboot", "web-1", "web-2", description=hostile(tmp_path))
        running.wait_for_runs(1)
        asked = polls(azure)
        running.wait_for("further questions", lambda: polls(azure) >= asked + 3)
        assert phases(running.ran()) == [PREPARED]
        azure.control("DELETE", f"/simulator/events/{event_id}")
        running.wait_for_runs(2)
        another_id = azure.announce("Redeploy", "web-1")
        running.wait_for_runs(3)
        azure.control("POST", "/simulator/faults", {"fault": "status", "status": 500})
        running.wait_for("word of a fault", lambda: "could not be asked" in running.said())
        azure.control("DELETE", "/simulator/faults")
        inject_faults(azure, 5)
        assert phases(running.ran()) == [PREPARED, RESTORED, PREPARED]
        azure.control("DELETE", f"/simulator/events/{another_id}")
        runs = running.wait_for_runs(4)
    assert phases(runs) == [PREPARED, RESTORED, PREPARED, RESTORED]
    assert [run["maintenance_event"]["event_id"] for run in runs] == [event_id, event_id, another_id, another_id]
    assert not (tmp_path / "hacked").exists()


@pytest.mark.matrix
def test_p3_no_playbook_restores_before_a_second_event_has_ended(simulator, tmp_path):
    azure = simulator("--vms", "web-1,web-2")
    env = {"AZURE_IMDS_ENDPOINT": azure.endpoint("web-1")}
    with rulebook(tmp_path, NAME + "scheduled_events", env=env) as running:
        events = [azure.announce("Reboot", "web-1"), azure.announce("Redeploy", "web-1")]
        running.wait_for_runs(2)
        azure.control("DELETE", f"/simulator/events/{events[0]}")
        before = polls(azure)
        running.wait_for("some answers", lambda: polls(azure) > before + 3)
        assert len(running.ran()) == 2
        azure.control("DELETE", f"/simulator/events/{events[1]}")
        runs = running.wait_for_runs(4)
    assert phases(runs) == [PREPARED, PREPARED, RESTORED, RESTORED]
    assert [run["maintenance_event"]["event_id"] for run in runs[2:]] == events


def test_p3_the_playbook_of_the_guide_does_not_restore_before_a_second_event_has_ended(simulator, tmp_path):
    """Event Grid may tell an end before the document of the VM lists the event no longer."""
    azure = simulator("--vms", "web-1,web-2")
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_eda.rst").read_text(encoding="utf-8")
    (play,) = yaml.safe_load(re.search(r":caption: playbooks/refill.yml\n\n((?:   .*\n|\n)+)", guide)[1])
    play["tasks"].append({"ansible.builtin.file": {"path": str(tmp_path / "restored"), "state": "touch"}})
    (tmp_path / "refill.yml").write_text(json.dumps([play]))
    events = [azure.announce("Reboot", "web-1"), azure.announce("Redeploy", "web-1")]
    restored = []
    for event_id in events:
        extra = {"maintenance_event": {"event_id": event_id}, "maintenance_phase": "ended", "maintenance_outcome": None}
        extra["ansible_python_interpreter"] = sys.executable
        command = ["ansible-playbook", "-i", "web-1,", "-c", "local", "-e", json.dumps(extra), "refill.yml"]
        settings = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT.parents[2]), "AZURE_IMDS_ENDPOINT": azure.endpoint("web-1")}
        env = {**plain_environment(), **settings}
        subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=LONGEST_WAIT, check=True)
        restored.append((tmp_path / "restored").exists())
        azure.control("DELETE", f"/simulator/events/{event_id}")
    assert restored == [False, True]


@pytest.mark.matrix
def test_source_to_job_template(simulator, tmp_path, awx):
    azure = simulator("--vms", "web-1,web-2")
    env = {"AZURE_IMDS_ENDPOINT": azure.endpoint("web-1"), **with_awx(awx)}
    with rulebook(tmp_path, NAME + "scheduled_events_job_template", JOBS, env) as running:
        event_id = azure.announce("Preempt", "web-1", "web-2", notice=900)
        running.wait_for("job to prepare", lambda: awx.launched)
        azure.control("DELETE", f"/simulator/events/{event_id}")
        running.wait_for("job to restore", lambda: len(awx.launched) == 2)
    check_jobs(awx.launched, event_id)


def check_jobs(launched, event_id):
    assert [(job["template"], job["limit"]) for job in launched] == [("Drain a VM", "web-1"), ("Refill a VM", "web-1")]
    variables = [job["extra_vars"] for job in launched]
    assert [one["maintenance_phase"] for one in variables] == ["announced", "ended"]
    assert [one["maintenance_outcome"] for one in variables] == [None, "withdrawn"]
    assert {one["maintenance_event"]["event_id"] for one in variables} == {event_id}
    assert all(set(one) == {"maintenance_event", "maintenance_phase", "maintenance_outcome"} for one in variables)


@pytest.mark.hostile_text
@pytest.mark.matrix
def test_checker_to_playbook(checker, tmp_path, port):
    variables = post_to(checker, port, tmp_path)
    with rulebook(tmp_path, NAME + "checker_webhook", variables) as running:
        event_id = checker.azure.announce("Reboot", "web-1", description=hostile(tmp_path))
        # It tries until somebody listens.
        checker.start("check")
        running.wait_for_runs(1)
        # Nobody without the token, and nothing that Ansible takes for more than one host, or for the controller (P14)
        assert post(variables, "wrong", "web-2") == 401
        for name in ("web-1,web-2", "all", "ungrouped", "Localhost"):
            assert post(variables, "secret-of-the-webhook", name) == 200
        checker.azure.control("DELETE", f"/simulator/events/{event_id}")
        runs = running.wait_for_runs(2)
    assert phases(runs) == [PREPARED, RESTORED]
    assert {run["maintenance_event"]["event_id"] for run in runs} == {event_id}
    assert runs[0]["maintenance_event"]["description"].startswith("{ { lookup")
    assert not (tmp_path / "hacked").exists()


def test_checker_to_job_template(checker, tmp_path, port, awx):
    variables = {**post_to(checker, port, tmp_path), **JOBS}
    with rulebook(tmp_path, NAME + "checker_webhook_job_template", variables, with_awx(awx)) as running:
        event_id = checker.azure.announce("Reboot", "web-1")
        checker.start("check")
        running.wait_for("job to prepare", lambda: awx.launched)
        checker.azure.control("DELETE", f"/simulator/events/{event_id}")
        running.wait_for("job to restore", lambda: len(awx.launched) == 2)
        printed = running.said()
    check_jobs(awx.launched, event_id)
    assert "secret-of-" not in printed + json.dumps(awx.launched)


def test_a_wrong_argument_ends_the_rulebook_with_a_reason(tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(
        "- name: Wrong\n  hosts: all\n  sources:\n    - fleetops.azure_maintenance.scheduled_events:\n"
        f"        endpoint: {NOWHERE}\n        poll_interval: often\n"
        "  rules:\n    - name: Never\n      condition: event.x == 1\n      action: {print_event: {pretty: true}}\n"
    )
    with rulebook(tmp_path, wrong) as running:
        running.process.wait(LONGEST_WAIT)
        assert running.process.returncode != 0
        assert 'poll_interval must be a number, not "often".' in running.said()
