# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guides, done as they are written: their files laid, their commands run, and what they show compared."""

from __future__ import annotations

import contextlib
import functools
import http.client
import http.server
import json
import re
import socket
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import ImdsError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import ImdsClient
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.fetch import fetch
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.host_results import read_result
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.fleet.text import reason_words
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end.conftest import Run
from ansible_collections.fleetops.azure_maintenance.tests.ports import free_port

pytestmark = pytest.mark.matrix

TREE = Path(__file__).resolve().parents[2]
DOCSITE = TREE / "docs" / "docsite"
GUIDES = (
    "guide_first_maintenance",
    "guide_prepare_and_restore",
    "guide_rehearsing",
    "guide_several_vms",
    "guide_what_azure_promises",
    "guide_troubleshooting",
)
ON_A_VM = "needs a VM with systemd; the scenarios of extensions/molecule run it"
# What is not run here, and why.
NOT_RUN = {
    "ansible-galaxy collection install fleetops.azure_maintenance": "needs Galaxy",
    "ansible-galaxy collection build": "test_collection.py builds and installs it",
    "ansible-galaxy collection install fleetops-azure_maintenance-1.1.0.tar.gz": "test_collection.py",
    "az vm restart --resource-group my-group --name web-1 --no-wait": "needs Azure; the test announces what it would",
    "ansible-playbook fleetops.azure_maintenance.rehearse -e rehearse_prepare=drain.yml"
    " -e rehearse_restore=refill.yml": "test_rehearse.py runs it with such files",
    "ansible-playbook -i inventory fleetops.azure_maintenance.respond -e target=web --limit web-1 --check"
    " -e event_response_prepare=nothing -e event_response_outside_vms=ignore": "to save time; test_event_response.py"
    " runs it with a real approval",
    "ansible-playbook -i inventory fleetops.azure_maintenance.respond -e target=web -e event_response_prepare=drain.yml"
    " -e event_response_restore=refill.yml -e event_response_max_unavailable=1": "test_response_limit.py runs it",
    "ansible-playbook -i inventory fleetops.azure_maintenance.rehearse_checker -e target=web-1": ON_A_VM,
    "ansible-playbook -i inventory fleetops.azure_maintenance.respond -e target=web -e event_response_prepare=checker"
    " --become": ON_A_VM,
    "azure-maintenance status": ON_A_VM,
    "azure-maintenance validate": ON_A_VM,
    "journalctl --since -1h -u azure-maintenance-check -u 'azure-maintenance-respond@*'": ON_A_VM,
}
RESPOND = (
    "ansible-playbook -i inventory fleetops.azure_maintenance.respond -e target=web"
    " -e event_response_prepare=drain.yml -e event_response_restore=refill.yml"
)
# Shown a second time, where the files that it names have not been written yet.
RUN_IN_ANOTHER_GUIDE = {("guide_first_maintenance", RESPOND): "guide_prepare_and_restore"}
# The commands that are shown because they fail.
FAILING = (
    "-e event_response_prepare=drain_fails.yml",
    "ansible web-1 -i inventory -m fleetops.azure_maintenance.scheduled_event_approve -a event_types=Reboot",
    "--limit web-1 --check -e event_response_prepare=nothing",
)


class Block(NamedTuple):
    """A code block of a guide; ``follows`` tells that nothing stands between it and the block before."""

    language: str
    caption: str
    text: str
    follows: bool


def read(guide):
    return (DOCSITE / "rst" / f"{guide}.rst").read_text(encoding="utf-8")


def blocks(text):
    found, end = [], 0
    pattern = r"^\.\. code-block:: (\w+)\n((?:   :.*\n)*)\n((?:(?:   .*)?\n)+)"
    for match in re.finditer(pattern, text, re.MULTILINE):
        language, options, body = match.groups()
        caption = re.search(r":caption: (.*)", options)
        body = re.sub(r"^ {3}", "", body, flags=re.MULTILINE).strip("\n") + "\n"
        found.append(Block(language, caption.group(1) if caption else "", body, not text[end : match.start()].strip()))
        end = match.end()
    return found


def commands(block):
    whole = re.sub(r" \\\n +", " ", block.text)
    return [line[2:] for line in whole.splitlines()]


def plain(text):
    """Return the text without what differs from run to run, and with single spaces."""
    text = re.sub(r"\b[0-9A-F]{8}(-…|(-[0-9A-F]{4}){3}-[0-9A-F]{12})?(?!\w)", "ID", text)
    text = re.sub(r"\bin \d+ min( \d+ s)?", "in TIME", text)
    text = re.sub(r"\b\d\d-\d\d \d\d:\d\d\b", "WHEN", text)
    return " ".join(text.split())


@contextlib.contextmanager
def web_server(folder):
    """A web server with the content of a folder, as the example of drain and refill has it; gives its port."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_arguments):
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Reader:
    """Does what a guide says, in a folder, with two simulated VMs in place of the inventory's."""

    def __init__(self, ansible, azure, folder):
        self._ansible = ansible
        self.azure = azure
        self.folder = folder
        self.exports = []
        self.outputs = {}
        self.port = free_port()
        self.variables = {}

    def do(self, guide, happens):
        """Go through the guide; ``happens`` maps a piece of a command to what has to happen after it."""
        self._lay_inventory()
        said = ""
        for block in blocks(read(guide)):
            if block.language == "console":
                said = "\n".join(self._run(guide, command, happens) for command in commands(block))
                continue
            if block.caption and block.caption != "inventory":
                (self.folder / block.caption).write_text(self._here(block.text))
            elif block.language == "text" and block.follows and said:
                self._compare(block.text, said)
            said = ""

    def _lay_inventory(self):
        lines = "[web]\n" + self.azure.inventory(["web-1", "web-2"], self.folder) + "[web:vars]\n"
        lines += "".join(f"{name}={value}\n" for name, value in self.variables.items())
        (self.folder / "inventory").write_text(lines)

    def _here(self, text):
        text = text.replace("http://169.254.169.254", self.azure.endpoint("web-1"))
        text = text.replace("127.0.0.1:8181", f"127.0.0.1:{self.port}")
        assert "169.254" not in text
        return text

    def _run(self, guide, command, happens):
        said = ""
        if command.startswith("export "):
            self.exports.append(command)
        elif command not in NOT_RUN and (guide, command) not in RUN_IN_ANOTHER_GUIDE:
            script = "\n".join([*self.exports, self._here(command)])
            run = self._ansible("sh", "-c", script, cwd=self.folder, env={"COLUMNS": "80"})
            said = run.out + run.err
            fails = any(piece in command for piece in FAILING)
            assert (run.code != 0) == fails, f"{command}\nended with {run.code}\n{said}"
            assert '{"error":' not in said, f"{command}\n{said}"
            self.outputs[command] = said
        for piece, happen in happens.items():
            if command.endswith(piece):
                happen()
        return said

    def _compare(self, shown, said):
        # A guide shows a message on one line that Ansible prints as a list of lines.
        said = f"{plain(said)} {plain(Run(0, said, '').words)}"
        for line in shown.splitlines():
            pieces = [re.escape(piece) for piece in plain(line).split("…")]
            assert re.search(".*?".join(pieces), said), f"the guide shows {line!r}, but it was:\n{said}"


@pytest.fixture
def reader(ansible, simulator, tmp_path):
    one = Reader(ansible, simulator("--vms", "web-1,web-2"), tmp_path)
    yield one
    # The simulator of the guide to rehearsing, where the test did not come to its end.
    with contextlib.suppress(OSError, http.client.HTTPException):
        one.azure.request("POST", f"http://127.0.0.1:{one.port}/simulator/stop", timeout=5)


def test_a_first_maintenance(reader):
    azure = reader.azure

    def restart():
        azure.announce("Reboot", "web-1", event_source="User", started_for=0.1, start_delay=0)

    def gone():
        ended = threading.Event()
        for _time in range(100):
            events = azure.control("GET", "/simulator/events")["events"]
            if all(event["phase"] == "ended" for event in events):
                return
            ended.wait(0.1)
        pytest.fail("the event that was approved did not end")

    reader.do("guide_first_maintenance", {"--no-wait": restart, "-e approve_event_sources=User": gone})
    assert [vm for vm, _body in azure.posted()] == ["web-1"]


@pytest.mark.release
def test_the_example_of_prepare_and_restore(reader):
    root = reader.folder / "www"
    root.mkdir()
    (root / "health").write_text("ready\n")
    reader.azure.announce("Reboot", "web-1", started_for=0.1, start_delay=0)
    with web_server(root) as port:
        reader.variables = {"web_root": root, "web_port": port}
        reader.do("guide_prepare_and_restore", {"--check": lambda: (root / "health").write_text("untouched\n")})
    assert [vm for vm, _body in reader.azure.posted()] == ["web-1"]
    assert (root / "health").read_text() == "ready\n", "it was neither taken away nor put back"


@pytest.mark.release
def test_the_rehearsals(reader):
    reader.do("guide_rehearsing", {})
    (before,) = [said for command, said in reader.outputs.items() if command.endswith("/timeline")]
    assert "web-2" in before
    assert "approved" not in before


def test_several_vms(reader):
    reader.azure.announce("Reboot", "web-1", "web-2", notice=900)
    reader.do("guide_several_vms", {})
    assert [vm for vm, _body in reader.azure.posted()] == ["web-1"], "only the last command approves"


def test_troubleshooting(reader):
    root = reader.folder / "www"
    root.mkdir()
    (reader.folder / "refill.yml").write_text(
        next(block.text for block in blocks(read("guide_prepare_and_restore")) if block.caption == "refill.yml")
    )
    with web_server(root) as port:
        reader.variables = {"web_root": root, "web_port": port}
        reader.do("guide_troubleshooting", {})
    assert (root / "health").exists()


def test_what_azure_promises_shows_no_command():
    assert blocks(read("guide_what_azure_promises")) == []


def test_each_guide_is_listed_and_each_that_is_listed_exists():
    sections = yaml.safe_load((DOCSITE / "extra-docs.yml").read_text(encoding="utf-8"))["sections"]
    listed = [guide for section in sections for guide in section["toctree"]]
    assert sorted(listed) == sorted(path.stem for path in (DOCSITE / "rst").glob("*.rst"))
    assert set(GUIDES) <= set(listed)


def test_each_command_that_is_not_run_is_still_in_a_guide():
    shown = {
        (guide, command)
        for guide in GUIDES
        for block in blocks(read(guide))
        if block.language == "console"
        for command in commands(block)
    }
    assert set(NOT_RUN) <= {command for _guide, command in shown}
    for (guide, command), other in RUN_IN_ANOTHER_GUIDE.items():
        assert {(guide, command), (other, command)} <= shown


def section(title):
    """Return a section of the guide to troubleshooting, without those that come after it."""
    text = read("guide_troubleshooting")
    found = re.search(rf"^{re.escape(title)}\n([-~])\1+\n", text, re.MULTILINE)
    rest = text[found.end() :]
    after = re.search(r"^.+\n(-{4,}|~{4,})\n", rest, re.MULTILINE)
    return rest[: after.start()] if after else rest


def messages(text):
    return [" ".join(block.text.split()) for block in blocks(text) if block.language == "text"]


REASONS = ("unreachable", "timeout", "http_status", "not_imds", "malformed", "throttled")
ASK_FOR_METADATA_HEADER = {"error": "Bad request. Required metadata header not specified"}
FAULTS = [
    {"fault": "silent"},
    {"fault": "reset"},
    {"fault": "status", "status": 500},
    {"fault": "status", "status": 400, "body": json.dumps(ASK_FOR_METADATA_HEADER)},
    {"fault": "status", "status": 400, "body": '{"error": "Bad request.", "newest-versions": ["2025-04-07"]}'},
    {"fault": "status", "status": 403},
    {"fault": "proxy_agent", "status": 403},
    {"fault": "proxy_agent", "status": 403, "by_azure": True},
    {"fault": "proxy_agent"},
    {"fault": "status", "status": 405},
    {"fault": "status", "status": 404, "body": "Not here"},
    {"fault": "proxy_page"},
    {"fault": "redirect"},
    {"fault": "body", "path": "instance", "body": "<p>"},
    {"fault": "body", "body": '{"a": 1}'},
    {"fault": "oversize"},
    {"fault": "throttle"},
]


@contextlib.contextmanager
def something_else():
    """A program that takes a connection and does not speak HTTP; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet():
            connection, _peer = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def failure(endpoint, find_addresses=None):
    with pytest.raises(ImdsError) as caught:
        fetch(ImdsClient(endpoint, timeout=0.5, retries=False), None, find_addresses)
    return caught.value.reason, str(caught.value)


def test_each_reason_has_a_section_with_the_messages_that_come_and_no_others(simulator):
    azure = simulator("--vms", "web-1")
    failures = [failure("http://127.0.0.1:9"), failure("http://127.0.0.1:9", lambda: ([], []))]
    with something_else() as endpoint:
        failures.append(failure(endpoint))
    for fault in FAULTS:
        azure.control("DELETE", "/simulator/faults")
        azure.control("POST", "/simulator/faults", fault)
        failures.append(failure(azure.endpoint("web-1")))
    shown = [(reason, message) for reason in REASONS for message in messages(section(reason))]
    seen = set()
    for reason, said in failures:
        matching = [one for one in shown if re.search(".*?".join(map(re.escape, one[1].split("…"))), said, re.DOTALL)]
        assert [one for one in matching if one[0] == reason], f"{reason} is not told of: {said}"
        seen.update(matching)
    assert set(shown) - seen == set()


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("unreachable", "unreachable"),
        ("not_on_azure", "unreachable"),
        ("not_on_azure", "not_imds"),
        ("failed", "http_status"),
        ("failed", "unclear_document"),
        ("failed", "no_document"),
        ("failed", "module_failed"),
        ("failed", "no_result"),
    ],
)
def test_each_reason_that_the_fleet_report_tells_in_other_words_stands_in_the_guide_with_them(state, reason):
    assert f"* - *{reason_words({'state': state, 'reason': reason})}*\n" in read("guide_troubleshooting")


def test_what_is_said_of_an_entry_that_cannot_be_read_has_a_section():
    told = read_result("web-1", {"events": [], "resource_name": "web-1", "document_is_clear": False})
    assert told["message"] in messages(section("unclear_document"))


# What Ansible says of the variables of a role that its specification does not allow.
SAID_BY_ANSIBLE = (
    "Validation of arguments failed",
    "event_checker_rules.on_annonced",
    "Supported parameters include",
    "approve, lead_time",
    "missing required arguments",
    "name found in event_checker_rules",
)
SAID_BY_THE_SYSTEM = ("Address already in use",)


def test_every_other_message_stands_in_the_code():
    sources = [path for folder in ("plugins", "roles", "playbooks") for path in (TREE / folder).rglob("*.*")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources if path.suffix in (".py", ".yml", ".j2"))
    # A sentence may go on in the next string, or on the next line.
    code = " ".join(re.sub(r'"\n\s*f?"', "", code).split())
    by_reason = {message for reason in REASONS for message in messages(section(reason))}
    told = [message for message in messages(read("guide_troubleshooting")) if message not in by_reason]
    assert len(told) > 30
    for message in told:
        for piece in re.split("…|: |[.] ", message):
            piece = piece.strip(" .;,()")
            assert len(piece) < 8 or piece in code or piece in SAID_BY_ANSIBLE + SAID_BY_THE_SYSTEM, (
                f"{piece!r} of {message!r} is not in the code"
            )
