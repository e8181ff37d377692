# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source with a metadata service that is made up: whose name it is, how long it waits, what it remembers."""

from __future__ import annotations

import json
import logging

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import Identity
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._eda import source

EVENT = {"EventId": "A1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["web-1"], "NotBefore": ""}
LISTED = json.dumps({"Events": [EVENT]}).encode()
NOTHING = b'{"Events": []}'


class Service:
    """Answers each question for the name, and for the document, with the next of these; an error is raised."""

    timeout = 150.0
    api_version = "2020-07-01"

    def __init__(self, names, documents):
        self._names, self._documents = list(names), list(documents)
        self.limits = []

    def deadline(self, seconds):
        self.limits.append(seconds)

    def get_identity(self, deadline):
        return Identity(self._next(self._names), "02aab8a4-74ef-476e-8182-f6d2ba4166a6")

    def get_document(self, deadline):
        return self._next(self._documents)

    def _next(self, answers):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def boot(monkeypatch):
    """Lets the VM be in this boot."""

    def be_in(boot_id):
        monkeypatch.setattr(source, "read_boot_id", lambda: boot_id)

    be_in("boot-1/22")
    return be_in


def told(watcher):
    news = watcher.poll()[0]
    watcher.keep()
    return [(each["maintenance_phase"], each["maintenance_outcome"]) for each in news]


@pytest.mark.parametrize("name", ["all:!web", "web 1", "@hosts", "-web", "web,db"])
def test_a_name_that_is_not_a_host_name_is_refused_in_a_sentence_and_asked_again(boot, caplog, name):
    service = Service([name, name, "web-1"], [LISTED])
    watcher = source.Watcher(service, None, 1.0, None)
    with caplog.at_level(logging.WARNING):
        assert [told(watcher) for _time in range(3)] == [[], [], [("announced", None)]]
    first, again = [record.getMessage() for record in caplog.records]
    assert first.endswith(f'The metadata service calls this VM "{name}", which is not a host name.')
    assert again == "The metadata service answers again, after 2 polls that failed."


def test_one_poll_that_failed_is_told_as_one(boot, caplog):
    service = Service(["all:!web", "web-1"], [NOTHING])
    watcher = source.Watcher(service, None, 1.0, None)
    with caplog.at_level(logging.WARNING):
        assert [told(watcher), told(watcher)] == [[], []]
    assert caplog.messages[-1] == "The metadata service answers again, after 1 poll that failed."


def limits_of(tmp_path, documents):
    service = Service([], documents)
    watcher = source.Watcher(service, "web-1", 1.0, str(tmp_path / "state.json"))
    for _document in documents:
        told(watcher)
    watcher.close()
    return service.limits


def test_only_the_first_answer_of_a_boot_is_waited_for_long(boot, tmp_path):
    assert limits_of(tmp_path, [NOTHING, NOTHING]) == [150.0, 10.0]
    assert limits_of(tmp_path, [_errors.NoAnswerError("no answer"), NOTHING]) == [10.0, 10.0]
    boot("boot-2/22")
    assert limits_of(tmp_path, [LISTED]) == [150.0]


def test_what_is_remembered_of_an_event_does_not_wait_long_after_a_boot(boot, tmp_path):
    limits_of(tmp_path, [LISTED])
    boot("boot-2/22")
    assert limits_of(tmp_path, [NOTHING]) == [10.0]


def test_a_system_without_a_boot_id(boot, tmp_path):
    boot(None)
    state = str(tmp_path / "state.json")
    assert told(source.Watcher(Service([], [LISTED]), "web-1", 1.0, state)) == [("announced", None)]
    boot("boot-2/22")
    service = Service([], [NOTHING])
    assert told(source.Watcher(service, "web-1", 1.0, state)) == [("ended", "withdrawn")]


def test_p4_what_is_no_name_costs_no_event_that_is_remembered(boot, tmp_path):
    state = str(tmp_path / "state.json")
    told(source.Watcher(Service([], [LISTED]), "web-1", 1.0, state))
    service = Service([_errors.NoIdentityError("a word"), None, "web-1"], [NOTHING])
    watcher = source.Watcher(service, None, 1.0, state)
    assert [told(watcher) for _time in range(3)] == [[], [], [("ended", "withdrawn")]]


def test_what_came_with_a_copy_of_another_vms_disk_is_forgotten(boot, tmp_path):
    state = tmp_path / "state.json"
    told(source.Watcher(Service([], [LISTED]), "web-1", 1.0, str(state)))
    watcher = source.Watcher(Service(["web-2"], [b"", NOTHING]), None, 1.0, str(state))
    assert [told(watcher), told(watcher)] == [[], []]
    assert json.loads(state.read_text())["Events"] == []


def test_an_end_that_was_not_told_is_told_after_a_restart(boot, tmp_path):
    state = str(tmp_path / "state.json")
    watcher = source.Watcher(Service([], [LISTED, NOTHING]), "web-1", 1.0, state)
    told(watcher)
    assert watcher.poll()[0][0]["maintenance_phase"] == "ended"
    # It is killed before it has told this.
    watcher.close()
    again = source.Watcher(Service([], [NOTHING, NOTHING]), "web-1", 1.0, state)
    assert [told(again), told(again)] == [[("ended", "withdrawn")], []]


def test_an_unclear_first_answer_keeps_what_is_remembered(boot, tmp_path):
    state = str(tmp_path / "state.json")
    told(source.Watcher(Service([], [LISTED]), "web-1", 1.0, state))
    service = Service([], [b"", b'{"Events": [5]}', LISTED, NOTHING])
    watcher = source.Watcher(service, "web-1", 1.0, state)
    assert [told(watcher) for _time in range(4)] == [[], [], [("announced", None)], [("ended", "withdrawn")]]


def test_a_vm_that_could_not_be_read_in_resources_is_still_unknown_after_a_restart(boot, tmp_path):
    state = str(tmp_path / "state.json")
    event = {**EVENT, "Resources": ["web-2", 5]}
    document = json.dumps({"Events": [event]}).encode()
    told(source.Watcher(Service([], [document]), "web-1", 1.0, state))
    (news,), _pause = source.Watcher(Service([], [NOTHING]), "web-1", 1.0, state).poll()
    assert (news["maintenance_phase"], news["maintenance_event"]["affects_this_vm"]) == ("ended", None)


def kinds(watcher):
    news = watcher.poll()[0]
    watcher.keep()
    return [(each["maintenance_phase"], each["maintenance_event"]["event_type"], each["meta"]["uuid"]) for each in news]


def test_e2_an_event_whose_type_or_source_changes_is_told_again(boot, tmp_path):
    state = str(tmp_path / "state.json")
    freeze, same = {**EVENT, "EventType": "Freeze"}, {**EVENT, "EventType": "REBOOT"}
    user, unsaid = {**EVENT, "EventSource": "User"}, {**EVENT, "EventSource": None}
    started = {**EVENT, "EventSource": "User", "EventStatus": "Started"}
    events = [freeze, freeze, EVENT, same, user, unsaid, started]
    documents = [json.dumps({"Events": [event]}).encode() for event in events]
    watcher = source.Watcher(Service([], documents), "web-1", 1.0, state)
    seen = [kinds(watcher) for _document in documents]
    assert [[each[:2] for each in news] for news in seen] == [
        [("announced", "Freeze")],
        [],
        [("announced", "Reboot")],
        [],
        [("announced", "Reboot")],
        [],
        [("started", "Reboot")],
    ]
    uuids = [each[2] for news in seen for each in news]
    assert len(set(uuids)) == len(uuids)
    # After a restart the same is told with the same uuid.
    watcher.close()
    again = source.Watcher(Service([], [documents[-1]]), "web-1", 1.0, state)
    assert kinds(again) == seen[-1]


def test_p9_what_is_remembered_is_bounded_while_no_answer_can_be_read_in_full(boot, tmp_path, caplog, monkeypatch):
    """The oldest that are not listed any more are forgotten, and never one that is listed."""
    monkeypatch.setattr(source, "MOST_UNLISTED", 5)

    def answer(number):
        events = [{**EVENT, "EventId": f"{number}-{each}"} for each in range(3)]
        return json.dumps({"Events": [{**EVENT, "EventId": "STAYS"}, *events, 7]}).encode()

    answers = [answer(number) for number in range(20)]
    watcher = source.Watcher(Service([], [*answers, NOTHING]), "web-1", 1.0, str(tmp_path / "state.json"))
    with caplog.at_level(logging.WARNING):
        for _answer in answers:
            told(watcher)
    kept = [each["EventId"] for each in json.loads((tmp_path / "state.json").read_text())["Events"]]
    assert sorted(kept) == sorted(
        ["17-1", "17-2", *(f"18-{n}" for n in range(3)), "STAYS", *(f"19-{n}" for n in range(3))]
    )
    assert [line for line in caplog.messages if "forgotten" in line] == [
        "More than 5 events are missing from answers that cannot be read in full. The oldest are forgotten, and their "
        "ends are not told."
    ]
    assert len(told(watcher)) == 9


def test_p9_texts_of_an_event_that_is_not_listed_any_more_are_cut_and_its_end_is_told(boot, tmp_path):
    state = tmp_path / "state.json"
    event = {**EVENT, "EventId": "A" * 256, "Description": "x" * 1001}
    service = Service([], [json.dumps({"Events": [event]}).encode(), b'{"Events": [7]}', NOTHING])
    watcher = source.Watcher(service, "web-1", 1.0, str(state))
    kept = []
    for _time in range(2):
        told(watcher)
        (written,) = json.loads(state.read_text())["Events"]
        kept.append((written["EventId"], len(written["Description"])))
    assert kept == [("A" * 256, 1001), ("A" * 256, 1000)]
    (news,), _pause = watcher.poll()
    assert (news["maintenance_phase"], news["maintenance_outcome"]) == ("ended", "withdrawn")
    assert news["maintenance_event"]["description"] == "x" * 1000
    assert news["maintenance_event"]["affects_this_vm"] is True


def listing(*events):
    return json.dumps({"Events": [{**EVENT, "EventId": name, **changes} for name, changes in events]}).encode()


def phases(watcher):
    news = watcher.poll()[0]
    watcher.keep()
    return [(each["maintenance_event"]["event_id"], each["maintenance_phase"]) for each in news]


A, B, C = ("A1", {}), ("B2", {}), ("C3", {})


def test_p3_an_end_is_told_when_no_other_event_is_open_and_all_that_waited_in_the_order_of_their_ends(boot):
    """What restores the VM must not run while it is prepared for another event."""
    answers = [listing(A, B, C), listing(B, C), listing(C), listing(C), listing(C, A), NOTHING]
    watcher = source.Watcher(Service([], answers), "web-1", 1.0, None)
    assert [phases(watcher) for _answer in answers] == [
        [("A1", "announced"), ("B2", "announced"), ("C3", "announced")],
        [],
        [],
        [],
        # Listed again with its id, it has not ended.
        [("A1", "announced")],
        [("B2", "ended"), ("C3", "ended"), ("A1", "ended")],
    ]


def test_p3_an_end_waits_for_an_event_that_the_same_answer_announces(boot):
    watcher = source.Watcher(Service([], [listing(A), listing(B), NOTHING]), "web-1", 1.0, None)
    assert [phases(watcher) for _time in range(3)] == [
        [("A1", "announced")],
        [("B2", "announced")],
        [("A1", "ended"), ("B2", "ended")],
    ]


def test_p3_an_end_does_not_wait_for_a_freeze_but_while_it_lasts(boot):
    """Few prepare for one, and Azure may announce it days before."""
    freeze = ("F4", {"EventType": "Freeze"})
    lasting = ("F4", {"EventType": "freeze", "EventStatus": "Started"})
    answers = [listing(A, B, freeze), listing(B, freeze), listing(freeze), listing(C, lasting), listing(lasting)]
    watcher = source.Watcher(Service([], [*answers, NOTHING]), "web-1", 1.0, None)
    assert [phases(watcher) for _time in range(6)][2:] == [
        [("A1", "ended"), ("B2", "ended")],
        [("C3", "announced"), ("F4", "started")],
        [],
        [("C3", "ended"), ("F4", "ended")],
    ]


def test_p3_an_end_that_waits_outlives_a_restart_with_its_outcome(boot, tmp_path):
    state = str(tmp_path / "state.json")
    watcher = source.Watcher(Service([], [listing(A, B), listing(B)]), "web-1", 1.0, state)
    assert told(watcher) == [("announced", None), ("announced", None)]
    assert told(watcher) == []
    watcher.close()
    boot("boot-2/22")
    again = source.Watcher(Service([], [b"", listing(B), NOTHING, NOTHING]), "web-1", 1.0, state)
    assert [told(again) for _time in range(4)] == [
        [],
        [("announced", None)],
        # A1 was gone before the boot.
        [("ended", "withdrawn"), ("ended", "withdrawn")],
        [],
    ]
    assert json.loads((tmp_path / "state.json").read_text())["Events"] == []


def test_p3_an_end_that_waits_is_not_told_on_a_copy_of_the_disk(boot, tmp_path):
    state = str(tmp_path / "state.json")
    watcher = source.Watcher(Service([], [listing(A, B), listing(B)]), "web-1", 1.0, state)
    told(watcher), told(watcher)
    watcher.close()
    assert told(source.Watcher(Service([], [NOTHING]), "web-2", 1.0, state)) == []


def test_p9_the_ends_that_wait_are_bounded(boot, caplog, monkeypatch):
    monkeypatch.setattr(source, "MOST_UNLISTED", 5)
    answers = [listing(B, *((f"{number}-{each}", {}) for each in range(3))) for number in range(20)]
    watcher = source.Watcher(Service([], [*answers, NOTHING]), "web-1", 1.0, None)
    with caplog.at_level(logging.WARNING):
        for _answer in answers:
            told(watcher)
    assert caplog.messages == [
        "More than 5 events have ended while another one is open. The oldest are forgotten, and their ends are not "
        "told."
    ]
    assert len(told(watcher)) == 5 + 4


def test_an_error_that_nobody_foresaw_does_not_end_the_asking(boot, caplog):
    service = Service([], [RuntimeError("odd"), RuntimeError("odd"), LISTED])
    watcher = source.Watcher(service, "web-1", 1.0, None)
    assert [told(watcher) for _time in range(3)] == [[], [], [("announced", None)]]
    (record,) = caplog.records
    assert record.getMessage() == 'Unexpected error: RuntimeError: "odd". The source goes on asking.'
