# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Show that the campaign can fail: take back one mend after the other, and say which seed finds it after how many
histories.

python tests/campaign/mutants.py [--first 0] [--number 3000] [NAME ...]
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[5]))

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._approval import approve as approvals
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import document as documents
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import lifecycle
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event import parser as document_parser
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import fetch, poller
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance import cli
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    rules as matching,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.poll import check
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    approval,
    decision,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    responder as respond,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.state import store
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.track import (
    situation,
    tracker,
)
from ansible_collections.fleetops.azure_maintenance.tests.campaign import disk
from ansible_collections.fleetops.azure_maintenance.tests.campaign.history import run_history
from ansible_collections.fleetops.azure_maintenance.tests.campaign.patches import patched

Patch = tuple[Any, str, Any]


def _unreadable_record() -> list[Patch]:
    """2: a record that cannot be read stops the checker."""

    def readable(self: Any, sql: str, values: Any, decode: Callable[..., Any]) -> list[Any]:
        return [decode(*row) for row in self.connection.execute(sql, tuple(values))]

    return [(store.Store, "_readable", readable)]


def _restored_while_pending() -> list[Patch]:
    """3: on_ended does not wait for other events."""
    return [(lifecycle, "_why_not_restore", lambda _course, _others: None)]


def _beside_a_run() -> list[Patch]:
    """3: a preparation does not wait while a run puts the VM back."""
    return [(respond, "put_back_until", lambda _marks, _longest: 0.0)]


def _empty_body_is_a_document() -> list[Patch]:
    """4: an empty body counts as a document that lists nothing."""
    real = document_parser.decode_document

    def decode(body: bytes) -> Any:
        return {"Events": []} if not body.strip() else real(body)

    return [(poller, "decode_document", decode), (fetch, "decode_document", decode)]


def _prepared_before_listed() -> list[Patch]:
    """4: after a boot a preparation goes on before a document has listed its event."""
    return [(lifecycle, "_why_not_unlisted", lambda _course: None)]


def _document_before_name() -> list[Patch]:
    """5: the document is read before the name."""
    name, document = fetch.fetch_name, fetch.fetch_document
    kept: list[Any] = []

    def fetch_name(client: Any, deadline: Any, search: Any = None) -> Any:
        kept[:] = [document(client, deadline, search)]
        return name(client, deadline, search)

    def fetch_document(client: Any, deadline: Any, search: Any = None) -> Any:
        return kept.pop() if kept else document(client, deadline, search)

    return [(approval, "fetch_name", fetch_name), (approval, "fetch_document", fetch_document)]


def _post_without_looking() -> list[Patch]:
    """5: a POST is sent again without reading the document anew."""

    def approve(self: Any, ids: Any, _incarnation: Any = None, deadline: Any = None) -> None:
        body = imds.json.dumps({"StartRequests": [{"EventId": each} for each in ids]}).encode()
        self._retries = True
        self._request("POST", self._events_path(), body, deadline)

    return [(imds.ImdsClient, "approve", approve)]


def _approved_after_boot() -> list[Patch]:
    """5: a preparation of an earlier boot is good enough for an approval."""
    return [(decision, "must_prepare_again", lambda *_all: False), (decision, "may_approve", lambda *_all: True)]


def _deaf() -> list[Patch]:
    """6: at the start of each activation a slow answer is waited for."""
    real = poller.Poller.__init__

    def forgetful(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        self.answered = False

    return [(poller.Poller, "__init__", forgetful), (check.Checker, "_has_work", lambda _self: False)]


def _same_id_side_by_side() -> list[Patch]:
    """9: an id that is listed again is prepared for beside what still runs for its earlier event."""
    real = situation.TrackedEvent
    return [(situation, "TrackedEvent", lambda number, _key, *rest: real(number, str(number), *rest))]


def _word_for_a_name() -> list[Patch]:
    """7: a word that comes in the place of Azure's answer is the name of the VM."""
    real = imds.ImdsClient._read_identity

    def read(self: Any, body: bytes) -> Any:
        word = body.decode()
        return imds.Identity(word) if word and imds.is_vm_name(word) else real(self, body)

    return [(imds.ImdsClient, "_read_identity", read)]


def _name_without_id() -> list[Patch]:
    """7: a name counts without a vmId."""
    real = imds.ImdsClient._read_identity

    def read(self: Any, body: bytes) -> Any:
        content = imds._json_object(body.decode())
        return imds.Identity(content["name"]) if content and "name" in content else real(self, body)

    return [(imds.ImdsClient, "_read_identity", read)]


def _any_name() -> list[Patch]:
    """7: any text that Azure answers is taken for the name of the VM."""
    return [(imds, "is_vm_name", lambda _text: True)]


def _no_name_raises() -> list[Patch]:
    """7: where the service has no name, nothing that is due is started."""

    def poll(self: Any) -> None:
        self._real_poll()
        self.mute = self._poller.failures and self._poller.resource_name is None

    def start(self: Any) -> None:
        if not getattr(self, "mute", False):
            self._real_start()

    check.Checker._real_poll = check.Checker._poll  # type: ignore[attr-defined]
    check.Checker._real_start = check.Checker._start_due  # type: ignore[attr-defined]
    return [(check.Checker, "_poll", poll), (check.Checker, "_start_due", start)]


def _side_by_side() -> list[Patch]:
    """9: responses to one event do not wait for each other, as when a retried one was started by hand."""
    real = lifecycle.why_not_now

    def why(response: Any, tracked: Any, others: Any) -> Any:
        alone = tracked._replace(responses=tuple(each for each in tracked.responses if each.number == response.number))
        return real(response, alone, others)

    return [(place, "why_not_now", why) for place in (decision, situation, cli)]


def _unreadable_entry_ends() -> list[Patch]:
    """10: an entry that cannot be read counts as not there."""
    return [(documents.Document, "is_clear", property(lambda _self: True))]


def _no_vm_forever() -> list[Patch]:
    """10: an event that listed no VM when it was first seen gets no rule later either."""
    return [(tracker, "_decide_again", lambda _store, _rules, record, *_rest: (record, []))]


def _left_waiting() -> list[Patch]:
    """An approval that waited for another VM is left to the fleet for good."""
    return [(tracker, "may_approve_alone", lambda *_all: False)]


def _started_beside_restore() -> list[Patch]:
    """D3: on_started does not wait for an on_ended that runs."""
    real = lifecycle.why_not_now

    def why(response: Any, tracked: Any, others: Any) -> Any:
        beside = [other._replace(responses=()) for other in others] if response.phase == lifecycle.STARTED else others
        return real(response, tracked, beside)

    return [(place, "why_not_now", why) for place in (lifecycle, decision, situation)]


def _restored_while_started() -> list[Patch]:
    """D4: on_ended does not wait for an event that has started without a preparation."""
    real = lifecycle._why_not_restore

    def why(tracked: Any, others: Any) -> Any:
        return real(tracked, [other for other in others if other.phase != lifecycle.STARTED or other.prepared])

    return [(lifecycle, "_why_not_restore", why)]


def _no_mark() -> list[Patch]:
    """A VM is taken out of service without a mark."""
    return [(respond, "write_mark", lambda *_all: None)]


def _mark_stays() -> list[Patch]:
    """A mark stays when the VM is back in service."""
    return [(place, "remove_marks_of_restored", lambda *_all: None) for place in (respond, check)]


def _run_overlooked() -> list[Patch]:
    """on_ended does not wait for what a run over the fleet has prepared."""
    return [(place, "read_marked_by_runs", lambda *_all: {}) for place in (decision, check)]


def _started_beside_a_run() -> list[Patch]:
    """3: on_started does not wait while a run puts the VM back."""
    real = respond.Responder._wait_for_runs

    def wait(self: Any, task: Any, seconds: float) -> None:
        if task.response.phase != lifecycle.STARTED:
            real(self, task, seconds)

    return [(respond.Responder, "_wait_for_runs", wait)]


def _endless_expression() -> list[Patch]:
    """A2: an expression has no time limit."""
    return [(matching, "limit", lambda _seconds: contextlib.nullcontext())]


def _failed_query_raises() -> list[Patch]:
    """7: a query that cannot be applied to an event stops the record of every event."""
    return [(tracker, "RuleError", ())]


def _failed_query_is_no() -> list[Patch]:
    """A rule whose query cannot be applied to an event does not match, and the next one is tried."""
    real = matching._matches

    def matches(*arguments: Any) -> bool:
        try:
            return real(*arguments)
        except matching.RuleError:
            return False

    return [(matching, "_matches", matches)]


def _unknown_is_short() -> list[Patch]:
    """An event of unknown length counts as a short one."""
    real = matching._matches

    def matches(rule: Any, event: Any, *rest: Any) -> bool:
        return real(rule, event._replace(duration_seconds=event.duration_seconds or 0), *rest)

    return [(matching, "_matches", matches)]


def _null_is_all() -> list[Patch]:
    """F1: a source that is not known meets a condition on the source."""
    real = matching._matches

    def matches(rule: Any, event: Any, *rest: Any) -> bool:
        known = {**rule.match, **({} if event.event_source else {"event_sources": [""]})}
        return real(rule._replace(match=known if "event_sources" in rule.match else rule.match), event, *rest)

    return [(matching, "_matches", matches)]


def _rule_of_today() -> list[Patch]:
    """An event does not keep its rule: the steps of each phase are those of the rule of that name as it is now."""
    real = matching.steps_for

    def steps_for(rule: Any, phase: str) -> Any:
        rules = disk.world.config.rules
        return real(next((each for each in rules if each.name == rule.name), rule), phase)

    return [(tracker, "steps_for", steps_for)]


def _decided_anew() -> list[Patch]:
    """The rule is looked for anew at each change of an event, whatever was begun for it."""
    return [(store.Store, "was_begun", lambda *_all: False)]


def _unclear_is_gone() -> list[Patch]:
    """B3: an event that cannot be read in the moment of its approval counts as gone."""
    return [(approvals.Approved, "clear", property(lambda _self: True))]


def _refused_is_taken() -> list[Patch]:
    """13: an approval counts as sent when Azure has refused it."""
    real = imds.ImdsClient.approve

    def approve(self: Any, *arguments: Any, **options: Any) -> None:
        with contextlib.suppress(imds.ImdsError):
            real(self, *arguments, **options)

    return [(imds.ImdsClient, "approve", approve)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "2-unreadable-record": _unreadable_record,
    "3-restored-while-pending": _restored_while_pending,
    "3-started-beside-restore": _started_beside_restore,
    "3-restored-while-started": _restored_while_started,
    "3-beside-a-run": _beside_a_run,
    "3-started-beside-a-run": _started_beside_a_run,
    "4-empty-body": _empty_body_is_a_document,
    "4-prepared-before-listed": _prepared_before_listed,
    "5-document-before-name": _document_before_name,
    "5-post-without-looking": _post_without_looking,
    "5-approved-after-boot": _approved_after_boot,
    "6-deaf": _deaf,
    "7-any-name": _any_name,
    "7-no-id": _name_without_id,
    "7-no-name": _no_name_raises,
    "7-word": _word_for_a_name,
    "7-query": _failed_query_raises,
    "8-endless-expression": _endless_expression,
    "9-side-by-side": _side_by_side,
    "9-same-id": _same_id_side_by_side,
    "10-unreadable-entry": _unreadable_entry_ends,
    "10-no-vm": _no_vm_forever,
    "10-left-waiting": _left_waiting,
    "13-refused": _refused_is_taken,
    "13-unclear-is-gone": _unclear_is_gone,
    "16-no-mark": _no_mark,
    "16-mark-stays": _mark_stays,
    "16-run-overlooked": _run_overlooked,
    "rule-decided-anew": _decided_anew,
    "rule-no-source": _null_is_all,
    "rule-of-today": _rule_of_today,
    "rule-query": _failed_query_is_no,
    "rule-unknown-length": _unknown_is_short,
}


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    """Take back a mend for a while."""
    with contextlib.ExitStack() as stack:
        for place, attribute, replacement in MUTANTS[name]():
            stack.enter_context(mock.patch.object(place, attribute, replacement))
        yield


def apply(name: str) -> None:
    """Take back a mend for good."""
    for place, attribute, replacement in MUTANTS[name]():
        setattr(place, attribute, replacement)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=3000, help="how many histories to try")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MUTANTS)}")
    options = parser.parse_args()
    missed = 0
    for name in options.names or MUTANTS:
        begun = time.process_time()
        for seed in range(options.first, options.first + options.number):
            with patched(), mutated(name):
                failure = run_history(seed)[0]
            if failure is None:
                continue
            with patched():
                sound = run_history(seed)[0]
            if sound is None:
                seconds = time.process_time() - begun
                why = failure.why.strip().splitlines()[-1][:110]
                histories = seed - options.first + 1
                print(
                    f"{name}: seed {seed}, after {histories} histories, {seconds:.1f} s: {failure.name}: {why}",
                    flush=True,
                )
                break
        else:
            missed += 1
            print(f"{name}: not found in {options.number} histories", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
