# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Ask for the document and for the name of this VM: the client and the reading of documents put together."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable, Mapping, NamedTuple

from ._document import Document, decode_document, parse_document
from ._errors import ImdsError, UnreachableError
from ._imds import ImdsClient
from ._imds_transport import Deadline

# Microsoft recommends one request a second; five a second is the limit for all programs of a VM together.
POLL_INTERVAL = 1.0

NO_RESOURCE_NAME = (
    "The metadata service returned no name for this VM. Set resource_name to the name that Azure uses in Resources."
)

FindAddresses = Callable[[], "tuple[list[tuple[str, str]], list[str]]"]


class NoResourceNameError(ValueError):
    """The metadata service has no name for this VM, and none was configured."""


class FetchResult(NamedTuple):
    """The document and the name of this VM, and how they were fetched.

    :ivar client: the client that got the answer, at the endpoint that gave it.
    :ivar document: None where Azure answered without a document.
    :ivar resource_name: the name of this VM, None where IMDS has none.
    :ivar deadline: what is left of the time for this request and all that follow from it.
    :ivar warnings: what could not be read on the way.
    """

    client: ImdsClient
    document: Document | None
    resource_name: str | None
    deadline: Deadline
    warnings: tuple[str, ...]

    @property
    def document_received(self) -> bool:
        """False where Azure answered with an empty body: whether there are events is unknown then."""
        return self.document is not None

    def require_name(self) -> str:
        """Return the name of this VM.

        :raises NoResourceNameError: it is not known.
        """
        if self.resource_name is None:
            raise NoResourceNameError(NO_RESOURCE_NAME)
        return self.resource_name


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def fetch(client: ImdsClient, resource_name: str | None, find_addresses: FindAddresses | None = None) -> FetchResult:
    """Ask for the document and, unless it is given, for the name of this VM.

    :param find_addresses: where to look for another endpoint when the client's does not answer; None does not search.
    :raises ImdsError: there was no usable answer.
    """
    deadline = client.deadline()
    warnings: list[str] = []
    try:
        document = read_document(client, deadline)
    except UnreachableError as error:
        if find_addresses is None:
            raise
        client, document = _ask_elsewhere(client, deadline, find_addresses, error, warnings)
    if document is not None:
        warnings.extend(document.warnings)
    name = resource_name or client.get_resource_name(deadline)
    return FetchResult(client, document, name, deadline, tuple(warnings))


def fetch_with_options(params: Mapping[str, Any], client: ImdsClient, warn: Callable[[str], None]) -> FetchResult:
    """Ask for the document and the name of this VM, as the options of a module say.

    :raises ImdsError: there was no usable answer.
    """
    find_addresses: FindAddresses | None = None
    if params["discover_endpoint"]:
        # Every module run reads its imports anew, and few runs need this one.
        from ._dhcp_lease import find_endpoint_addresses as find_addresses
    found = fetch(client, params["resource_name"], find_addresses)
    for warning in found.warnings:
        warn(warning)
    return found


def _ask_elsewhere(
    client: ImdsClient,
    deadline: Deadline,
    find_addresses: FindAddresses,
    error: UnreachableError,
    warnings: list[str],
) -> tuple[ImdsClient, Document | None]:
    """Ask the endpoints that DHCP option 245 named, in turn, until one answers."""
    addresses, notes = find_addresses()
    warnings.extend(notes)
    failures = [str(error), *notes]
    for address, source in addresses:
        other = client.at(f"http://{address}")
        try:
            return other, read_document(other, deadline)
        except ImdsError as failure:
            failures.append(f"From {source}: {failure}")
    if not addresses:
        failures.append("No DHCP lease of this machine names another endpoint (option 245).")
    raise UnreachableError(" ".join(failures), error.http_status) from error


def read_document(client: ImdsClient, deadline: Deadline) -> Document | None:
    """Return the document, None where Azure answered without one.

    :raises ImdsError: there was no usable answer.
    """
    content = decode_document(client.get_document(deadline))
    return None if content is None else parse_document(content, client.api_version)
