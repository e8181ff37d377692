# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which rule answers an event, and which steps it asks for."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    rules as rules_module,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.rules import (
    RuleError,
    find_rule,
    steps_for,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.roles.event_checker.conftest import (
    NOW,
    make_event,
    make_rule,
)

pytestmark = pytest.mark.filterwarnings("error")

ONE, TWO = {"command": ["one"]}, {"command": ["two"]}
APPROVE = {"approve": True}


def matches(match: dict[str, Any], **event: Any) -> bool:
    return (
        find_rule([make_rule(**({"match": match} if match else {}))], make_event(**event), NOW, "web-1")[0] is not None
    )


# The conditions of a rule, the event, and whether they match.
CONDITIONS = [
    pytest.param({}, {}, True, id="no condition"),
    pytest.param({"event_types": ["Freeze", "Reboot"]}, {}, True, id="one of the types"),
    pytest.param({"event_types": ["Freeze"]}, {}, False, id="none of the types"),
    pytest.param({"event_types": ["REBOOT"]}, {}, True, id="S10 the type in capitals"),
    pytest.param({"event_types": ["Reboot"]}, {"event_type": "rEBOOT"}, True, id="S10 Azure's spelling is odd"),
    pytest.param({"event_types": ["Reboot"]}, {"event_type": None}, False, id="no type"),
    pytest.param({"event_types": ["Reboot"]}, {"event_type": "Hibernate"}, False, id="an unknown type"),
    pytest.param({}, {"event_type": "Hibernate"}, True, id="an unknown type, and no condition"),
    pytest.param({"event_sources": ["platform"]}, {}, True, id="the source"),
    pytest.param({"event_sources": ["User"]}, {}, False, id="another source"),
    pytest.param({"event_sources": ["User"]}, {"event_source": None}, False, id="S13 a version without source"),
    pytest.param({"event_types": ["Reboot"], "event_sources": ["User"]}, {}, False, id="all conditions must be met"),
    pytest.param({"max_duration": 10}, {"duration_seconds": 10}, True, id="as long as allowed"),
    pytest.param({"max_duration": 10}, {"duration_seconds": 11}, False, id="longer than allowed"),
    pytest.param({"max_duration": 0}, {"duration_seconds": 0}, True, id="no pause at all"),
    pytest.param({"min_duration": 10}, {"duration_seconds": 10}, True, id="as long as asked for"),
    pytest.param({"min_duration": 10.5}, {"duration_seconds": 10}, False, id="shorter than asked for"),
    pytest.param({"min_duration": 5, "max_duration": 9}, {"duration_seconds": 7}, True, id="between the two"),
    pytest.param({"max_duration": 604800}, {"duration_seconds": None}, False, id="an unknown length is not short"),
    pytest.param({"min_duration": 0}, {"duration_seconds": None}, False, id="an unknown length is not long"),
    pytest.param({"description": "under\\w+ main"}, {}, True, id="a regular expression is searched for"),
    pytest.param({"description": "^maintenance"}, {}, False, id="a regular expression that is not found"),
    pytest.param({"description": "(?i)HOST"}, {}, True, id="a regular expression with a flag"),
    pytest.param({"description": "x"}, {"description": None}, False, id="no description"),
    pytest.param({"description": "^$"}, {"description": None}, True, id="no description is an empty one"),
    pytest.param({"description": "b"}, {"description": "a\nb"}, True, id="a description of two lines"),
    pytest.param({}, {"resources": ()}, False, id="it names no VM"),
    pytest.param({}, {"event_status": "Started", "not_before": None, "not_before_raw": ""}, True, id="it has started"),
]


@pytest.mark.parametrize(("match", "event", "expected"), CONDITIONS)
def test_the_conditions_of_a_rule(match, event, expected):
    assert matches(match, **event) is expected


QUERIES = [
    pytest.param("event_type == 'Reboot'", True, id="a comparison"),
    pytest.param("seconds_until_start <= `900`", True, id="the time that is left"),
    pytest.param("seconds_until_start < `900`", False, id="less time than is left"),
    pytest.param("is_leader && affects_this_vm", True, id="this VM"),
    pytest.param("resources[?@ == 'web-2']", False, id="an empty list is no match"),
    pytest.param("description", True, id="a text is a match"),
    pytest.param("duration_seconds", False, id="null is no match"),
    pytest.param("nosuch.key", False, id="what is not there is no match"),
    pytest.param("contains(description, 'Host')", True, id="a function"),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_a_query_sees_the_event_as_users_do(query, expected):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    assert matches({"query": query}) is expected


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("contains(event_source, 'x')", id="of the wrong type"),
        pytest.param("seconds_until_start < 'soon'", id="a comparison that Python refuses"),
        pytest.param("resources[::0]", id="a slice that Python refuses"),
        pytest.param("nosuch(@)", id="an unknown function"),
        pytest.param("length(@, @)", id="too many arguments"),
    ],
)
def test_a_query_that_fails_on_an_event_is_told_and_no_later_rule_is_asked(query):
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    rules = [make_rule("Odd\x1b[31m", match={"query": query}), make_rule("Later")]
    with pytest.raises(RuleError) as caught:
        find_rule(rules, make_event(event_source=None), NOW, "web-1")
    assert str(caught.value).startswith(r'the query of rule "Odd\u001b[31m" failed (')
    assert str(caught.value).isprintable()


def test_what_the_event_says_is_escaped_in_the_error():
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    with pytest.raises(RuleError) as caught:
        find_rule([make_rule(match={"query": "abs(description)"})], make_event(description="\x1b]0;x"), NOW, "web-1")
    assert str(caught.value).isprintable()


def test_the_first_rule_that_matches_wins():
    rules = [
        make_rule("Freezes", match={"event_types": ["Freeze"]}),
        make_rule("Reboots", match={"event_types": ["Reboot"]}),
        make_rule("Everything"),
        make_rule("Reboots again", match={"event_types": ["Reboot"]}),
    ]
    for kind, name in (("Freeze", "Freezes"), ("Reboot", "Reboots"), ("Preempt", "Everything")):
        assert find_rule(rules, make_event(event_type=kind), NOW, "web-1")[0].name == name


def test_a_failing_query_after_the_rule_that_matches_is_not_asked():
    pytest.importorskip("jmespath", reason="not part of a target's Python")
    rules = [make_rule("First"), make_rule("Odd", match={"query": "nosuch(@)"})]
    assert find_rule(rules, make_event(), NOW, "web-1")[0].name == "First"


def test_a2_an_expression_that_never_answers_does_not_match_and_the_next_rule_is_asked(monkeypatch):
    monkeypatch.setattr(rules_module, "MATCH_LIMIT", 0.2)
    monkeypatch.setattr(rules_module, "_spent", {})
    text = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
    rules = [make_rule("Live", match={"description": r"^(\w+\s?)+[.]?$"}), make_rule("Everything")]
    handler, begun = signal.getsignal(signal.SIGALRM), time.monotonic()
    around, _interval = signal.getitimer(signal.ITIMER_REAL)
    for _event in range(50):
        rule, said = find_rule(rules, make_event(description=text), NOW, "web-1")
        assert rule.name == "Everything"
        assert said == [
            "rule Live does not match: its description or query took more than 0.2 s, "
            "or those of all rules more than 3 s"
        ]
    # A flood of events keeps nobody from polling: it is tried once.
    assert time.monotonic() - begun < 5
    assert around - 30 < signal.getitimer(signal.ITIMER_REAL)[0] <= around
    assert signal.getsignal(signal.SIGALRM) is handler


def test_p8_many_slow_rules_and_many_events_keep_the_check_from_polling_for_some_seconds_at_most(monkeypatch):
    monkeypatch.setattr(rules_module, "MATCH_LIMIT", 0.2)
    monkeypatch.setattr(rules_module, "_ALL_LIMIT", 0.5)
    monkeypatch.setattr(rules_module, "_spent", {})
    slow = [make_rule(f"Slow {number}", match={"description": r"^(\w+\s?)+[.]?$"}) for number in range(20)]
    begun = time.monotonic()
    # Alone, each event takes less than the limit.
    for length in (18, 18, 18, 18, 40):
        rule, said = find_rule([*slow, make_rule("Last")], make_event(description="a" * length + "!"), NOW, "web-1")
        assert rule.name == "Last"
    assert time.monotonic() - begun < 3
    assert len(said) == 20


def test_a2_a_query_that_never_answers_is_no_failed_query(monkeypatch):
    jmespath = pytest.importorskip("jmespath", reason="not part of a target's Python")
    monkeypatch.setattr(rules_module, "MATCH_LIMIT", 0.2)
    monkeypatch.setattr(rules_module, "_spent", {})
    monkeypatch.setattr(jmespath, "search", lambda *_all: time.sleep(600))
    rule, said = find_rule([make_rule("Slow", match={"query": "length(resources)"})], make_event(), NOW, "web-1")
    assert rule is None
    assert len(said) == 1


def test_without_a_rule_that_matches_there_is_none():
    assert find_rule([], make_event(), NOW, "web-1")[0] is None
    assert find_rule([make_rule(match={"event_types": ["Freeze"]})], make_event(), NOW, "web-1")[0] is None


@pytest.mark.parametrize(
    ("approve", "expected"),
    [("never", [ONE, TWO]), ("when_ready", [ONE, TWO, APPROVE]), ("at_once", [APPROVE, ONE, TWO])],
)
def test_the_approval_is_a_step_before_or_after_the_others(approve, expected):
    rule = make_rule(approve=approve, on_announced=[ONE, TWO], on_started=[TWO], on_ended=[ONE])
    assert steps_for(rule, "announced") == expected
    assert steps_for(rule, "started") == [TWO]
    assert steps_for(rule, "ended") == [ONE]


def test_a_rule_may_approve_and_do_nothing_else():
    assert steps_for(make_rule(approve="when_ready"), "announced") == [APPROVE]
    assert steps_for(make_rule(), "announced") == []
