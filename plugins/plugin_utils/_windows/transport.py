# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""One exchange with Azure's metadata service by ansible.windows.win_uri, which runs on a Windows VM.

The source of win_uri, win_uri.ps1 and WebRequest.psm1 of ansible.windows, shows: any HTTP answer has
``status_code``, whether the module failed or not; a request without an answer has none; the headers of an answer
become keys of the result, and may overwrite others.
"""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any, Callable, Mapping

from ...module_utils._errors import MalformedError, NoAnswerError, NotImdsError, UnreachableError, excerpt
from ...module_utils._imds.transport import (
    AGENT_HEADER,
    LONGEST_ANSWER,
    MAX_BODY,
    Deadline,
    Response,
    no_time_error,
    split_endpoint,
    too_large_error,
)

REQUEST = "ansible.windows.win_uri"
PROBE = "ansible.windows.win_wait_for"
UPTIME = "ansible.windows.setup"
# Each look is a run of a module on the VM, which takes seconds over WinRM.
POLL_INTERVAL = 5.0
INSTALL = "ansible-galaxy collection install ansible.windows"

# win_uri takes the hyphens out, and puts an underscore before a capital letter; the agent writes none, in any header.
_HEADERS = {
    "retry_after": "retry-after",
    "retryafter": "retry-after",
    "location": "location",
    AGENT_HEADER.replace("-", ""): AGENT_HEADER,
}

# As Ansible.Basic of ansible-core says it, in no other language
_REFUSES_OPTIONS = "Unsupported parameters"

IN_DOUBT = "The approval may have been sent, and Azure may have taken it."

# Runs a module on the VM with options, and returns its result. RecursionError: the result is nested too deeply.
RunModule = Callable[[str, "dict[str, Any]"], Mapping[str, Any]]


class WindowsHostError(Exception):
    """The VM, or a collection for it on the controller, cannot run the request; the message says how to repair it."""


class WindowsTransport:
    """Exchanges HTTP requests and answers with the endpoint of a Windows VM.

    :param endpoint: ``http://HOST[:PORT][/PREFIX]``.
    :param connect_timeout: seconds to wait for a connection, where it is asked whether anything takes one at all;
        win_uri itself has no such limit.
    :param run_module: runs a module on the VM.
    """

    def __init__(self, endpoint: str, connect_timeout: float, run_module: RunModule) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._connect_timeout = connect_timeout
        self._run_module = run_module

    def exchange(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Response:
        """Send one request and return its whole answer, whatever its status.

        :param path: with the query, and without the prefix of the endpoint.
        :raises ImdsError: there was no whole HTTP answer.
        :raises WindowsHostError: the VM could not send the request, or its answer did not come back from there.
        """
        seconds = min(deadline.remaining(), LONGEST_ANSWER)
        if seconds <= 0:
            raise no_time_error(self._endpoint)
        options: dict[str, Any] = {
            "url": self._endpoint + path,
            "url_method": method,
            "url_timeout": math.ceil(seconds),
            "headers": {"Metadata": "true"},
            "return_content": True,
            "follow_redirects": "none",
            "use_proxy": False,
        }
        if body is not None:
            options.update(body=body.decode("ascii"), content_type="application/json")
        try:
            result = run_to_end(self._run_module, REQUEST, options)
        except RecursionError as error:
            # win_uri parses JSON by itself, and returns it beside the text.
            raise MalformedError(
                f"{self._endpoint} answered with JSON that is nested too deeply. "
                "Check which program serves the endpoint."
            ) from error
        except WindowsHostError as error:
            raise WindowsHostError(f"{error}{_in_doubt(method)}") from error
        if result.get("status_code") is None:
            raise self._no_answer(method, result)
        return self._read(result)

    def describe_caller(self) -> str:
        """Return the user and program that ask; no module returns their names on the VM."""
        return (
            "the user and the program by which Ansible runs PowerShell on this VM (the agent's log "
            "ProxyAgent.Connection.log tells both)"
        )

    def _read(self, result: Mapping[str, Any]) -> Response:
        status = result["status_code"]
        if not isinstance(status, int) or not 100 <= status <= 599:
            raise NotImdsError(
                f"The answer of {self._endpoint} has the status {_show(status)}, which must be a number from 100 to "
                "599. Check for a proxy or portal between this VM and the endpoint."
            )
        content = result.get("content")
        if content is None:
            raise NoAnswerError(f"{self._endpoint} broke the connection before its answer was complete. Ask again.")
        if not isinstance(content, str):
            raise MalformedError(
                f"{REQUEST} returned as the body of the answer {_show(content)}, which must be a text. Check the "
                "version of ansible.windows.",
                http_status=status,
            )
        # Half a surrogate pair cannot be written as UTF-8; the reader of the body replaces other bytes.
        body = content.encode("utf-8", "surrogatepass")
        if len(body) > MAX_BODY:
            raise too_large_error(self._endpoint, body, status)
        length = _parse_length(result.get("content_length"))
        # A body that could not be decoded has another length than the one that was sent.
        if length is not None and len(body) < length and "\ufffd" not in content:
            raise NoAnswerError(
                f"{self._endpoint} broke the connection before its answer was complete ({len(body)} of {length} bytes)."
                " Ask again."
            )
        headers = {name: result[key] for key, name in _HEADERS.items() if isinstance(result.get(key), str)}
        return Response(status, headers, body)

    def _no_answer(self, method: str, result: Mapping[str, Any]) -> Exception:
        """Return the error for a result without a status."""
        said = excerpt(str(result.get("msg") or "").strip())
        if str(result.get("msg")).startswith(_REFUSES_OPTIONS):
            return WindowsHostError(
                f"{REQUEST} does not take the options of this collection: {said}. Install a newer one: "
                f"{INSTALL} --upgrade"
            )
        if "elapsed" not in result:
            # win_uri sets it as soon as it has read its options; where a module breaks off, ansible-core leaves it out.
            return WindowsHostError(
                f"{REQUEST} failed on this host: {said}. See whether other modules of ansible.windows run there, and "
                f"whether its disk is full.{_in_doubt(method)}"
            )
        # A test of the port afterwards does not show whether Azure has got an approval.
        if method == "GET" and not self._takes_connections():
            return UnreachableError(
                f"Nothing answers at {self._endpoint} ({said}). This machine is not an Azure VM, a firewall or a "
                "missing route keeps it from the metadata service, or the endpoint is wrong."
            )
        return NoAnswerError(
            f"{self._endpoint} gave no complete answer ({said}). Azure holds the first answer up to two minutes: give "
            "timeout 150 seconds or more, or ask again."
        )

    def _takes_connections(self) -> bool:
        host, port, _prefix = split_endpoint(self._endpoint)
        # timeout ends a loop of attempts: with 1 there is one.
        options = {"host": host, "port": port, "connect_timeout": math.ceil(self._connect_timeout), "timeout": 1}
        result = run_to_end(self._run_module, PROBE, options)
        if result.get("failed") and "wait_attempts" not in result:
            said = excerpt(str(result.get("msg") or "").strip())
            raise WindowsHostError(f"{PROBE} could not look whether {self._endpoint} takes connections: {said}.")
        return not result.get("failed")


def read_boot_time(run_module: RunModule) -> float:
    """Return when a Windows VM booted, in seconds since 1970 by the clock of the controller.

    It is late by the time that the answer took, and where the VM was paused, by that; never early.

    :raises WindowsHostError: the VM did not tell.
    """
    result = run_to_end(run_module, UPTIME, {"gather_subset": ["!all", "!min", "uptime"]})
    facts = result.get("ansible_facts")
    # Not ansible_lastboot, which is local time, and moves whenever the clock of the VM is set.
    uptime = facts.get("ansible_uptime_seconds") if isinstance(facts, Mapping) else None
    if isinstance(uptime, bool) or not isinstance(uptime, (int, float)) or not 0 <= uptime < math.inf:
        said = next(filter(None, [result.get("msg"), *(result.get("warnings") or [])]), "")
        raise WindowsHostError(
            f"{UPTIME} did not tell since when this host runs, so it is unknown whether it booted: {excerpt(str(said))}"
        )
    # It is rounded.
    return time.time() - uptime + 0.5


def run_to_end(run_module: RunModule, module: str, options: dict[str, Any]) -> Mapping[str, Any]:
    result = run_module(module, options)
    # Where Ansible finds no result in a module's output, it returns the output, and before 2.21 _ansible_parsed too.
    if result.get("_ansible_parsed") is False or "module_stdout" in result:
        said = str(result.get("module_stderr") or result.get("module_stdout") or result.get("msg") or "")
        raise WindowsHostError(
            f"{module} did not run to its end on this host: {excerpt(said.strip())}. The host must be Windows with "
            "PowerShell: check ansible_connection and ansible_shell_type."
        )
    return result


def _in_doubt(method: str) -> str:
    return f" {IN_DOUBT}" if method == "POST" else ""


def _parse_length(value: object) -> int | None:
    """Return Content-Length, which is a number or, where the header has overwritten it, a text; -1 is unknown."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
        return int(value)
    return None


def _show(value: object) -> str:
    return excerpt(value) if isinstance(value, str) else excerpt(json.dumps(value, default=str)).strip('"')
