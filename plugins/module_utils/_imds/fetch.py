# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Ask for the document and which VM this is: the client and the reading of documents put together."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable, Mapping, NamedTuple, TypeVar

from .._errors import HttpStatusError, ImdsError, NotImdsError, UnreachableError, excerpt
from .._event.document import Document
from .._event.parser import decode_document, parse_document
from .client import A_VM_NAME, Identity, ImdsClient, is_vm_name
from .transport import Deadline

# Microsoft recommends one request a second; five a second is the limit for all programs of a VM together.
POLL_INTERVAL = 1.0

NO_RESOURCE_NAME = (
    "The metadata service returned no name for this VM. Set resource_name to the name that Azure uses in Resources."
)

Answer = TypeVar("Answer")
FindAddresses = Callable[[], "tuple[list[tuple[str, str]], list[str]]"]


class FetchResult(NamedTuple):
    """The document and which VM this is, and how they were fetched.

    :ivar client: the client that got the answer, at the endpoint that gave it.
    :ivar document: None where Azure answered without a document.
    :ivar identity: which VM this is; of a name that was given, nothing but the name.
    :ivar deadline: the end of the time for this request and all that follow from it.
    :ivar warnings: a sentence for everything that could not be read.
    """

    client: ImdsClient
    document: Document | None
    identity: Identity
    deadline: Deadline
    warnings: tuple[str, ...]

    @property
    def document_received(self) -> bool:
        """False where Azure answered with an empty body: whether there are events is unknown then."""
        return self.document is not None

    def require_name(self) -> str:
        """Return the name of this VM.

        :raises HttpStatusError: the metadata service has none, and none was configured.
        """
        if self.identity.name is None:
            raise HttpStatusError(NO_RESOURCE_NAME, 404)
        return self.identity.name


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def fetch(client: ImdsClient, resource_name: str | None, find_addresses: FindAddresses | None = None) -> FetchResult:
    """Ask which VM this is, unless its name is given, and then for the document.

    In this order, so that nothing is approved in a document that was read before the name was known (P1).

    :param find_addresses: where to look for another endpoint when the client's does not answer; None does not search.
    :raises ImdsError: there was no usable answer.
    """
    deadline = client.deadline()
    warnings: list[str] = []
    # A survey of AWX leaves an empty string where nothing was entered.
    identity = Identity(resource_name or None)
    if identity.name is None:
        client, identity = _ask(client, lambda at: at.get_identity(deadline), find_addresses, warnings)
    client, document = _ask(client, lambda at: read_document(at, deadline), find_addresses, warnings)
    if document is not None:
        warnings.extend(document.warnings)
    return FetchResult(client, document, identity, deadline, tuple(warnings))


def fetch_name(
    client: ImdsClient, deadline: Deadline, find_addresses: FindAddresses | None = None
) -> tuple[ImdsClient, str, str | None]:
    """Return the client that got an answer, and the name and the vmId of this VM.

    :raises ImdsError: there was no usable answer, or it holds no name.
    """
    found, identity = _ask(client, lambda at: at.get_identity(deadline), find_addresses, [])
    if identity.name is None:
        # A checker that polls asks once, and again with its next poll.
        raise NotImdsError(
            "The metadata service returned no name for this VM. Right after a boot this passes. Set "
            "resource_name to the name that Azure uses in Resources if it stays.",
            404,
        )
    return found, identity.name, identity.vm_id


def fetch_document(
    client: ImdsClient, deadline: Deadline, find_addresses: FindAddresses | None = None
) -> tuple[ImdsClient, Document | None]:
    """Return the document, None for an empty body, and the client that got it.

    :raises ImdsError: there was no usable answer.
    """
    return _ask(client, lambda at: read_document(at, deadline), find_addresses, [])


def fetch_body(
    client: ImdsClient, deadline: Deadline, find_addresses: FindAddresses | None = None
) -> tuple[ImdsClient, bytes]:
    """Return the body of the document as it came, and the client that got it.

    :raises ImdsError: there was no answer with status 200.
    """
    return _ask(client, lambda at: at.get_document(deadline), find_addresses, [])


def fetch_with_options(params: Mapping[str, Any], client: ImdsClient, warn: Callable[[str], None]) -> FetchResult:
    """Ask for the document and which VM this is, as the options of a module say.

    :raises ImdsError: there was no usable answer.
    :raises ValueError: resource_name cannot be the name of a VM, so no event would be found for it.
    """
    if params["resource_name"] and not is_vm_name(params["resource_name"]):
        raise ValueError(f"resource_name must be {A_VM_NAME}, not {excerpt(params['resource_name'])}.")
    find_addresses: FindAddresses | None = None
    if params["discover_endpoint"]:
        # Every module run reads all its imports again, and few runs need this one.
        from .dhcp_lease import find_endpoint_addresses as find_addresses
    found = fetch(client, params["resource_name"], find_addresses)
    for warning in found.warnings:
        warn(warning)
    return found


def _ask(
    client: ImdsClient,
    question: Callable[[ImdsClient], Answer],
    find_addresses: FindAddresses | None,
    warnings: list[str],
) -> tuple[ImdsClient, Answer]:
    """Ask the client and, where nothing answers there, those that DHCP option 245 named, one after the other."""
    try:
        return client, question(client)
    except UnreachableError as error:
        if find_addresses is None:
            raise
        unreachable = error
    addresses, notes = find_addresses()
    warnings.extend(notes)
    failures = [str(unreachable), *notes]
    for address, source in addresses:
        other = client.at(f"http://{address}")
        try:
            return other, question(other)
        except ImdsError as failure:
            failures.append(f"From {source}: {failure}")
    if not addresses:
        failures.append("No DHCP lease of this machine names another endpoint (option 245).")
    raise UnreachableError(" ".join(failures), unreachable.http_status) from unreachable


def read_document(client: ImdsClient, deadline: Deadline) -> Document | None:
    """Return the document, None where Azure answered without one.

    :raises ImdsError: there was no usable answer.
    """
    content = decode_document(client.get_document(deadline))
    return None if content is None else parse_document(content, client.api_version)
