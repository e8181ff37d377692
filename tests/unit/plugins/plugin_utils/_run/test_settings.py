# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role event_response is given: by one host for all, and by each host for itself."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import (
    group_input,
    tell_differences,
    tell_max_fail,
    tell_misspelled,
    tell_unknown,
    tell_unknown_in_rehearsal,
    tell_wrong_input,
    tell_wrong_words,
)

SAME = {"approve": True, "wait": True, "wait_timeout": 3600.0, "outside_vms": "refuse", "event_ids": []}
_TIMES = ("prepare_timeout", "restore_timeout", "reconnect_timeout", "wait_timeout", "ask_timeout")
NOT_GIVEN = dict.fromkeys(("prepare", "restore", "due_within", *_TIMES), "")
MUST = "event_response_{} must be the same for all hosts of a run, because one of them decides for all: it is {}. "
MANY_HOSTS = "true for host-0, host-1, host-2 and 2 more, and false for host-5"
MANY_VALUES = "1 for host-0, 2 for host-1, 3 for host-2, and others for 2 more"
DO = "Give all of them the same value, or respond in a run for each value, with another target or --limit."


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        pytest.param("approve", [True, True, True], None, id="the same"),
        pytest.param("approve", [True, "True", "true"], None, id="the same as text"),
        pytest.param("approve", [True, True, False], "true for host-0, host-1, and false for host-2", id="approve"),
        pytest.param("wait", [False, True], "false for host-0, and true for host-1", id="wait"),
        pytest.param("wait_timeout", [60.0, "60", 60], None, id="the same number"),
        pytest.param("wait_timeout", [60, 3600.0], "60 for host-0, and 3600 for host-1", id="wait_timeout"),
        pytest.param("outside_vms", ["refuse", "ignore"], "refuse for host-0, and ignore for host-1", id="outside_vms"),
        pytest.param("event_ids", [["A1", "B2"], "b2, a1\n", ["B2", "A1"]], None, id="the same events"),
        pytest.param("event_ids", [[], "", None], None, id="all events"),
        pytest.param("event_ids", [["A1"], []], "A1 for host-0, and empty for host-1", id="one of them takes all"),
        pytest.param(
            "event_ids", [["b2\n A1"], ["C\t3"]], 'A1 b2 for host-0, and "C\\t3" for host-1', id="events of its own"
        ),
        pytest.param("wait", [True, "yes", "On", "1", 1], None, id="words for the same"),
        pytest.param("wait", ["no", "yes"], "no for host-0, and yes for host-1", id="words for different ones"),
        pytest.param("approve", [True] * 5 + [False], MANY_HOSTS, id="many hosts"),
        pytest.param("wait_timeout", [1, 2, 3, 4, 5], MANY_VALUES, id="many values"),
    ],
)
def test_what_one_host_decides_for_all_must_be_the_same_for_all(name, values, said):
    settings = {f"host-{number}": {**SAME, name: value} for number, value in enumerate(values)}
    assert tell_differences(settings) == ([MUST.format(name, said) + DO] if said else [])


def test_what_a_host_decides_for_itself_may_differ_and_is_looked_at_once():
    web, db = {"prepare": "web.yml", "restore": None}, {"prepare": "db.yml", "restore": None}
    settings = {"web-1": {**SAME, **web}, "db-1": {**SAME, **db}, "web-2": {**SAME, **web}}
    assert tell_differences(settings) == []
    given = {**NOT_GIVEN, "wait_timeout": "3600.0"}
    assert group_input(settings) == [
        ("web-1, web-2: ", {**given, "prepare": "web.yml"}),
        ("db-1: ", {**given, "prepare": "db.yml"}),
    ]


def test_nobody_is_named_where_all_are_given_the_same():
    assert group_input({"web-1": {"due_within": 60}, "web-2": {"due_within": "60"}}) == [
        ("", {**NOT_GIVEN, "due_within": "60"})
    ]


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        # Ansible would limit no task (P15), and the run would wait for nobody who is at work on the VM (P3).
        pytest.param("prepare_timeout", "0", 1, id="no limit for a preparation"),
        pytest.param("restore_timeout", "0", 1, id="no limit for a restore"),
        pytest.param("prepare_timeout", "-1", 1, id="prepare"),
        pytest.param("restore_timeout", "600", None, id="usual"),
        pytest.param("restore_timeout", "100000001", 1, id="more than Ansible takes"),
        pytest.param("reconnect_timeout", "-300", 0, id="reconnect"),
        pytest.param("reconnect_timeout", "0", None, id="no reconnection"),
        pytest.param("wait_timeout", "3600.0", None, id="as YAML may write it"),
        pytest.param("wait_timeout", "0", 1, id="nobody would wait"),
        pytest.param("wait_timeout", "soon", 1, id="no number"),
        pytest.param("wait_timeout", "nan", 1, id="not a number"),
    ],
)
def test_a_time_out_with_which_nobody_could_be_restored_is_refused(name, value, least):
    limits = f"from {least} to 100000000"
    said = f"event_response_{name} must be a whole number of seconds {limits}, not '{value}'."
    assert tell_wrong_input({"prepare": "drain.yml", name: value}) == ([] if least is None else [said])


@pytest.mark.parametrize("percentage", [0.0, 30.0, 99.0, 100.0, None])
def test_p13_a_share_of_failed_hosts_that_would_end_the_play_is_refused(percentage):
    refused = percentage is not None and percentage < 100
    assert len(tell_max_fail(percentage)) == refused
    for fault in tell_max_fail(percentage):
        assert fault.startswith("max_fail_percentage must not be set for the play: ")
        assert fault.endswith(f"It is {percentage:g}. Leave it out.")


@pytest.mark.parametrize(
    ("name", "value", "must"),
    [
        pytest.param("wait", True, None, id="true"),
        pytest.param("wait", "No", None, id="a word for false"),
        pytest.param("approve", 0, None, id="false as a number"),
        pytest.param("wait", "ture", "true or false", id="misspelled"),
        pytest.param("wait", "y", "true or false", id="a word that the filter bool does not know"),
        pytest.param("approve", "", "true or false", id="empty"),
        pytest.param("approve", None, "true or false", id="null"),
        pytest.param("outside_vms", "ignore", None, id="ignore"),
        pytest.param("outside_vms", "Ignore", "refuse or ignore", id="another word"),
        pytest.param("outside_vms", "", "refuse or ignore", id="no word"),
        pytest.param("wait_timeout", 60, None, id="seconds"),
        pytest.param("wait_timeout", None, "a whole number of seconds from 1 to 100000000", id="no time to wait"),
        pytest.param("prepare", None, None, id="it is looked at elsewhere"),
    ],
)
def test_p13_a_value_that_would_be_read_as_another_one_is_refused(name, value, must):
    """Where the play ignores errors, Ansible says so and goes on."""
    text = "" if value is None else value
    said = f"event_response_{name} must be {must}, not '{text}'."
    assert tell_wrong_words({"host-0": {name: value}, "host-1": {name: value}}) == ([said] if must else [])


@pytest.mark.parametrize(("name", "meaning"), [("max_unavailable", "set no limit"), ("group_by", "make no groups")])
def test_p14_a_limit_that_is_null_is_not_taken_for_none(name, meaning):
    """The argument spec of the role takes null for an empty text."""
    said = f"event_response_{name} must be text, not null. Leave it empty to {meaning}."
    assert tell_wrong_words({"host-0": {name: None}}) == [said]
    assert tell_wrong_words({"host-0": {name: ""}}) == []


def test_p13_what_is_not_given_is_not_refused():
    assert tell_wrong_words({"": {}}) == []


def test_p14_a_misspelled_condition_is_refused_because_it_would_select_all():
    assert tell_unknown(["event_response_event_types", "event_response_approve", "target", "approve_x"]) == []
    assert tell_unknown(["event_response_event_type", "event_response_zzz"]) == [
        "event_response_event_type is no variable of the role event_response. Is event_response_event_types meant?",
        "event_response_zzz is no variable of the role event_response.",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["target", "rehearse_prepare", "rehearse_timeout", "prepare", "event_response_prepare"], []),
        (["targets"], ["targets is no variable of the playbook rehearse. Is target meant?"]),
        (["target", "targets"], []),
        (["rehearse_prepar"], ["rehearse_prepar is no variable of the playbook rehearse. Is rehearse_prepare meant?"]),
        (["rehearse_zzz"], ["rehearse_zzz is no variable of the playbook rehearse."]),
    ],
)
def test_p14_a_misspelled_variable_of_a_rehearsal_is_told(given, told):
    assert tell_unknown_in_rehearsal(given) == told


def test_p14_a_misspelled_variable_of_a_host_is_told_and_one_of_its_own_is_not():
    own = ["event_response_owner", "event_response_restore_file", "event_response_event_types", "event_respons"]
    assert tell_misspelled(own) == []
    assert tell_misspelled([*own, "event_response_event_type", "event_response_prepair"]) == [
        "event_response_event_type is no variable of the role event_response. Is event_response_event_types meant?",
        "event_response_prepair is no variable of the role event_response. Is event_response_prepare meant?",
    ]
