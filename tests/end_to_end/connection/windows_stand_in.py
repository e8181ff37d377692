# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for a Windows VM. No PowerShell runs here: it answers as the sources of ansible.windows say.

U is win_uri.ps1, S setup.ps1 and W module_utils/WebRequest.psm1 of ansible.windows 3.3.0, with the number of a line.
"""

from __future__ import annotations

DOCUMENTATION = """
name: windows_stand_in
author: fleetops contributors
short_description: Look like a Windows VM to Ansible
description:
  - Takes the modules that Ansible would have PowerShell run, and answers as win_uri and win_wait_for document.
  - Sends the HTTP requests for real, to loopback only.
  - Fails on any module and option that it does not know.
options:
  imds:
    description: The endpoint of a simulator that this VM sees as http://169.254.169.254.
    default: ""
    vars:
      - name: stand_in_imds
  breaks:
    description:
      - How the host breaks.
      - V(lost), the connection fails. V(reset), a library of the connection lets an error of its own through; where
        O(up) is set, only while the host is down.
        V(reset_at_post), the same once an approval has been sent. V(no_powershell), there is none, as on Linux.
        V(old), win_uri does not know an option.
    default: ""
    vars:
      - name: stand_in_breaks
  up:
    description:
      - If set, the host can be reached while this file exists.
      - Where it cannot be reached it leaves a file whose name ends with .missed beside that one, as mortal does.
    default: ""
    vars:
      - name: up_file
  booted:
    description:
      - A file that is made when the VM boots; its age is how long the VM has run.
      - If empty, the VM runs since the year 1970. If there is no such file, setup cannot tell.
    default: ""
    vars:
      - name: stand_in_booted
  machine:
    description:
      - A file with the services and files of the VM, see tests/end_to_end/windows_machine.py.
      - If empty, the VM has none, and forgets what it is told.
    default: ""
    vars:
      - name: stand_in_machine
  log:
    description: If set, a file that gets a line of JSON for each module, with its options.
    default: ""
    vars:
      - name: stand_in_log
"""

import base64
import gzip
import http.client
import ipaddress
import json
import os
import re
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase
from ansible_collections.fleetops.azure_maintenance.tests.end_to_end import windows_machine

REAL = "http://169.254.169.254"
# The part of the options of win_uri (U:13-34, W:527-555) and win_wait_for that the collection is known to use.
OPTIONS = {
    "ansible.windows.win_uri": {
        "url",
        "url_method",
        "url_timeout",
        "headers",
        "return_content",
        "follow_redirects",
        "use_proxy",
        "body",
        "content_type",
    },
    "ansible.windows.win_wait_for": {"host", "port", "connect_timeout", "timeout"},
    "ansible.windows.win_ping": set(),
    "ansible.windows.setup": {"gather_subset"},
    **windows_machine.OPTIONS,
}
# What ansible-core calls a module that it runs for wait_for_connection; on Windows it sends the other one.
OTHER_NAMES = {"ansible.legacy.ping": "ansible.windows.win_ping"}


class Connection(ConnectionBase):
    """What the connections winrm and psrp of ansible-core say of themselves."""

    transport = "windows_stand_in"
    module_implementation_preferences = (".ps1", ".exe", "")
    allow_executable = False
    has_pipelining = True
    always_pipeline_modules = True
    has_native_async = True

    def __init__(self, *args, **kwargs):
        self._shell_type = "powershell"
        super().__init__(*args, **kwargs)
        self._put = {}

    def _connect(self):
        self._connected = True
        return self

    def reset(self):
        self._connected = False

    def close(self):
        self._connected = False

    def put_file(self, in_path, out_path):
        self._put[out_path] = Path(in_path).read_text(encoding="utf-8")

    def fetch_file(self, in_path, out_path):
        raise AssertionError(f"no file is fetched from this host: {in_path}")

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        breaks = self.get_option("breaks")
        up = self.get_option("up")
        down = bool(up) and not os.path.exists(up)
        if down:
            Path(up + ".missed").touch()
        if breaks == "reset" and (down or not up):
            raise ConnectionResetError(104, "Connection reset by peer")
        if breaks == "lost" or down:
            raise AnsibleConnectionFailure("The host is down.")
        if in_data is None:
            # The module raw, in tasks of the tests alone: there is no PowerShell that could run it.
            done = subprocess.run(["/bin/sh", "-c", cmd], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            return done.returncode, done.stdout, done.stderr
        assert " -EncodedCommand " in cmd, cmd
        if breaks == "no_powershell":
            return 127, b"", b"sh: 1: PowerShell: not found\n"
        name, options, check_mode = unpack(in_data)
        if self.get_option("log"):
            with open(self.get_option("log"), "a", encoding="utf-8") as log:
                log.write(json.dumps([name, options]) + "\n")
        assert name in OPTIONS, f"this host knows no module {name}"
        unknown = set(options) - OPTIONS[name]
        assert not unknown, f"{name}: this host knows no option {sorted(unknown)}"
        if name in windows_machine.MODULES:
            result = windows_machine.run(self.get_option("machine"), name, options, check_mode, self._put)
        else:
            result = self._run(name, options)
        if breaks == "reset_at_post" and options.get("url_method") == "POST":
            raise ConnectionResetError(104, "Connection reset by peer")
        return 0, json.dumps(result).encode(), b""

    def _run(self, name, options):
        if name == "ansible.windows.win_ping":
            return {"changed": False, "ping": "pong"}
        if name == "ansible.windows.win_wait_for":
            return wait_for(**options)
        if name == "ansible.windows.setup":
            return setup(options["gather_subset"], self.get_option("booted"))
        if self.get_option("breaks") == "old":
            # What Ansible.Basic says at U:35 of an option that is not in the spec, before U:49 sets anything
            return {"failed": True, "changed": False, "msg": "Unsupported parameters for (win_uri) module: use_proxy"}
        url = options["url"]
        if url.startswith(REAL) and self.get_option("imds"):
            url = self.get_option("imds") + url[len(REAL) :]
        assert ipaddress.ip_address(urlsplit(url).hostname).is_loopback, f"a test must not ask {url}"
        return win_uri({**options, "url": url}, options["url"])


def unpack(in_data):
    """Return the full name of the module, its options, and whether it is in check mode, from what is sent."""
    _wrapper, found, manifest = in_data.partition(b"\0\0\0\0")
    assert found, in_data[:200]
    try:
        content = json.loads(manifest)
    except ValueError:
        # From ansible-core 2.22 on, where that is shorter
        content = json.loads(gzip.decompress(base64.b64decode(manifest)))
    if "module_args" in content:
        # Up to ansible-core 2.18
        assert content["actions"] == ["module_powershell_wrapper"], content["actions"]
        arguments = content["module_args"]
    else:
        (action,) = content["actions"]
        assert action["name"] == "module_wrapper.ps1", action["name"]
        if "ArgumentJSON" in action["params"]:
            # From ansible-core 2.22 on
            arguments = json.loads(action["params"]["ArgumentJSON"])
        else:
            (variable,) = action["params"]["Variables"]
            assert variable["Name"] == "complex_args", variable["Name"]
            arguments = variable["Value"]
    options = {name: value for name, value in arguments.items() if not name.startswith("_ansible_")}
    name = arguments["_ansible_module_name"]
    return OTHER_NAMES.get(name, name), options, arguments["_ansible_check_mode"]


def setup(gather_subset, booted):
    # S:1198-1234: all but the one that is named. Other subsets are not written down here.
    assert gather_subset == ["!all", "!min", "uptime"]
    # S:1236-1243
    facts = {"gather_subset": gather_subset, "module_setup": True}
    result = {"changed": False, "ansible_facts": facts}
    if booted and not os.path.exists(booted):
        # S:1294, in the language of Windows
        return {**result, "warnings": ["Error when collecting uptime facts: Zugriff verweigert"]}
    since = os.stat(booted).st_mtime if booted else 0
    # S:1068-1069
    facts.update(ansible_lastboot="1970-01-01 00:00:00Z", ansible_uptime_seconds=round(time.time() - since))
    return result


def win_uri(options, asked):
    # U:13-34, W:527-555
    options = {"url_method": "GET", "headers": {}, "return_content": False, **options}
    # What else would happen is not written down here.
    assert (options["follow_redirects"], options["use_proxy"]) == ("none", False)
    # W:537
    assert isinstance(options["url_timeout"], int)
    started = time.monotonic()
    # U:49-50
    result = {"changed": False, "elapsed": 0, "url": asked}
    parts = urlsplit(options["url"])
    # W:348: the time-out ends the wait for the headers; here a connection takes no time.
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=options["url_timeout"])
    headers = dict(options["headers"])
    body = options.get("body")
    if body is not None:
        headers["Content-Type"] = options["content_type"]
        # Seen with Mono
        headers["Expect"] = "100-continue"
    try:
        connection.connect()
    except OSError:
        connection.close()
        # W:455: a POST connects before the line that sets status_code; W:479: a GET sets it to nothing
        return no_answer(result, {} if body is not None else {"status_code": None}, started)
    try:
        target = options["url"][options["url"].index(parts.netloc) + len(parts.netloc) :]
        connection.request(options["url_method"], target, None if body is None else body.encode(), headers)
        try:
            response = connection.getresponse()
        except (OSError, http.client.HTTPException):
            return no_answer(result, {"status_code": None}, started)
        # W:494-495
        result.update(msg=response.reason, status_code=response.status)
        # U:107-115, those of the properties that matter
        length = response.getheader("Content-Length")
        result.update(
            content_length=int(length) if length else -1,
            content_type=response.getheader("Content-Type") or "",
            status_description=response.reason,
        )
        # U:118-123
        for name, value in response.getheaders():
            result[snake_case(name)] = value
        try:
            content = response.read()
        except (OSError, http.client.HTTPException):
            return no_answer(result, {}, started)
        # U:126
        if options["return_content"]:
            result.update(read_content(content, result["content_type"]))
        # U:178-180
        if response.status != 200:
            said = f"Status code of request '{response.status}' is not in list of valid status codes 200"
            result.update(failed=True, msg=said)
        result["elapsed"] = time.monotonic() - started
        return result
    finally:
        connection.close()


def read_content(content, content_type):
    # U:135: GetString keeps a BOM, and puts U+FFFD where a byte is not UTF-8
    told = {"content": content.decode("utf-8", errors="replace")}
    # U:136-141
    if re.search("text|json|javascript", content_type):
        try:
            parsed = json.loads(told["content"])
        except (ValueError, RecursionError):
            # What very deep JSON does to PowerShell is not known; the tests let it die, too.
            parsed = None
        if parsed:
            told["json"] = parsed
    return told


def no_answer(result, status, started):
    # U:202-204; the text of .NET is in the language of Windows, so nothing may read it
    said = "Die zugrunde liegende Verbindung wurde geschlossen."
    text = f"Unhandled exception occurred when sending web request. Exception: {said}"
    return {**result, **status, "failed": True, "elapsed": time.monotonic() - started, "msg": text}


def snake_case(header):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", header.replace("-", "")).lower()


def wait_for(timeout, host=None, port=None, connect_timeout=None):
    """Make one attempt, as win_wait_for.ps1 does (Test-Port) where timeout is 1; without a port it would sleep."""
    if port is None:
        assert (host, connect_timeout) == (None, None)
        # It makes a number of what a template of ansible-core 2.16 leaves a text.
        return {"changed": False, "elapsed": float(int(timeout)), "wait_attempts": 0}
    assert [type(each) for each in (port, connect_timeout, timeout)] == [int] * 3
    assert timeout == 1
    assert ipaddress.ip_address(host).is_loopback, f"a test must not ask {host}"
    result = {"changed": False, "elapsed": 0.1, "wait_attempts": 1}
    try:
        socket.create_connection((host, port), timeout=connect_timeout).close()
    except OSError:
        return {**result, "failed": True, "msg": f"timeout while waiting for {host}:{port} to start listening"}
    return result
