# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Ask Azure Resource Graph, page by page."""

from __future__ import annotations

from itertools import chain
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from ...module_utils._event.parser import Warnings
from .arm import Answer, ArmClient, read_quota_reset
from .errors import MALFORMED, AzureError
from .events import OutsideEvent, merge, read_health, read_row

_PATH, _API_VERSION = "/providers/Microsoft.ResourceGraph/resources", "2021-03-01"
# Pages need an order that lasts, and the column id.
_EVENTS = """maintenanceresources
| where type =~ "microsoft.maintenance/scheduledevents"
| project id, name, location, properties
| order by id asc"""
_HEALTH = """healthresources
| where type =~ "microsoft.resourcehealth/resourceannotations"
| project id, name, properties
| order by id asc"""

_PAGE = 1000
# Azure refuses 300.
_MOST_SUBSCRIPTIONS = 299
_MOST_ROWS = 200_000


class Scope(NamedTuple):
    """The subscriptions or management groups of a question; one of them is empty."""

    subscriptions: tuple[str, ...] = ()
    management_groups: tuple[str, ...] = ()

    def requests(self) -> Iterator[dict[str, Any]]:
        """Return the fields of the scope for each request that is needed."""
        if self.management_groups:
            yield {"managementGroups": list(self.management_groups)}
        for first in range(0, len(self.subscriptions), _MOST_SUBSCRIPTIONS):
            yield {"subscriptions": list(self.subscriptions[first : first + _MOST_SUBSCRIPTIONS])}


class Found(NamedTuple):
    """The events of Resource Graph.

    :ivar is_complete: it gave all its rows, and each could be read, so no event is missing.
    """

    events: list[OutsideEvent]
    is_complete: bool

    def find(self, event_key: str) -> OutsideEvent | None:
        return next((each for each in self.events if each.event.key == event_key), None)


def ask_events(client: ArmClient, scope: Scope, warn: Callable[[str], None]) -> Found:
    """Return all events of a scope.

    :raises AzureError: there was no usable answer.
    """
    pages = _Pages(client)
    warnings = Warnings()
    found = []
    for number, row in enumerate(chain.from_iterable(pages.ask(_EVENTS, scope)), start=1):
        event = read_row(row, number, warnings.add)
        if event is None:
            pages.is_complete = False
        else:
            found.append(event)
    for warning in (*warnings.sentences(), *pages.warnings):
        warn(warning)
    return Found(merge(found), pages.is_complete)


def ask_health(client: ArmClient, scope: Scope) -> Mapping[str, list[dict[str, Any]]]:
    """Return Azure's notes on the health of each VM, by the key of its id, the latest first.

    :raises AzureError: there was no usable answer.
    """
    by_vm: dict[str, list[dict[str, Any]]] = {}
    for row in chain.from_iterable(_Pages(client).ask(_HEALTH, scope)):
        told = read_health(row)
        if told is not None:
            by_vm.setdefault(told[0], []).append(told[1])
    for each in by_vm.values():
        each.sort(key=lambda said: said["occurred_at"] or "", reverse=True)
    return by_vm


class _Pages:
    """The pages of a query, and whether they have all rows.

    :ivar warnings: why they are not.
    """

    def __init__(self, client: ArmClient) -> None:
        self._client = client
        self.is_complete = True
        self.warnings: list[str] = []

    def ask(self, query: str, scope: Scope) -> Iterator[Sequence[Any]]:
        count = 0
        for part in scope.requests():
            token: str | None = None
            seen: set[str] = set()
            while True:
                answer = self._ask_page(query, part, token)
                rows, token = self._read_page(answer)
                yield rows
                count += len(rows)
                if token is None:
                    break
                if token in seen:
                    raise AzureError("Azure Resource Graph gave one page twice. Ask again.", MALFORMED, 200)
                seen.add(token)
                if count >= _MOST_ROWS:
                    self._note_missing(f"Azure Resource Graph has more than {count} rows. Only these are read.")
                    break
                if answer.headers.get("x-ms-user-quota-remaining", "").strip() == "0":
                    self._client.pause(read_quota_reset(answer.headers))

    def _ask_page(self, query: str, part: Mapping[str, Any], token: str | None) -> Answer:
        options: dict[str, Any] = {"resultFormat": "objectArray", "$top": _PAGE}
        if token is not None:
            options["$skipToken"] = token
        return self._client.send("POST", _PATH, _API_VERSION, {**part, "query": query, "options": options})

    def _read_page(self, answer: Answer) -> tuple[Sequence[Any], str | None]:
        body = answer.body
        rows = body.get("data") if isinstance(body, dict) else None
        if not isinstance(rows, list):
            raise AzureError(
                "Azure Resource Graph answered without a list of rows. Ask again.", MALFORMED, answer.status
            )
        token = body.get("$skipToken")
        token = token if isinstance(token, str) and token else None
        if token is None and str(body.get("resultTruncated")).lower() == "true":
            self._note_missing("Azure Resource Graph left out rows, and does not say how to ask for them.")
        if answer.headers.get("x-ms-tenant-subscription-limit-hit", "").lower() == "true":
            self._note_missing(
                "Azure Resource Graph left out subscriptions, because there are too many in this question."
            )
        return rows, token

    def _note_missing(self, warning: str) -> None:
        self.is_complete = False
        if warning not in self.warnings:
            self.warnings.append(warning)


def scope_of(subscriptions: Sequence[str]) -> Scope:
    """Return the scope of these subscriptions, each once."""
    return Scope(subscriptions=tuple({each.lower(): each for each in subscriptions}.values()))
