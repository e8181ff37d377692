# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release.

"""Ask Azure again and again: how long to wait for an answer, when to ask next, and which answers count.

The checker and the event source share it. Pure but for the client and the clock that it is given.

Facts about Azure are from Microsoft's pages "Azure Instance Metadata Service" and "Scheduled Events for Linux VMs"
(azure-compute-docs) unless another source is named.
"""

from __future__ import annotations

import time
import zlib
from typing import Callable, Iterable, NamedTuple

from .._errors import ImdsError
from .._event.document import Document
from .._event.parser import decode_document, parse_document
from .client import ImdsClient
from .fetch import FindAddresses, fetch_body, fetch_name

# The metadata service answers within 10 s once the feature is on (the IMDS team in go-autorest, issue 660).
USUAL_ANSWER = 10.0
# A Preempt is announced 30 s ahead, so a fault must not silence us for long: 15 s between two requests at most (P8).
LONGEST_PAUSE = 5.0
LONGEST_RETRY_AFTER = 60.0
# Seconds without an answer, after which unclear answers no longer count as uninterrupted.
_INTERRUPTION = 60.0
# A line is not logged again within an hour, and at most so many lines of a kind are logged within an hour.
_LINE_KEPT = 3600.0
_MOST_LINES = 100
_SAID, _POLLS, _EVENTS = range(3)
_KINDS = ("Azure's answers", "polls that failed", "events")

DOCUMENT = "document"
UNCHANGED = "unchanged"
EMPTY = "empty"
FAILED = "failed"


class Answer(NamedTuple):
    """The result of one request.

    :ivar kind: DOCUMENT; UNCHANGED, the same body as that of the last answer that was taken in; EMPTY, a body with
        nothing in it, which is not a document; FAILED.
    :ivar document: the content of a body that is not empty.
    :ivar error: only with FAILED.
    :ivar unclear_seconds: for how long every answer was empty or held an entry that cannot be read; 0 after a clear
        document, a failure or a minute of silence.
    :ivar lines: new lines for the log.
    """

    kind: str
    document: Document | None = None
    error: ImdsError | None = None
    unclear_seconds: float = 0.0
    lines: tuple[str, ...] = ()

    @property
    def heard(self) -> bool:
        """Whether Azure gave a document: neither a failure nor an empty body tells anything of events."""
        return self.document is not None


class Unclear(NamedTuple):
    """A series of unclear answers: when the first and the last of it came, on the clock of the poller."""

    since: float
    last: float


class Poller:
    """Polls one VM's metadata service. The caller takes in each answer, then calls accept().

    :param client: asks once and does not retry.
    :param poll_interval: seconds from one request to the next while all is well.
    :param resource_name: the name of this VM, None where the metadata service must be asked for it.
    :param answered: whether the service has answered in this boot before. Azure holds the first answer up to two
        minutes while it switches the feature on; later a request that long would only leave the VM unobserved.
    :param unclear: the series of unclear answers so far, on the same clock.
    :param logged: the lines of the last hour: the kind and a checksum of each, and its time on the same clock.
    :param find_addresses: where to look for another endpoint when the client's does not answer; None does not look.
    :param monotonic: a clock in seconds that nobody can set.
    :param check_name: raises ImdsError for a name that the caller cannot use; it is asked for again then.
    :param vm_id: the vmId that came with the name, None where nobody asked.
    """

    def __init__(
        self,
        client: ImdsClient,
        poll_interval: float,
        resource_name: str | None = None,
        answered: bool = False,
        unclear: Unclear | None = None,
        logged: dict[int, float] | None = None,
        find_addresses: FindAddresses | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        check_name: Callable[[str], None] | None = None,
        vm_id: str | None = None,
    ) -> None:
        self._base = self._client = client
        self._poll_interval = poll_interval
        self._find_addresses = find_addresses
        self._monotonic = monotonic
        self._check_name = check_name
        self.resource_name = resource_name
        self.vm_id = vm_id
        self.answered = answered
        self.unclear = unclear
        self.failures = 0
        self._failure_logged = False
        self._retry_after = 0.0
        self._body: bytes | None = None
        self._latest: tuple[bytes, Document | None] | None = None
        self.logged = dict(logged or {})

    def poll(self, urgent: bool = False) -> Answer:
        """Ask once.

        :param urgent: something is to be done on this VM that must not wait for a slow first answer.
        """
        patient = not self.answered and not urgent
        try:
            answer = self._ask(self._base.timeout if patient else min(USUAL_ANSWER, self._base.timeout))
        except ImdsError as error:
            return self._fail(error)
        lines = list(answer.lines)
        if self._failure_logged:
            polls = "1 poll" if self.failures == 1 else f"{self.failures} polls"
            lines.insert(0, f"The metadata service answers again, after {polls} that failed.")
        self.failures, self._retry_after, self.answered = 0, 0.0, True
        self._failure_logged = False
        return answer._replace(lines=tuple(lines))

    def accept(self) -> None:
        """Note that the last answer was taken in, so that the same body need not be taken in again."""
        if self._latest is not None:
            self._body = self._latest[0]

    def forget(self) -> None:
        """Let the next answer be taken in, even if it is the same as the last."""
        self._body = None

    @property
    def pause(self) -> float:
        """The seconds from the last request to the next."""
        if not self.failures:
            return self._poll_interval
        growing = min(self._poll_interval * 2.0 ** min(self.failures - 1, 10), LONGEST_PAUSE)
        return max(growing, self._poll_interval, self._retry_after)

    def _ask(self, seconds: float) -> Answer:
        """:raises ImdsError: there was no usable answer."""
        # The name comes first: it decides which events of a document are this VM's.
        if self.resource_name is None:
            self._ask_name(min(USUAL_ANSWER, seconds))
        self._client, body = fetch_body(self._client, self._client.deadline(seconds), self._find_addresses)
        if self._latest is not None and body == self._latest[0]:
            document = self._latest[1]
        else:
            content = decode_document(body)
            document = None if content is None else parse_document(content, self._client.api_version)
            self._latest = (body, document)
        unclear_seconds = self._note_unclear(document is not None and document.is_clear)
        if document is None:
            line = (
                "The metadata service answered with an empty body, which is not a document: nothing is known of events."
            )
            return Answer(EMPTY, None, None, unclear_seconds, self.select_new([line]))
        kind = UNCHANGED if body == self._body else DOCUMENT
        return Answer(kind, document, None, unclear_seconds, self.select_new(document.warnings))

    def _ask_name(self, seconds: float) -> None:
        """:raises ImdsError: there was no usable answer, or it holds no name that can be used."""
        limit = self._client.deadline(seconds)
        self._client, name, vm_id = fetch_name(self._client, limit, self._find_addresses)
        if self._check_name is not None:
            self._check_name(name)
        self.resource_name, self.vm_id = name, vm_id

    def _note_unclear(self, clear: bool) -> float:
        """Return for how many seconds all answers have been unclear."""
        now = self._monotonic()
        if clear:
            self.unclear = None
            return 0.0
        if self.unclear is None or now - self.unclear.last > _INTERRUPTION:
            self.unclear = Unclear(now, now)
        self.unclear = self.unclear._replace(last=now)
        return now - self.unclear.since

    def select_new(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the lines that were not logged lately, so that repeated answers of Azure do not fill the log."""
        return tuple(told for line in lines for told in self._log(line, line, _SAID))

    def limit(self, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the lines about events until there were too many within an hour.

        Each is new, whatever was logged lately.
        """
        now = self._monotonic()
        return tuple(
            told for number, line in enumerate(lines) for told in self._log(line, f"{line} {now} {number}", _EVENTS)
        )

    def _log(self, line: str, text: str, kind: int) -> tuple[str, ...]:
        """Return the line if no line with the same text was logged lately.

        Where there were too many of its kind, return once that further ones are not logged.
        """
        now = self._monotonic()
        self.logged = {key: at for key, at in self.logged.items() if 0 <= now - at < _LINE_KEPT}
        key = _key(text, kind)
        if key not in self.logged and sum(each >> 32 == kind for each in self.logged) >= _MOST_LINES:
            line = f"{_MOST_LINES} lines about {_KINDS[kind]} within an hour. Further ones are not logged."
            key = _key(line, kind)
        if key in self.logged:
            return ()
        self.logged[key] = now
        return (line,)

    def _fail(self, error: ImdsError) -> Answer:
        # Look again for the endpoint that DHCP names.
        self._client = self._base
        self.unclear = None
        self.failures += 1
        self._retry_after = min(error.retry_after or 0.0, LONGEST_RETRY_AFTER)
        # The text of an error page may differ each time.
        text = f"{error.reason} {error.http_status}"
        lines = self._log(f"The metadata service could not be asked: {error}", text, _POLLS)
        self._failure_logged = self._failure_logged or bool(lines)
        return Answer(FAILED, None, error, 0.0, lines)


def _key(text: str, kind: int) -> int:
    return (kind << 32) + zlib.crc32(text.encode("utf-8", "replace"))
