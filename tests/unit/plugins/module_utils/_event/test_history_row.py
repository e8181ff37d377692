# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the times of an event tell, who approved it, and which rows of a history can be read."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import EVENT_TYPES
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.history_row import (
    DOCUMENTED_NOTICE,
    ROW,
    Course,
    approved_by,
    complaint,
    course_of,
    find_course,
    is_shorter,
    known_type,
    read_seconds,
)

SOUND = {
    **dict.fromkeys(ROW),
    "event_id": "A1",
    "first_seen_at": "2026-11-21T10:00:00Z",
    "failed_responses": [],
    "late": False,
    "simulated": False,
}


@pytest.mark.parametrize(
    ("seen", "not_before", "approved", "started", "ended", "expected"),
    [
        pytest.param(0, 900, 60, 65, 300, Course(900, 5, 235, False), id="prepared, approved, over"),
        pytest.param(0, 900, None, 905, 1200, Course(900, None, 295, False), id="nobody approved it"),
        pytest.param(0, 900, None, None, 100, Course(900, None, None, False), id="withdrawn"),
        pytest.param(0, None, None, None, None, Course(None, None, None, False), id="announced without a time"),
        pytest.param(0, None, None, 0, 240, Course(0, None, 240, False), id="straight to started"),
        pytest.param(0, None, None, 40, 240, Course(None, None, 200, False), id="E4 announced without a time"),
        pytest.param(0, None, 2, 5, 240, Course(None, 3, 235, False), id="E4 approved, and its time is lost"),
        pytest.param(0, -10, None, None, 20, Course(None, None, None, True), id="first seen after its NotBefore"),
        pytest.param(0, 900, 60, -3600, -3500, Course(900, None, 100, True), id="the clock was set back"),
        pytest.param(0, 900, 60, 65, 5, Course(900, 5, None, True), id="ended before it started"),
        pytest.param(0, 900, None, None, -5, Course(900, None, None, True), id="ended before it was seen"),
    ],
)
def test_what_the_times_tell(seen, not_before, approved, started, ended, expected):
    assert find_course(seen, not_before, approved, started, ended) == expected


@pytest.mark.parametrize(
    ("by_checker", "started", "not_before", "expected"),
    [
        (True, 65.0, 900.0, "checker"),
        (True, None, None, "checker"),
        (False, 65.0, 900.0, "other"),
        (False, 889.0, 900.0, "other"),
        # The clocks of Azure and of the VM may differ by so much.
        (False, 895.0, 900.0, None),
        (False, 905.0, 900.0, None),
        (False, 65.0, None, None),
        (False, None, 900.0, None),
    ],
)
def test_who_approved_an_event(by_checker, started, not_before, expected):
    assert approved_by(by_checker, started, not_before) == expected


@pytest.mark.parametrize(
    ("event_type", "notice", "expected"),
    [
        ("Reboot", 900, False),
        ("reboot", 811, False),
        ("Reboot", 809, True),
        ("Preempt", 30, False),
        ("Preempt", 10, True),
        ("Terminate", 300, False),
        ("Terminate", 200, True),
        ("Hibernate", 1, False),
        (None, 1, False),
    ],
)
def test_a_notice_that_is_shorter_than_documented(event_type, notice, expected):
    assert is_shorter(event_type, notice) is expected


def test_a_notice_is_documented_for_every_type():
    assert set(DOCUMENTED_NOTICE) == set(EVENT_TYPES)
    assert [known_type(name) for name in ("FREEZE", "Hibernate", "", None)] == ["Freeze", None, None, None]


def test_a_sound_row():
    assert complaint(SOUND) is None
    assert course_of({**SOUND, "not_before_first": "2026-11-21T10:15:00Z"}).notice == 900
    assert complaint({**SOUND, "added_by_a_later_version": [1]}) is None


@pytest.mark.parametrize("value", [None, [], "row", 7])
def test_what_is_no_row(value):
    assert complaint(value) == "it is not a dictionary"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("event_id", 7),
        ("event_type", ["Reboot"]),
        ("first_seen_at", "yesterday"),
        ("ended_at", 1763719200),
        ("started_at", "2026-11-21T10:00:00+01"),
        ("resources_count", -1),
        ("duration_seconds", True),
        ("prepare_seconds", 10**13),
        ("failed_responses", "announced"),
        ("failed_responses", [1]),
        ("late", None),
        ("simulated", 0),
    ],
)
def test_a_field_that_cannot_be_read(name, value):
    assert complaint({**SOUND, name: value}) == f"{name} is missing or cannot be read"


@pytest.mark.parametrize("name", ROW)
def test_a_field_that_is_missing(name):
    assert complaint({key: value for key, value in SOUND.items() if key != name}) is not None


@pytest.mark.parametrize("name", ["event_id", "first_seen_at"])
def test_a_row_must_tell_which_event_was_seen_when(name):
    assert complaint({**SOUND, name: None}) == "it does not tell which event was seen when"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("0999-01-01T00:00:00Z", -30641760000.0),
        ("2026-11-21T10:00:00", None),
        ("2026-11-21 10:00:00+00:00", None),
        ("2026-11-21\u202e10:00:00Z", None),
        ("2026-13-41T10:00:00Z", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_times_as_text(text, expected):
    assert read_seconds(text) == expected
