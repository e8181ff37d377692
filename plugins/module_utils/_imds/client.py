# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The client for Azure's metadata service (IMDS): requests, retries, and the errors of answers other than 200.

Facts about Azure are from Microsoft's pages "Azure Instance Metadata Service" and "Scheduled Events for Linux VMs"
(azure-compute-docs).
"""

from __future__ import annotations

import json
import re
import time
from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple, Protocol, Sequence, TypeVar
from urllib.parse import quote

from .._errors import (
    HttpStatusError,
    ImdsError,
    MalformedError,
    NoAnswerError,
    NoIdentityError,
    NotImdsError,
    ThrottledError,
    UnreachableError,
    excerpt,
    one_line,
)
from .transport import AGENT_HEADER, Deadline, Response, SocketTransport, split_endpoint

DEFAULT_ENDPOINT = "http://169.254.169.254"
DEFAULT_API_VERSION = "2020-07-01"
DEFAULT_CONNECT_TIMEOUT = 3.0
DEFAULT_TIMEOUT = 150.0

_EVENTS_PATH = "/metadata/scheduledevents"
_COMPUTE_PATH = "/metadata/instance/compute"
# All that is asked for. An allow list of the guest proxy agent must have them.
PATHS = (_EVENTS_PATH, _COMPUTE_PATH)
# scheduledevents and instance have version lists of their own.
_INSTANCE_API_VERSION = "2021-02-01"
# The condition of is_vm_name(), as the end of a sentence
A_VM_NAME = "a name by which Azure can call a VM in Resources"
_LONGEST_NAME = 128
_NOT_IN_A_NAME = r"""[\s~!@#$%^&*()=+\[\]{}\\|;:'",<>/?]"""
_UUID = r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Azure's have some hundred characters.
_LONGEST_RESOURCE_ID = 2048
# Azure sends some hundred lists and objects. An answer of 1 MiB has room for half a million, and each takes up to fifty
# times the memory of its text.
_MOST_BRACKETS = 10000
# Seconds for which a 404 may pass: it is Azure's answer right after a boot, and always for a classic VM. Every module
# run on a classic VM waits so long, so it is less than the seven seconds of Microsoft's own library (MSAL).
_UNKNOWN_AFTER = 4.0
# Bytes of an error in JSON; its objects take up to fifty times the memory, and Azure's have some hundred bytes.
_LONGEST_REPLY = 64 * 1024
# Azure's answers name three.
_MOST_VERSIONS = 10
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
# The clock of the operating system takes no infinity and no 10^10 seconds.
_LONGEST_LIMIT = 86400


Answer = TypeVar("Answer")


class Identity(NamedTuple):
    """Which VM this is, as IMDS tells it; all None where IMDS knows nothing of it (classic VMs), or was not asked.

    :ivar name: the name by which Resources calls this VM.
    :ivar vm_id: the UUID of this VM, as Azure spells it. A copy of its disk in another VM meets another one.
    :ivar resource_id: the id of this VM in Azure Resource Manager.
    """

    name: str | None = None
    vm_id: str | None = None
    resource_id: str | None = None


class Transport(Protocol):
    """Carries a request to the endpoint, as SocketTransport does; its errors are those of SocketTransport."""

    def exchange(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> Response:
        """Send one request and return the answer to it, whatever its status."""
        raise NotImplementedError

    def describe_caller(self) -> str:
        """Return the user and the program that ask, for an allow list of the guest proxy agent."""
        raise NotImplementedError


class ImdsClient:
    """Asks one IMDS endpoint.

    :param endpoint: ``http://HOST[:PORT][/PREFIX]``.
    :param api_version: version of ``/metadata/scheduledevents``.
    :param connect_timeout: seconds to wait for a connection; off Azure this ends the attempt.
    :param timeout: seconds for one whole operation with its retries, unless a deadline is given.
    :param retries: whether to ask again after a fault that may pass; a caller that polls asks again by itself.
    :param transport: carries the requests to the endpoint; None opens sockets.
    :raises ValueError: the endpoint is not of that form, or a limit is not more than 0 and at most a day.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        api_version: str = DEFAULT_API_VERSION,
        connect_timeout: float = DEFAULT_CONNECT_TIMEOUT,
        timeout: float = DEFAULT_TIMEOUT,
        retries: bool = True,
        transport: Transport | None = None,
    ) -> None:
        split_endpoint(endpoint)
        for name, seconds in (("connect_timeout", connect_timeout), ("timeout", timeout)):
            if not 0 < seconds <= _LONGEST_LIMIT:
                raise ValueError(f"{name} must be more than 0 and at most {_LONGEST_LIMIT} seconds, not {seconds}.")
        self.endpoint = endpoint.rstrip("/")
        self.api_version = api_version
        self._connect_timeout = connect_timeout
        self.timeout = timeout
        self._retries = retries
        self._transport = transport or SocketTransport(endpoint, connect_timeout)

    def at(self, endpoint: str) -> ImdsClient:
        """Return a client like this one for another endpoint, which it asks over sockets."""
        return ImdsClient(endpoint, self.api_version, self._connect_timeout, self.timeout, self._retries)

    def deadline(self, seconds: float | None = None) -> Deadline:
        """Return a deadline that gives several operations so many seconds together, by default the client's timeout."""
        return Deadline(self.timeout if seconds is None else seconds)

    def get_document(self, deadline: Deadline | None = None) -> bytes:
        """Return the body of ``/metadata/scheduledevents``.

        :raises ImdsError: there was no answer with status 200.
        """
        return self._request("GET", self._events_path(), None, deadline)

    def approve(
        self, event_ids: Sequence[str], document_incarnation: str | None = None, deadline: Deadline | None = None
    ) -> None:
        """POST a StartRequest for the events: Azure may start them now, for all their VMs.

        It is sent once. Before it is sent again the document must be read again, because its VMs may have changed.

        :param event_ids: ids as Azure spelled them.
        :param document_incarnation: sent along if given; the pages of 2017 ask for it, as a string.
        :raises ImdsError: there was no answer of Azure with status 200 and without an error; 400 where an id is not in
            the document.
        """
        content: dict[str, Any] = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
        if document_incarnation is not None:
            content = {"DocumentIncarnation": document_incarnation, **content}
        body = self._request("POST", self._events_path(), json.dumps(content).encode(), deadline, retries=False)
        # No page documents the body of Azure's answer. It is certainly not HTML, and not the form of Azure's errors.
        text = body.decode("utf-8-sig", errors="replace")
        if text.lstrip().startswith("<"):
            raise NotImdsError(
                f"{self.endpoint} answered the approval with {excerpt(text)}, which is a web page and no answer of "
                "Azure. Check for a proxy or portal between this VM and the endpoint.",
                http_status=200,
            )
        error = _read_error(text)
        if error is not None:
            said = error if isinstance(error, str) else text
            raise MalformedError(
                f"{self.endpoint} answered the approval with HTTP 200 and the error {excerpt(said)}. Look whether the "
                "event has started before you approve it again.",
                http_status=200,
            )

    def get_identity(self, deadline: Deadline | None = None) -> Identity:
        """Return which VM this is.

        :raises ImdsError: there was no usable answer.
        """
        path = f"{_COMPUTE_PATH}?api-version={_INSTANCE_API_VERSION}"
        limit = deadline or self.deadline()
        try:
            return self._ask_again(
                lambda: self._read_identity(self._ask("GET", path, None, limit)), limit, _UNKNOWN_AFTER
            )
        except ImdsError as error:
            if error.http_status == 404:
                return Identity()
            raise

    def _read_identity(self, body: bytes) -> Identity:
        """:raises NoIdentityError: the body is not IMDS's description of a VM."""
        text = body.decode("utf-8-sig", errors="replace").strip()
        content = _json_object(text) if text.count("[") + text.count("{") <= _MOST_BRACKETS else None
        vm_id = content and content.get("vmId")
        if not content or not isinstance(vm_id, str) or not re.fullmatch(_UUID, vm_id):
            raise self._no_identity(text, "a JSON object with the vmId of a VM")
        name = content.get("name")
        if name in (None, ""):
            name = None
        elif not isinstance(name, str) or not is_vm_name(name):
            raise self._no_identity(name if isinstance(name, str) else json.dumps(name), "a VM name")
        return Identity(name, vm_id, _read_resource_id(content.get("resourceId")))

    def _no_identity(self, answer: str, wanted: str) -> NoIdentityError:
        return NoIdentityError(
            f"{self.endpoint} was asked for the name of this VM and answered with {excerpt(answer)}, which is not "
            f"{wanted}. Check for a proxy or portal between this VM and the endpoint, or set resource_name.",
            http_status=200,
        )

    def _events_path(self) -> str:
        return f"{_EVENTS_PATH}?api-version={quote(self.api_version, safe='')}"

    def _request(
        self, method: str, path: str, body: bytes | None, deadline: Deadline | None, retries: bool = True
    ) -> bytes:
        """Ask until there is an answer with status 200, an error that asking again cannot mend, or no time left."""
        limit = deadline or self.deadline()
        return self._ask_again(lambda: self._ask(method, path, body, limit), limit, retries=retries)

    def _ask(self, method: str, path: str, body: bytes | None, deadline: Deadline) -> bytes:
        """Ask once, and return the body of the answer.

        :raises ImdsError: there was no answer with status 200.
        """
        answer = self._transport.exchange(method, path, body, deadline)
        if answer.status == 200:
            return answer.body
        retry_after = _parse_retry_after(answer.headers.get("retry-after"))
        error = self._refusal(answer, retry_after)
        error.retry_after = retry_after
        raise error

    def _ask_again(
        self, ask: Callable[[], Answer], deadline: Deadline, unknown_after: float = 0.0, retries: bool = True
    ) -> Answer:
        """Ask until there is an answer, an error that asking again cannot mend, or no time left.

        :param unknown_after: seconds for which a 404 of IMDS may pass.
        """
        unknown = Deadline(unknown_after)
        pause = _FIRST_PAUSE
        error: ImdsError | None = None
        while True:
            least: float | None = None
            try:
                return ask()
            except (NoAnswerError, UnreachableError) as failure:
                if error is None and isinstance(failure, UnreachableError):
                    raise
                # An earlier answer says more than a later connection that failed or had no time.
                error, again = error or failure, True
            except ImdsError as failure:
                error, again, least = failure, failure.may_pass, failure.retry_after
                if isinstance(failure, HttpStatusError) and failure.http_status == 404:
                    again = max(pause, least or 0.0) < unknown.remaining()
            wait = max(pause, least or 0.0)
            if not again or not (retries and self._retries) or wait >= deadline.remaining():
                raise error
            time.sleep(wait)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _refusal(self, answer: Response, retry_after: float | None) -> ImdsError:
        """Return the error for an answer that is not 200."""
        status = answer.status
        text = answer.body[:_LONGEST_REPLY].decode("utf-8", errors="replace")
        reply = _json_object(text) if len(answer.body) <= _LONGEST_REPLY else None
        error = reply.get("error") if reply else None
        said = error if isinstance(error, str) else text
        fact = f"{self.endpoint} answered HTTP {status}: {excerpt(said)}."
        wait = f" Ask again in {min(retry_after, 1e9):.0f} s." if retry_after is not None and retry_after > 60 else ""
        if 300 <= status < 400:
            location = answer.headers.get("location", "")
            return NotImdsError(
                f"{self.endpoint} redirects (HTTP {status}) to {excerpt(location)}, which IMDS never does. "
                "Check for a proxy or portal between this VM and the endpoint.",
                status,
            )
        if status == 404 and (reply is None or "error" not in reply):
            return NotImdsError(f"{fact} It is not Azure's metadata service; this may be another cloud.", status)
        if status == 429:
            return ThrottledError(
                f"{fact} Azure allows 5 requests a second for all programs of a VM together. Ask less often.{wait}",
                status,
            )
        return HttpStatusError(f"{fact} {self._advice(answer, said, reply or {}, wait)}", status)

    def _advice(self, answer: Response, said: str, reply: dict[str, Any], wait: str) -> str:
        status = answer.status
        if status == 400 and "newest-versions" in reply:
            offered = reply["newest-versions"]
            listed = offered[:_MOST_VERSIONS] if isinstance(offered, list) else [offered]
            # A list or an object is no version, and could be nested almost without end.
            versions = one_line(", ".join(str(each) for each in listed if not isinstance(each, (dict, list))))
            asked = self.api_version or "empty"
            return f"api_version was {asked}; Azure offers {versions}. {DEFAULT_API_VERSION} is the usual one."
        if status == 400 and "metadata header" in said.lower():
            return "Something between this VM and the endpoint dropped the header 'Metadata: true'."
        if status == 403 and AGENT_HEADER in answer.headers:
            return (
                "Azure itself refused it: the guest proxy agent has let it through, so no allow list is the cause. "
                "Check securityProfile.proxyAgentSettings of the VM."
            )
        if status == 403 and not answer.body:
            return (
                "The guest proxy agent of this VM (Metadata Security Protocol) refused it. Its allow list must have "
                f"{self._transport.describe_caller()}, for the paths {' and '.join(PATHS)}."
            )
        if status in (401, 403):
            return (
                "Access is filtered: check for a firewall or proxy on this VM, whether the agent of the Metadata "
                "Security Protocol runs, and whether this is Azure."
            )
        if status == 421:
            return (
                "The guest proxy agent of this VM (Metadata Security Protocol) does not know which program asked. Ask "
                "again; if it stays so, check the agent's service."
            )
        if status == 410 or status >= 500:
            return f"The metadata service is out of order for the moment.{wait or ' Ask again in a minute.'}"
        return "Check endpoint and api_version."


def is_vm_name(text: str) -> bool:
    """Tell whether Azure could name a VM so.

    The characters that it refuses are those of Microsoft's page "Naming rules and restrictions for Azure resources";
    an error page or a JSON object has some of them.
    """
    return len(text) <= _LONGEST_NAME and text.isprintable() and not re.search(_NOT_IN_A_NAME, text)


def _read_resource_id(told: Any) -> str | None:
    # Half a surrogate pair is not printable; Ansible refuses a whole answer that holds one.
    good = isinstance(told, str) and 0 < len(told) <= _LONGEST_RESOURCE_ID and told.isprintable()
    return told if good else None


def _read_error(text: str) -> Any:
    """Return the error of an answer in the form of Azure's errors, None where it has none."""
    reply = (_json_object(text) if len(text) <= _LONGEST_REPLY else None) or {}
    return next((value for key, value in reply.items() if key.lower() == "error" and value is not None), None)


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        content = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header, None where there is none that can be read."""
    if value is None:
        return None
    if re.fullmatch(r"\d+", value.strip(), re.ASCII):
        return float(value)
    # Imported when needed: it takes longer than many polls, and the check of each minute imports this file.
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())
