# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secrets that are planted in a run are in nothing that the collection makes, neither as written nor encoded."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import secrets
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.callback import fleet
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    playbook_callback,
)
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import NOWHERE
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.fleet import RESPOND, Fleet
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_root
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.plugin_utils.conftest import make_event

pytestmark = pytest.mark.releases

CALLBACK = {"ANSIBLE_STDOUT_CALLBACK": "fleetops.azure_maintenance.fleet"}
# The list of processes shows the options of tests beside this one, so each process of pytest has secrets of its own.
OWN = secrets.token_hex(4)
# Each has characters that JSON, base64 and addresses spell in another way.
SECRETS = {
    "no_log": f'no-log-{OWN}/+ "word"',
    "vault": f"vault-{OWN}/+&word",
    "endpoint": f"endpoint-{OWN}+word",
    "token": f"t0ken-of-{OWN}/+word",
    "key": f'key-of-{OWN}/+ "word"',
    "address": f"address-{OWN}+word",
}
# What is root's alone, and holds the rules with their addresses: a file, and a folder
OF_ROOT = ("config.json", "state/")


def spellings(secret):
    """Return a secret as it is, in JSON, CSV, HTML and an address, and in base64 at each of its three offsets."""
    found = {secret, json.dumps(secret)[1:-1], secret.replace('"', '""'), html.escape(secret)}
    found |= {quote(secret), quote(secret, safe="")}
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + secret.encode()).decode()
        # Without the characters at its ends that belong to its neighbours, too
        found.add(text[4 if offset else 0 : len(text) // 4 * 4 - 4])
    return found


def leaks(made):
    """Return which secret is where.

    :param made: texts by the name of what they are.
    """
    return {
        (name, where)
        for name, secret in SECRETS.items()
        for where, text in made.items()
        if any(spelling in text for spelling in spellings(secret))
    }


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes().decode("utf-8", "replace")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "spell", [str, json.dumps, quote, html.escape, lambda text: base64.b64encode(b"it=" + text.encode()).decode()]
)
@pytest.mark.parametrize("name", SECRETS)
def test_the_search_finds_a_secret_in_each_spelling(name, spell):
    assert leaks({"a file": f"before {spell(SECRETS[name])} after"}) == {(name, "a file")}


class Vault:
    """Files that ansible-vault encrypts."""

    def __init__(self, ansible, folder):
        self._ansible = ansible
        self._folder = folder
        (folder / "vault-password").write_text("opens the vault\n")
        self.options = ["--vault-password-file", str(folder / "vault-password")]

    def write(self, name, content):
        path = self._folder / name
        path.write_text(json.dumps(content))
        run = self._ansible("ansible-vault", "encrypt", *self.options, str(path))
        assert run.code == 0, run.err
        return str(path)


@pytest.fixture
def vault(ansible, tmp_path):
    (tmp_path / "vault").mkdir()
    return Vault(ansible, tmp_path / "vault")


# A module that repeats the value of an option with no_log, as the message of a failed login does
MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule({"word": {"type": "str", "no_log": True}})
module.fail_json(msg="The word " + module.params["word"] + " is refused.", reason="unreachable")
"""


def test_a_no_log_value_in_a_result_is_in_no_file_of_a_report_and_no_line_of_the_callback(ansible, tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "login.py").write_text(MODULE)
    (tmp_path / "made").mkdir()
    report = "fleetops.azure_maintenance.fleet_report"
    results = "{{ dict([['web-1', said]]) | fleetops.azure_maintenance.fleet_part('part') }}"
    write = {"content": f"{{{{ [part] | {report}(item) | string }}}}", "dest": f"{tmp_path}/made/report.{{{{ item }}}}"}
    history = "{{ dict([['web-1', said]]) | fleetops.azure_maintenance.fleet_history_part('part') | to_json }}"
    tasks = [
        {"name": "Log in", "login": {"word": SECRETS["no_log"]}, "register": "said", "ignore_errors": True},
        {"ansible.builtin.copy": write, "loop": ["json", "csv", "md", "html"], "vars": {"part": results}},
        {"ansible.builtin.copy": {"content": history, "dest": f"{tmp_path}/made/history.json"}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    run = ansible(
        "ansible-playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        "-vvv",
        tmp_path / "play.yml",
        "-e",
        f"ansible_python_interpreter={sys.executable}",
        env={**CALLBACK, "ANSIBLE_LIBRARY": str(tmp_path / "library")},
    )
    assert run.code == 0, run.out + run.err
    made = files_of(tmp_path / "made")
    assert len(made) == 5
    assert all("is refused" in text for text in made.values())
    assert leaks({**made, "stdout": run.out, "stderr": run.err}) == set()


def unmasked(**result):
    """Return a result as ansible-core hands it to a callback that declares to mask."""
    task = SimpleNamespace(
        _uuid="1", no_log=False, loop=None, resolved_action=fleet.QUERY, get_name=lambda: "Ask", get_path=lambda: "play"
    )
    return SimpleNamespace(_task=task, _host=SimpleNamespace(get_name=lambda: "web-1"), _result=result)


@pytest.fixture
def registered():
    """A secret that Ansible knows as a whole."""
    if not knows_secrets():
        pytest.skip("This ansible-core does not tell which values are secrets.")
    from ansible.module_utils.secrets import register_secret

    secret = f"first-{OWN}\nsecond-{OWN}"
    register_secret(secret)
    return secret


def test_the_callback_fleet_masks_what_it_cuts(registered, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "400")
    assert vars(fleet.CallbackModule)["ANSIBLE_SUPPORTS_MASKING"]
    callback = fleet.CallbackModule()
    callback._run_is_verbose = lambda result: False
    event = make_event("web-1", description="." * 180 + registered)
    callback.v2_runner_on_ok(unmasked(events=[event], resource_name="web-1"))
    callback.v2_playbook_on_stats(None)
    printed = capsys.readouterr().out
    assert "." * 180 in printed
    assert OWN not in printed


def test_the_callback_of_the_checker_masks_what_it_writes(registered, monkeypatch, tmp_path):
    assert vars(playbook_callback.CallbackModule)["ANSIBLE_SUPPORTS_MASKING"]
    monkeypatch.setenv("AZURE_MAINTENANCE_TASKS", str(tmp_path / "tasks"))
    playbook_callback.CallbackModule().v2_runner_on_failed(unmasked(rc=1, stderr=f"refused: {registered}"))
    failed = json.loads((tmp_path / "tasks").read_text())["failed"]
    assert failed["said"].startswith("refused: ")
    assert OWN not in failed["said"]


def test_a_vaulted_endpoint_that_nobody_answers_is_in_no_report_of_2_22(ansible, vault, tmp_path):
    """Before 2.22 nothing tells a plugin which text came from a vault, and the endpoint is part of the message."""
    if not knows_secrets():
        pytest.skip("This ansible-core does not tell which values are secrets.")
    variables = vault.write("endpoint.json", {"azure_maintenance_endpoint": f"{NOWHERE}/{SECRETS['vault']}"})
    run = report(ansible, tmp_path / "made", "-e", f"@{variables}", *vault.options)
    made = files_of(tmp_path / "made")
    assert {name for name in made if name.startswith("report.")} == {
        f"report.{kind}" for kind in ("json", "csv", "md", "html")
    }
    assert leaks({**made, "stdout": run.out, "stderr": run.err}) == set()


def test_the_password_of_an_endpoint_is_in_no_report_and_no_output(ansible, tmp_path):
    endpoint = f"http://me:{SECRETS['endpoint']}@127.0.0.1:9"
    hosts = tmp_path / "hosts"
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    hosts.write_text(f"linux {local}\n" + windows.host("windows"))
    env = windows.settings(windows.make_ansible_windows(tmp_path))
    run = report(ansible, tmp_path / "made", "-i", hosts, "-e", f"azure_maintenance_endpoint={endpoint}", env=env)
    made = files_of(tmp_path / "made")
    assert made["report.csv"].count("must have the form") == 2
    assert leaks({**made, "stdout": run.out, "stderr": run.err}) == set()


def test_the_password_of_a_connection_is_in_no_history_and_no_output(ansible, vault, tmp_path):
    variables = vault.write("password.json", {"ansible_become_password": SECRETS["vault"]})
    (tmp_path / "made").mkdir()
    told = ["-e", f"fleet_history_dir={tmp_path / 'made'}", "-e", f"@{variables}", *vault.options]
    history = "fleetops.azure_maintenance.fleet_history"
    run = ansible("ansible-playbook", history, *LOCAL, *told, "-vvv", env=CALLBACK)
    assert run.code == 0, run.out + run.err
    made = files_of(tmp_path / "made")
    assert {f"history.{kind}" for kind in ("json", "csv", "md", "html")} <= set(made)
    assert leaks({**made, "stdout": run.out, "stderr": run.err}) == set()


LOCAL = ["-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]


def report(ansible, folder, *options, env=None):
    hosts = [] if "-i" in options else LOCAL
    playbook = "fleetops.azure_maintenance.fleet_report"
    given = ["-e", f"fleet_report_dir={folder}", *options]
    run = ansible("ansible-playbook", playbook, *hosts, *given, env={**CALLBACK, **(env or {})})
    assert run.code == 0, run.out + run.err
    return run


# Of the second host the reason has a secret that Ansible masks, of the third all is hidden.
PREPARE = """
- name: Keep the mark, and the list of processes
  ansible.builtin.raw: >-
    cp {marks}/*.json {made};
    cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >{made}/processes 2>/dev/null || true
- name: Log in
  login: {{word: "{{{{ word }}}}"}}
  when: inventory_hostname == 'host-b'
- name: Fail without a reason
  ansible.builtin.fail: {{msg: "{{{{ word }}}}"}}
  no_log: true
  when: inventory_hostname == 'host-c'
"""


def test_secrets_of_a_run_are_in_no_mark_no_output_and_no_process(ansible, simulator, vault, tmp_path):
    for name in ("library", "made", "fleet"):
        (tmp_path / name).mkdir()
    (tmp_path / "library" / "login.py").write_text(MODULE)
    vms = {"host-a": "web-1", "host-b": "web-2", "host-c": "web-3"}
    vms_of_run = Fleet(ansible, simulator, tmp_path / "fleet", vms, vms)
    vms_of_run.settings = {**CALLBACK, "ANSIBLE_LIBRARY": str(tmp_path / "library")}
    vms_of_run.announce("web-1", "web-2", "web-3")
    variables = vault.write("word.json", {"word": SECRETS["no_log"], "unused": SECRETS["vault"]})
    prepare = PREPARE.format(marks=tmp_path / "home/marks", made=tmp_path / "made")
    run = vms_of_run.respond("-e", f"@{variables}", *vault.options, prepare=prepare, playbook=RESPOND)
    assert run.code != 0
    assert "is refused" in run.words
    assert "has no_log" in run.words
    made = files_of(tmp_path / "made")
    assert [name for name in made if name.endswith(".mark.json")]
    assert "ansible-playbook" in made["processes"]
    assert leaks({**made, "stdout": run.out, "stderr": run.err}) == set()


def knows_secrets():
    try:
        import ansible.module_utils.secrets  # noqa: F401
    except ImportError:
        return False
    return True


# Runs the command as its user does, in folders of the test's own.
CHECKER = """
import sys
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import system
place = sys.argv[1]
names = {name: "config.json" if name == "config" else name for name in system.Folders._fields}
folders = system.Folders(**{name: f"{place}/{file}" for name, file in names.items()})
sys.exit(cli.main(sys.argv[2:], folders))
"""


class Repeater(QuietHandler):
    """A service that refuses each request, and repeats what it was sent in each spelling."""

    processes = ""
    told = 0

    def do_GET(self):
        self.reply(200, {"current_version": "/api/v2/"})

    def do_POST(self):
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                Repeater.processes += path.read_bytes().decode("utf-8", "replace")
        Repeater.told += 1
        self.read_json()
        # A message has no more than the first 200 characters of an answer, so what is masked makes room for the rest.
        self.reply(403, {"detail": " ".join(sorted(self.repeated()))})

    def repeated(self):
        name = {"launch": "token", "callback": "key"}.get(self.path.rstrip("/").rpartition("/")[2], "address")
        return spellings(SECRETS[name])


@pytest.fixture
def repeater():
    Repeater.processes, Repeater.told = "", 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repeater)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def checker(ansible, tmp_path):
    """Run a command of the checker in a folder of this test: checker("check", "--once")."""
    pytest.importorskip("requests")
    for name in ("playbooks", "run", "facts", "metrics"):
        (tmp_path / "vm" / name).mkdir(parents=True, mode=0o700)

    def run(*arguments):
        program = [sys.executable, "-B", "-c", CHECKER, str(tmp_path / "vm"), *arguments]
        return ansible(*program, env={"PYTHONPATH": os.environ["ANSIBLE_COLLECTIONS_PATH"]})

    return run


def test_tokens_and_addresses_of_the_checker_are_in_nothing_that_it_writes_or_says(
    checker, repeater, simulator, tmp_path
):
    imds = simulator("--vms", "web-1", "--clock", "manual")
    for name in ("token", "key"):
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(SECRETS[name])
    steps = {
        "Freeze": {"awx_job": repeater, "template": 7, "token_file": str(tmp_path / "token")},
        "Reboot": {"awx_callback": f"{repeater}/api/v2/job_templates/7/callback/", "key_file": str(tmp_path / "key")},
        "Redeploy": {"webhook": f"{repeater}/{SECRETS['address']}", "token_file": str(tmp_path / "token")},
    }
    rules = [
        {"name": kind, "match": {"event_types": [kind]}, "retries": 0, "on_announced": [step]}
        for kind, step in steps.items()
    ]
    vm = tmp_path / "vm"
    config = {"endpoint": imds.endpoint("web-1"), "metrics_dir": str(vm / "metrics"), "rules": rules}
    (vm / "config.json").touch(0o600)
    (vm / "config.json").write_text(json.dumps(config))
    for kind in steps:
        imds.announce(kind, "web-1")
    runs = [checker("check", "--once"), *(checker("respond", str(number)) for number in (1, 2, 3))]
    runs += [checker("check", "--once")]
    runs += [checker(word, *form) for word in ("status", "history") for form in ((), ("--json",))]
    assert Repeater.told == 3, runs
    said = {str(number): run.out + run.err for number, run in enumerate(runs)}
    assert "HTTP 403" in "".join(said.values())
    made = files_of(vm)
    assert {"facts/azure_maintenance.fact", "metrics/azure_maintenance.prom"} <= set(made)
    of_all = {name: text for name, text in made.items() if not name.startswith(OF_ROOT)}
    assert leaks({**of_all, **said, "processes": Repeater.processes}) == set()
    assert not (vm / "state").stat().st_mode & 0o077


def test_a_webhook_with_a_password_is_refused_without_repeating_it(checker, tmp_path):
    steps = [{"webhook": f"https://me:{quote(SECRETS['address'])}@example.com/"}]
    (tmp_path / "vm/config.json").write_text(json.dumps({"rules": [{"name": "Tell", "on_announced": steps}]}))
    run = checker("validate")
    assert run.code != 0
    assert "without a password" in run.err
    assert leaks({"it said": run.out + run.err}) == set()


def test_a_vaulted_file_beside_the_playbooks_of_the_checker_is_not_in_the_diff(checker_tasks, vault, tmp_path):
    need_root("the playbooks are given to root")
    installed, plain = tmp_path / "playbooks", tmp_path / "drain.yml"
    installed.mkdir()
    for name in ("drain.yml", "secrets.yml"):
        (installed / name).write_text("the line of before\n")
    plain.write_text("the line of now\n")
    sources = {"drain.yml": str(plain), "secrets.yml": vault.write("secrets.yml", {"password": SECRETS["vault"]})}
    files = [
        {"name": name, "source": source, "mode": "0600", "is_vaulted": name == "secrets.yml"}
        for name, source in sources.items()
    ]
    run = checker_tasks(
        "playbooks.yml",
        "--diff",
        *vault.options,
        __event_checker_etc=str(tmp_path),
        __event_checker_playbook_dir=str(installed),
        __event_checker_installed_playbooks_file=str(tmp_path / "playbooks.json"),
        __event_checker_was_installed=True,
        __event_checker_playbooks_found={"stdout": json.dumps({"files": files, "folders": []})},
        event_checker_python=sys.executable,
    )
    assert run.code == 0, run.out
    assert json.loads((installed / "secrets.yml").read_text()) == {"password": SECRETS["vault"]}
    assert "+the line of now" in run.out
    assert not leaks({"the output": run.out + run.err})
