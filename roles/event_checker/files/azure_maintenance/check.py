# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Poll IMDS until the next check is due, and start what is due. Nothing that may hang is run here."""

from __future__ import annotations

import sqlite3
from typing import Any, Callable

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._document import (
    Document,
    decode_document,
    parse_document,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import ImdsError
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._fetch import NoResourceNameError, fetch
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import ImdsClient
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds_transport import Deadline

from .config import Config, ConfigError
from .database import cannot_be_written
from .report import Publisher
from .store import RETENTION, Store
from .system import ERROR, Clock, Folders, is_running, say, warn
from .tracker import due_responses, may_resume, record_document

# The metadata service answers within 10 s once the feature is on (the IMDS team in go-autorest, issue 660).
_USUAL_ANSWER = 10.0
# A Preempt is announced 30 s ahead, so a fault must not silence us for long.
_LONGEST_PAUSE = 5.0
# A unit that was started needs a moment to take its lock.
_RESTART_AFTER = 5.0

OpenStore = Callable[[bool], Store]
StartUnit = Callable[[int], "str | None"]


class Checker:
    """One activation of the check.

    :param open_store: opens the state, or its stand-in where it is told that the disk cannot be written.
    :param start_unit: starts the unit of a response; returns why that failed, or None.
    """

    def __init__(
        self, config: Config, folders: Folders, clock: Clock, open_store: OpenStore, start_unit: StartUnit
    ) -> None:
        self._config = config
        self._folders = folders
        self._clock = clock
        self._open_store = open_store
        self._start_unit = start_unit
        self._store = open_store(False)
        self._publisher = Publisher(config.metrics_dir, folders)
        self._client: ImdsClient | None = None
        self._name = ""
        self._body: bytes | None = None
        self._answered = False
        self._failures = 0
        self._retry_after = 0.0
        self._polls: dict[str, Any] = {"count": 0, "errors": {}, "last_answer_at": None, "last_error": None}
        self._polls.update(self._store.facts().get("polls", {}))
        self._polls_changed = False
        self._started: dict[int, float] = {}
        self._complaints: set[str] = set()

    def run(self, once: bool) -> bool:
        """Poll until the next check is due, and tell whether the last poll was answered."""
        begun = self._clock.now().uptime
        self._guarded(self._forget)
        last = False
        while not last:
            poll_begun = self._clock.now().uptime
            self._round()
            following = poll_begun + self._pause()
            end = begun + self._config.timer_interval
            last = once or following > end - self._config.poll_interval / 2
            self._guarded(self._tell_all if last else self._tell)
            if last:
                # The next check begins a poll interval after this one: not while Azure has asked for quiet.
                following = min(following, end) - self._config.poll_interval
            if not once:
                self._clock.sleep(max(0.0, following - self._clock.now().uptime))
        self._store.close()
        return self._failures == 0

    def _round(self) -> None:
        """Poll once, and start what is due."""
        document = self._poll()
        if document is not None:
            found = document
            self._guarded(lambda: self._record(found))
        self._guarded(self._start_due)

    def _pause(self) -> float:
        """Return the seconds from this poll to the next."""
        if not self._failures:
            return self._config.poll_interval
        growing = min(self._config.poll_interval * 2.0 ** min(self._failures - 1, 10), _LONGEST_PAUSE)
        return max(growing, self._config.poll_interval, self._retry_after)

    def _tell(self) -> None:
        """Write down how the polling goes, and what others read, where that has changed."""
        if self._polls_changed:
            with self._store.transaction():
                self._store.set_facts({"polls": self._polls})
            self._polls_changed = False
        self._publisher.publish(self._store, self._clock.now())

    def _tell_all(self) -> None:
        """Do the same before the end, when the number of polls is worth telling."""
        self._polls_changed = True
        self._tell()

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something with the state and, if its file fails, do it again with what takes its place."""
        try:
            action()
        except sqlite3.DatabaseError as error:
            say(f"The state failed: {error}.", ERROR)
            self._store.close()
            self._store = self._open_store(cannot_be_written(error))
            # The replacement database may lack this document and the VM's name; process both again.
            self._body = None
            if self._name:
                self._remember_name()
            action()

    def _poll(self) -> Document | None:
        """Ask for the document; None where there is nothing new to write down."""
        self._polls["count"] += 1
        try:
            document = self._ask()
        except ImdsError as error:
            self._client = None
            self._fail(error.reason, str(error))
            self._retry_after = error.retry_after or 0.0
            return None
        if self._failures:
            say(f"Azure answers again, after {self._failures} polls that failed.")
        if self._failures or not self._answered:
            self._failures, self._retry_after, self._answered = 0, 0.0, True
            self._polls.update(last_error=None)
            self._polls_changed = True
        self._polls["last_answer_at"] = self._clock.now().at
        return document

    def _ask(self) -> Document | None:
        """:raises ImdsError: there was no usable answer."""
        # Azure holds the first answer up to two minutes while it switches the feature on, but what is due cannot wait.
        patient = not self._answered and not self._store.unfinished_responses()
        seconds = self._config.timeout if patient else min(_USUAL_ANSWER, self._config.timeout)
        if self._client is None:
            client = self._config.client(retries=False, timeout=seconds)
            find = None
            if self._config.discover_endpoint:
                from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _dhcp_lease

                find = _dhcp_lease.find_endpoint_addresses
            found = fetch(client, self._config.resource_name or self._known_name(), find)
            for warning in found.warnings:
                warn(warning)
            try:
                name = found.require_name()
            except NoResourceNameError as error:
                raise ConfigError(f"{error} The role's variable is event_checker_resource_name.") from error
            self._client, self._name = found.client, name
            if self._name != self._known_name():
                self._guarded(self._remember_name)
            return found.document
        body = self._client.get_document(Deadline(seconds))
        if body == self._body:
            return None
        content = decode_document(body)
        document = None if content is None else parse_document(content, self._client.api_version)
        for warning in document.warnings if document else ():
            warn(warning)
        self._body = body
        return document

    def _fail(self, reason: str, message: str) -> None:
        errors = self._polls["errors"]
        errors[reason] = errors.get(reason, 0) + 1
        known = self._polls["last_error"]
        self._failures += 1
        if self._failures == 1 or known is None or known["reason"] != reason:
            warn(f"Azure could not be asked: {message}")
            self._polls["last_error"] = {"reason": reason, "message": message, "at": self._clock.now().at}
            self._polls_changed = True

    def _known_name(self) -> str | None:
        known = self._store.facts().get("resource_name", {})
        return known["name"] if known == {"name": known.get("name"), **self._origin_of_name()} else None

    def _origin_of_name(self) -> dict[str, str | None]:
        """Return what a name holds for: it is another on another VM with a copy of this disk, or from a simulator."""
        return {
            "boot_id": self._clock.now().boot_id,
            "endpoint": self._config.endpoint,
            "configured": self._config.resource_name,
        }

    def _remember_name(self) -> None:
        with self._store.transaction():
            self._store.set_facts({"resource_name": {"name": self._name, **self._origin_of_name()}})

    def _forget(self) -> None:
        with self._store.transaction():
            self._store.forget_ended_before(self._clock.now().at - RETENTION)

    def _record(self, document: Document) -> None:
        for line in record_document(self._store, self._config.rules, document, self._clock.now(), self._name):
            say(line)

    def _start_due(self) -> None:
        now = self._clock.now()
        for response in due_responses(self._store, now):
            last = self._started.get(response.number)
            if last is not None and now.uptime - last < _RESTART_AFTER:
                continue
            if not may_resume(response, now, self._answered) or is_running(self._folders, response.number):
                continue
            self._started[response.number] = now.uptime
            failure = self._start_unit(response.number)
            if failure and failure not in self._complaints:
                self._complaints.add(failure)
                say(failure, ERROR)
