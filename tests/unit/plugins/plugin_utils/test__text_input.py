# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""F2, P14: an answer keeps its text or is refused, as AWX writes it and this ansible-core reads it."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.selection import words
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._run.settings import (
    tell_differences,
    tell_wrong_words,
)
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._text_input import tell_not_text
from ansible_collections.fleetops.azure_maintenance.tests.awx import extra_vars

# What YAML may read as a number, a boolean, a date or a time. Newer releases refuse a whole file with "=" or "<<".
ODD = [
    *("0", "00", "0000", "0123", "01234567", "12345678", "83", "+1", "-1", "0x1f", "0b10", "1_0", "12:30:45"),
    *("1e10", "1e+10", "1.0e+10", ".5", "1.", ".nan", ".inf", "true", "False", "yes", "off", "On", "n"),
    *("2026-11-25", "2026-11-25T10:00:00Z", "[a, b]", "{a: b}", "!x", "&a", "*a", "a: b", "# a", "{{ a }}"),
]
# ansible-core 2.19 and later read these as no answer; a person who writes them means none.
NONE = ["", "~", "null", "Null", "NULL"]
MUST = "event_response_event_ids must be text, not {}. "


@pytest.mark.parametrize("answer", ODD)
def test_f2_p14_an_answer_keeps_its_text_or_is_refused(answer):
    read = extra_vars.load(answer)
    for name in ("event_ids", "event_types", "event_sources"):
        faults = tell_wrong_words({"web-1": {name: read}, "web-2": {name: read}})
        # Azure has only a few types and sources.
        faults = [fault for fault in faults if not isinstance(read, str) or "must be any of" not in fault]
        if answer.startswith("["):
            # A list that is written as text would name other events than its author means.
            assert [fault.partition(",")[0] for fault in faults] == [f"event_response_{name} must be a list"]
            continue
        assert len(faults) == (not isinstance(read, str))
        assert all(fault.startswith(f"event_response_{name} must be text, not the ") for fault in faults)
        if not faults:
            assert words(read) == tuple(word.strip() for word in answer.split(","))
    # One that is refused is no reason to fail in other words.
    assert tell_differences({"web-1": {"event_ids": read}, "web-2": {"event_ids": read}}) == []


@pytest.mark.parametrize("answer", ODD)
def test_f2_a_comma_keeps_each_text(answer):
    read = extra_vars.load(f"{answer},")
    assert tell_not_text("target", read) == []
    assert words(read) == tuple(word.strip() for word in answer.split(","))


@pytest.mark.parametrize("answer", NONE)
def test_f2_no_answer_is_not_given(answer):
    read = extra_vars.load(answer)
    assert tell_wrong_words({"web-1": {"event_ids": read}}) == []
    assert words(read) == ((read,) if read else ())


@pytest.mark.parametrize("value", [None, "", [], (), "0123", ["0123", "83"], ("a",)])
def test_text_and_no_text_at_all_are_taken(value):
    assert tell_not_text("event_response_event_ids", value) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (83, "the number 83"),
        (0, "the number 0"),
        (1.5, "the number 1.5"),
        (False, "the boolean false"),
        (datetime.date(2026, 11, 25), "the date 2026-11-25"),
        (datetime.datetime(2026, 11, 25, 10), "the date 2026-11-25 10:00:00"),
        (["a", 83], "the number 83"),
        ([None], "null"),
        ({"a": "b\n"}, "{'a': 'b\\n'}"),
    ],
)
def test_what_is_no_text_is_refused_and_the_sentence_says_how_to_write_it(value, shown):
    (fault,) = tell_not_text("event_response_event_ids", value)
    assert fault.startswith(MUST.format(shown))
    assert fault.endswith("In AWX, write a comma after it (0123,). In YAML, put it in quotes.")
