# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text from a VM, a document or a user is never run as a template on the controller, and arrives as it was written.

Each text names a file of its own that running it would make, so a failure says which text ran.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from http.server import ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import urlsplit

import pytest
import yaml
from ansible.release import __version__
from ansible_collections.fleetops.azure_maintenance.tests import instance
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler

# They run on each supported ansible-core, and take too long for make test.
pytestmark = [pytest.mark.hostile_text, pytest.mark.matrix]

NAMESPACE = "fleetops.azure_maintenance."
HOSTS = ("host-a", "host-b")
# Ansible templates the variables and the results of tasks in another way if it is set; since 2.19 there is one way.
NATIVE = [{"ANSIBLE_JINJA2_NATIVE": "true"}] if __version__ < "2.19" else []

# What a user would write, and tasks that keep what came
USER_TASKS = """
- name: Tell about {{ maintenance_event.description }}
  ansible.builtin.debug:
    msg: "{{ maintenance_phase }}: {{ maintenance_event.event_source }}"
- name: Keep the event
  ansible.builtin.copy:
    content: "{{ maintenance_event | to_json }}"
    dest: "{{ story }}/{{ inventory_hostname }}-{{ maintenance_phase }}"
    mode: "0644"
- name: Tell about the events of other VMs
  ansible.builtin.debug:
    msg: "{{ item.description }}"
  loop: "{{ maintenance_peers.values() | map(attribute='events') | flatten }}"
  loop_control:
    label: "{{ item.description }}"
"""


class Unsafe(str):
    """Text that a variables file marks as data, as AWX does with what a user enters."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(Unsafe, lambda dumper, text: dumper.represent_scalar("!unsafe", str(text), style='"'))


class Texts:
    """Makes the texts, and knows which of them were run."""

    def __init__(self, folder):
        self._folder = folder
        folder.mkdir()

    def __call__(self, name):
        return f"{{{{ lookup('pipe', 'touch {self._folder}/{name}') }}}}"

    def ran(self):
        return sorted(path.name for path in self._folder.iterdir())


class Azure:
    """An endpoint for each VM, all with one document. An approved event is gone when a VM asks again."""

    def __init__(self, names, resource_id):
        self.resource_id = resource_id
        self.events = []
        self.refusal = None
        self.approved = []
        self._lock = Lock()
        self._servers = {host: self._serve(name) for host, name in names.items()}

    def endpoint(self, host):
        return f"http://127.0.0.1:{self._servers[host].server_port}"

    def _serve(self, name):
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(name))
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return server

    def _handler(self, name):
        azure = self

        class Handler(QuietHandler):
            def do_GET(self):
                path = urlsplit(self.path).path
                if path == instance.PATH:
                    return self.reply(200, instance.compute(name, resourceId=azure.resource_id))
                assert path == "/metadata/scheduledevents", path
                with azure._lock:
                    return self.reply(200, {"DocumentIncarnation": 1, "Events": azure.events})

            def do_POST(self):
                with azure._lock:
                    azure.approved += [each["EventId"] for each in self.read_json()["StartRequests"]]
                    if azure.refusal is not None:
                        return self.reply(400, azure.refusal.encode())
                    azure.events = [event for event in azure.events if event["EventId"] not in azure.approved]
                return self.reply(200, b"")

        return Handler

    def close(self):
        for server in self._servers.values():
            server.shutdown()
            server.server_close()


class Fleet:
    """VMs whose event says nothing but templates, as the hosts of an inventory."""

    def __init__(self, ansible, folder, names):
        self.text = Texts(folder / "ran")
        self.folder = folder
        self._ansible = ansible
        # A template is not a VM name, so the metadata service's word for it would be refused.
        self.names = {host: f"name-of-{host}" for host in names}
        self.azure = Azure(self.names, self.text("resource-id"))
        self.story = folder / "story"
        self.story.mkdir()
        hosts = {
            host: {
                "ansible_connection": "local",
                "ansible_python_interpreter": self._python_of(host),
                "story": str(self.story),
            }
            for host in names
        }
        self._inventory = folder / "inventory.json"
        self._inventory.write_text(json.dumps({"all": {"hosts": hosts}}))

    def _python_of(self, host):
        """An interpreter that sees the endpoint of this VM, as a real one would."""
        python = self.folder / f"python-of-{host}"
        python.write_text(f'#!/bin/sh\nAZURE_IMDS_ENDPOINT={self.azure.endpoint(host)} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        return str(python)

    def announce(self, *more_resources):
        event = {
            "EventId": self.text("id"),
            "EventType": self.text("type"),
            "EventStatus": "Scheduled",
            "ResourceType": self.text("resource-type"),
            "Resources": [*self.names.values(), *more_resources],
            "NotBefore": self.text("not-before"),
            "Description": self.text("description"),
            "EventSource": self.text("source"),
            "DurationInSeconds": 5,
        }
        self.azure.events = [event]
        return event

    def run(self, what, *argv, env=None, code=0, **variables):
        """Run a playbook by its name, or a list of tasks: it must end with this code, and run no text as a template."""
        if not isinstance(what, str):
            play = [{"hosts": "all", "gather_facts": False, "tasks": what}]
            what = str(self.folder / "play.yml")
            (self.folder / "play.yml").write_text(yaml.dump(play, Dumper=_Dumper))
        settings = self.folder / "variables.yml"
        settings.write_text(yaml.dump(variables, Dumper=_Dumper))
        env = {"ANSIBLE_SHOW_CUSTOM_STATS": "true", "ANSIBLE_PIPELINING": "true", **(env or {})}
        command = ("ansible-playbook", "-i", str(self._inventory), what, "-e", f"@{settings}")
        run = self._ansible(*command, *argv, env=env)
        assert (self.text.ran(), run.code) == ([], code), run.out + run.err
        return run

    def respond(self, *argv, tasks="", **variables):
        for kind in ("prepare", "restore"):
            (self.folder / f"{kind}.yml").write_text(USER_TASKS + (tasks if kind == "prepare" else ""))
            variables.setdefault(f"event_response_{kind}", str(self.folder / f"{kind}.yml"))
        variables.setdefault("event_response_wait_timeout", 20)
        return self.run(NAMESPACE + "respond", *argv, **variables)

    def told(self, host, phase):
        return json.loads((self.story / f"{host}-{phase}").read_text())


@pytest.fixture
def make_fleet(ansible, tmp_path):
    made = []

    def make(*hosts):
        made.append(Fleet(ansible, tmp_path, hosts))
        return made[-1]

    yield make
    for fleet in made:
        fleet.azure.close()


@pytest.fixture
def fleet(make_fleet):
    """One host, because each does these by itself."""
    return make_fleet(HOSTS[0])


@pytest.fixture
def pair(make_fleet):
    return make_fleet(*HOSTS)


def check_event(told, event):
    fields = ("EventId", "EventType", "ResourceType", "Resources", "Description", "EventSource")
    keys = ("event_id", "event_type", "resource_type", "resources", "description", "event_source")
    assert [told[key] for key in keys] == [event[field] for field in fields]


@pytest.mark.parametrize("env", [{}, *NATIVE], ids=["", "native"][: 1 + len(NATIVE)])
def test_respond_prepares_approves_and_restores(pair, env):
    event = pair.announce()
    run = pair.respond(env=env)
    assert pair.azure.approved == [event["EventId"]]
    for host in HOSTS:
        check_event(pair.told(host, "announced"), event)
        check_event(pair.told(host, "ended"), event)
    assert f"{event['EventType']} {event['EventId']} completed, approved by host-a: host-a, host-b" in run.words
    assert '"approved": 1' in run.out.split("CUSTOM STATS", 1)[1]


def test_respond_says_which_vm_is_missing(fleet):
    stranger = fleet.text("stranger")
    fleet.announce(stranger)
    run = fleet.respond(code=2)
    assert f"no host of this play is the VM {stranger}" in run.out
    assert fleet.azure.approved == []


def test_respond_says_what_azure_refused_with(fleet):
    event = fleet.announce()
    fleet.azure.refusal = fleet.text("refusal")
    run = fleet.respond(code=2)
    assert fleet.azure.approved == [event["EventId"]]
    assert fleet.azure.refusal in run.out


def test_respond_says_why_a_preparation_failed(fleet):
    fleet.announce()
    page = fleet.folder / "page"
    page.write_text(fleet.text("page"))
    tasks = f"""
- name: Drain
  ansible.builtin.command: cat {page}
  register: drain
- name: Fail
  ansible.builtin.fail:
    msg: "{{{{ maintenance_event.description }}}} {{{{ drain.stdout }}}}"
"""
    run = fleet.respond(tasks=tasks, code=2)
    assert f"host-a could not be prepared: Fail: {fleet.text('description')} {fleet.text('page')}" in run.out
    assert fleet.azure.approved == []


def test_respond_names_the_files_of_a_user_that_do_not_exist(fleet):
    files = {f"event_response_{kind}": Unsafe(fleet.text(kind)) for kind in ("prepare", "restore")}
    run = fleet.respond(code=2, **files)
    for name in files:
        assert f"{name}: there is no file" in run.out


@pytest.mark.parametrize("name", ["event_response_due_within", "event_response_outside_vms"])
def test_respond_refuses_a_setting(fleet, name):
    run = fleet.respond(code=2, **{name: Unsafe(fleet.text("setting"))})
    assert fleet.text("setting") in run.out


@pytest.mark.parametrize("name", ["event_response_event_types", "event_response_event_sources"])
def test_respond_refuses_a_word_that_azure_does_not_use(fleet, name):
    run = fleet.respond(code=2, **{name: [Unsafe(fleet.text("word"))]})
    assert fleet.text("word") in run.out


def test_respond_takes_an_id_as_it_is(fleet):
    event = fleet.announce()
    fleet.respond(event_response_event_ids=[Unsafe(event["EventId"])])
    assert fleet.azure.approved == [event["EventId"]]


@pytest.mark.parametrize("refused", [False, True], ids=["approved", "refused"])
def test_approve(pair, refused):
    event = pair.announce()
    pair.azure.refusal = pair.text("refusal") if refused else None
    run = pair.run(
        NAMESPACE + "approve",
        target="host-a",
        approve_event_ids=[Unsafe(event["EventId"])],
        approve_resources_ready=[Unsafe(name) for name in pair.names.values()],
        code=2 if refused else 0,
    )
    assert pair.azure.approved == [event["EventId"]]
    assert (pair.azure.refusal or event["EventId"]) in run.out


def test_a_query_returns_text(fleet):
    """The action plugin applies it on the controller."""
    event = fleet.announce()
    tasks = [
        {
            "fleetops.azure_maintenance.scheduled_events_info": {
                "query": "{all: events, first: events[0].description}"
            },
            "register": "asked",
        },
        {"ansible.builtin.set_fact": {"found": "{{ asked.query_result }}", "name": "{{ asked.resource_name }}"}},
        {"ansible.builtin.set_fact": {"resource_id": "{{ hostvars[inventory_hostname].asked.resource_id }}"}},
        {"ansible.builtin.set_fact": {"first": "{{ hostvars[inventory_hostname].found.first }}"}},
        {"ansible.builtin.debug": {"msg": "{{ asked.msg }} {{ first }} {{ found.all[0].event_type }}"}},
        {
            "ansible.builtin.copy": {
                "content": "{{ {'first': first, 'event': found.all[0], 'name': name, 'id': resource_id} | to_json }}",
                "dest": "{{ story }}/{{ inventory_hostname }}-queried",
                "mode": "0644",
            }
        },
    ]
    fleet.run(tasks)
    told = fleet.told("host-a", "queried")
    check_event(told["event"], event)
    assert (told["first"], told["name"]) == (event["Description"], fleet.names["host-a"])
    assert told["id"] == fleet.azure.resource_id


def test_a_query_that_is_wrong_is_shown(fleet):
    task = {"fleetops.azure_maintenance.scheduled_events_info": {"query": "{{ wrong }}"}, "register": "asked"}
    show = {"ansible.builtin.debug": {"msg": "{{ asked.msg }}"}}
    run = fleet.run([{**task, "ignore_errors": True}, show], wrong=Unsafe(fleet.text("query")))
    assert f'query must be a JMESPath expression, not \\"{fleet.text("query")}\\"' in run.out


# In each round a fact of what each filter returns, which later rounds go on with
FILTERS = [
    {
        "fleet_part": "{'host-a': said} | %sfleet_part",
        "fleet_history_part": "{'host-a': said} | %sfleet_history_part(said.events[0].description)",
    },
    {
        "fleet_report": "[part] | %sfleet_report",
        "fleet_report_lines": "[part] | %sfleet_report('lines')",
        "fleet_report_json": "[part] | %sfleet_report('json') | string",
        "fleet_report_html": "[part] | %sfleet_report('html') | string",
        "fleet_history": "[history_part] | %sfleet_history",
        "fleet_history_csv": "[history_part] | %sfleet_history('csv') | string",
    },
]
# Through hostvars Ansible does not see that text came from a host.
GIVEN = {"said": "asked", "part": "fleet_part", "history_part": "fleet_history_part"}


@pytest.mark.parametrize("env", [{}, *NATIVE], ids=["", "native"][: 1 + len(NATIVE)])
def test_what_a_filter_returns_is_text_in_further_tasks(fleet, env):
    event = fleet.announce()
    given = {name: f"{{{{ hostvars[inventory_hostname].{fact} }}}}" for name, fact in GIVEN.items()}
    tasks = [{"fleetops.azure_maintenance.scheduled_events_info": {}, "register": "asked"}]
    for expressions in FILTERS:
        facts = {name: f"{{{{ {expression.replace('%s', NAMESPACE)} }}}}" for name, expression in expressions.items()}
        tasks.append({"ansible.builtin.set_fact": facts, "vars": given})
    names = [name for expressions in FILTERS for name in expressions]
    tasks.append({"ansible.builtin.set_fact": {f"{name}_again": f"{{{{ {name} }}}}" for name in names}})
    keep = {"content": "{{ found | to_json }}", "dest": "{{ story }}/{{ inventory_hostname }}-found", "mode": "0644"}
    found = {name: f"{{{{ {name}_again }}}}" for name in names}
    tasks.append({"ansible.builtin.copy": keep, "vars": {"found": found}})
    fleet.run(tasks, env=env)
    found = fleet.told("host-a", "found")
    assert event["Description"] == found["fleet_report"]["events"][0]["description"]
    assert event["Description"] == found["fleet_part"]["hosts"][0]["events"][0]["description"]
    assert event["Description"] == found["fleet_history_part"]["name"]
    assert "host-a" in found["fleet_history_csv"]


def hostile_part(text):
    """A part as another slice could have written it, or whoever may write into the folder."""
    host = {"state": "failed", "reason": text("reason"), "message": text("message"), "resource_name": None}
    look = {"host": text("host"), **host, "events": [], "warnings": [text("warning")]}
    look["out_of_service"] = [text("out")]
    look.update(document_is_clear=False, resource_id=text("resource id"), azure_events=[])
    head = {"format": NAMESPACE + "fleet_part", "version": 3, "name": text("part"), "asked_at": "2026-11-21T10:00:00Z"}
    head["azure_messages"] = [text("Azure")]
    return json.dumps({**head, "hosts": [look]})


@pytest.mark.parametrize("argv", [(), ("--check",)], ids=["", "check"])
def test_fleet_report_of_hosts(fleet, argv):
    event = fleet.announce()
    folder = fleet.folder / "out"
    run = fleet.run(NAMESPACE + "fleet_report", *argv, target="host-a", fleet_report_dir=str(folder))
    assert event["EventType"] in run.out
    if not argv:
        (told,) = json.loads((folder / "report.json").read_text())["events"]
        assert (told["event_id"], told["description"]) == (event["EventId"], event["Description"])
        row = next(csv.DictReader(io.StringIO((folder / "report.csv").read_text())))
        assert row["description"] == event["Description"]
        part = json.loads((folder / "parts" / "whole.json").read_text())
        check_event(part["hosts"][0]["events"][0], event)


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_fleet_report_of_parts(fleet, damaged):
    """The name of the folder and of a part are templates too."""
    folder = fleet.folder / fleet.text("folder").replace("/", "\N{DIVISION SLASH}")
    (folder / "parts").mkdir(parents=True)
    name = fleet.text("file").replace("/", "\N{DIVISION SLASH}")
    part = hostile_part(fleet.text)
    if damaged:
        part = json.dumps({**json.loads(part), "version": "{{ 7 * 7 }}"})
    (folder / "parts" / f"{name}.json").write_text(part)
    settings = {"fleet_report_dir": Unsafe(folder), "fleet_report_mode": "merge", "fleet_report_max_age": 10**9}
    run = fleet.run(NAMESPACE + "fleet_report", target="host-a", code=2 if damaged else 0, **settings)
    if damaged:
        assert "{{ 7 * 7 }}" in run.out
        return
    report = json.loads((folder / "report.json").read_text())
    found = {host["host"]: host for host in report["hosts"]}[fleet.text("host")]
    assert (found["reason"], found["message"]) == (fleet.text("reason"), fleet.text("message"))


@pytest.mark.parametrize("names", [("fleet_report_mode",), ("fleet_report_part", "fleet_report_max_age")], ids=str)
def test_fleet_report_refuses_settings(fleet, names):
    settings = {name: Unsafe(fleet.text(name)) for name in names}
    settings["fleet_report_dir"] = str(fleet.folder / "out")
    run = fleet.run(NAMESPACE + "fleet_report", target="host-a", code=2, **settings)
    for name in names:
        assert fleet.text(name) in run.out


def test_fleet_history_refuses_settings(fleet):
    names = ("fleet_history_part", "fleet_history_max_age", "fleet_history_simulated")
    settings = {name: Unsafe(fleet.text(name)) for name in names}
    settings["fleet_history_dir"] = str(fleet.folder / "out")
    run = fleet.run(NAMESPACE + "fleet_history", target="host-a", code=2, **settings)
    for name in names:
        assert fleet.text(name) in run.out


def test_rehearse_names_the_files_of_a_user_that_do_not_exist(fleet):
    files = {f"rehearse_{kind}": Unsafe(fleet.text(kind)) for kind in ("prepare", "restore")}
    run = fleet.run(NAMESPACE + "rehearse", code=2, **files)
    for name, file in files.items():
        assert f"{name}: there is no file /" in run.out
        assert f"/{file}. Give the path of a file with tasks." in run.out


def test_the_callback_prints_text(fleet):
    event = fleet.announce()
    ask = {"fleetops.azure_maintenance.scheduled_events_info": {}, "register": "asked"}
    fail = {"name": "Show {{ asked.events[0].description }}", "ansible.builtin.fail": {"msg": "{{ asked.msg }}"}}
    run = fleet.run([ask, fail], env={"ANSIBLE_STDOUT_CALLBACK": NAMESPACE + "fleet", "COLUMNS": "1000"}, code=2)
    assert event["EventType"] in run.out
    assert event["Description"] in run.out
