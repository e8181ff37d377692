# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""The result of the module scheduled_events_info: options and a client in, a result out."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .._event.marks import select_marks, tell_faults
from .._event.selection import NO_DOCUMENT, Selection, check_words, keys, select_events, words
from .._event.sentences import summarize
from .._imds.client import ImdsClient
from .._imds.fetch import fetch_with_options, now_utc

ReadMarks = Callable[[], "list[dict[str, Any]]"]


def get_info(
    params: Mapping[str, Any],
    client: ImdsClient,
    warn: Callable[[str], None],
    boot_id: str | None,
    read_marks: ReadMarks | None = None,
) -> dict[str, Any]:
    """Return the selected events, and the other values that the module documents.

    :param params: the module's options.
    :param warn: is called with each warning, also where an error follows.
    :param boot_id: names the current boot of the VM, None where it has no name.
    :param read_marks: returns the marks on the VM; None where nobody can read them.
    :raises ImdsError: there was no usable answer.
    :raises ValueError: an option is wrong, or the name of this VM is needed and not known.
    """
    if params["due_within"] is not None and params["due_within"] < 0:
        raise ValueError(f"due_within must be 0 seconds or more, not {params['due_within']}.")
    check_words(params)
    # Before the document: another run may write a mark meanwhile, for an event that this document does not list yet.
    # The event of that mark would be taken for ended.
    read = None if read_marks is None else read_marks()
    found = fetch_with_options(params, client, warn)
    only_for = None
    if params["scope"] == "this_vm":
        only_for = found.require_name()
    now, identity = now_utc(), found.identity
    if found.document is None:
        warn(NO_DOCUMENT)
        events, message = [], NO_DOCUMENT
    else:
        events = select_events(found.document, _read_selection(params), now, only_for)
        message = summarize(events, found.document, now, identity.name)
    marks = None
    if read is not None:
        marks, faults = select_marks(read, identity.vm_id)
        for warning in tell_faults(faults):
            warn(warning)
    return {
        "changed": False,
        "events": [event.to_dict(now, identity.name) for event in events],
        "document_received": found.document_received,
        "document_is_clear": found.document is not None and found.document.is_clear,
        "document_incarnation": found.document.incarnation if found.document else None,
        "resource_name": identity.name,
        "vm_id": identity.vm_id,
        "resource_id": identity.resource_id,
        "boot_id": boot_id,
        "marks": marks,
        "endpoint": found.client.endpoint,
        "api_version": found.client.api_version,
        "msg": message,
    }


def _read_selection(params: Mapping[str, Any]) -> Selection:
    wanted = {
        name: keys(words(params[name])) for name in ("event_ids", "event_types", "event_statuses", "event_sources")
    }
    return Selection(due_within=params["due_within"], **wanted)
