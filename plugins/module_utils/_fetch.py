# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Ask for the document and for the name of this VM: the client and the reading of documents put together."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Callable, NamedTuple

from ._document import Document, decode_document, parse_document
from ._errors import ImdsError, UnreachableError
from ._imds import ImdsClient
from ._imds_transport import Deadline

# Microsoft recommends one request a second; five a second is the limit for all programs of a VM together.
POLL_INTERVAL = 1.0

FindAddresses = Callable[[], "tuple[list[tuple[str, str]], list[str]]"]


class FetchResult(NamedTuple):
    """What one look at IMDS told.

    :ivar client: the client that got the answer, at the endpoint that gave it.
    :ivar document: None where Azure answered without a document.
    :ivar resource_name: the name of this VM, None where IMDS has none.
    :ivar deadline: what is left of the time for this look and all that follows from it.
    :ivar warnings: what could not be read on the way.
    """

    client: ImdsClient
    document: Document | None
    resource_name: str | None
    deadline: Deadline
    warnings: tuple[str, ...]


def now_utc() -> datetime:
    return datetime.now(timezone.utc)


def fetch(client: ImdsClient, resource_name: str | None, find_addresses: FindAddresses | None = None) -> FetchResult:
    """Ask for the document and, unless it is given, for the name of this VM.

    :param find_addresses: where to look for another endpoint when the client's does not answer; None does not look.
    :raises ImdsError: there was no usable answer.
    """
    deadline = client.deadline()
    warnings: list[str] = []
    try:
        document = read_document(client, deadline)
    except UnreachableError as error:
        if find_addresses is None:
            raise
        client, document = _look_elsewhere(client, deadline, find_addresses, error, warnings)
    if document is not None:
        warnings.extend(document.warnings)
    name = resource_name or client.get_resource_name(deadline)
    return FetchResult(client, document, name, deadline, tuple(warnings))


def _look_elsewhere(
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
