# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of fleet_report and fleet_history: what counts as not given, and what is refused, with the sentence."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._report.settings import (
    PLAYBOOKS,
    read_settings,
    tell_misspelled,
)

SECONDS = "must be a number of seconds, not"


def read(playbook: str = "fleet_report", job: Any = None, **given: Any) -> dict[str, Any]:
    settings, faults = read_settings(PLAYBOOKS[playbook], given, job)
    assert faults == []
    return settings


def refused(playbook: str = "fleet_report", **given: Any) -> str:
    settings, faults = read_settings(PLAYBOOKS[playbook], given)
    assert settings == {}
    (fault,) = faults
    return fault


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_an_empty_answer_of_a_survey_counts_as_not_given(playbook: str, empty: Any, tmp_path: Any) -> None:
    assert read(playbook, **dict.fromkeys(PLAYBOOKS[playbook].defaults, empty)) == read(playbook)


@pytest.mark.parametrize(
    ("name", "given", "is_read_as"),
    [
        ("max_age", 0, 0.0),
        ("max_age", "60", 60.0),
        ("warn_after", 0, 0.0),
        ("fail_within", 0, "0"),
        ("fail_within", "", ""),
        ("ask_timeout", "7", 7),
    ],
)
def test_no_seconds_are_an_answer(name: str, given: Any, is_read_as: Any) -> None:
    assert read(**{"mode": "merge", name: given})[name] == is_read_as


@pytest.mark.parametrize(
    ("given", "job", "part"),
    [
        ({}, 7, "whole"),
        ({"mode": "part"}, 7, "job-7"),
        ({"mode": "part", "part": 0}, 7, "0"),
        ({"part": "web.1-a_b"}, None, "web.1-a_b"),
    ],
)
def test_a_slice_has_the_name_that_was_given_or_that_of_the_job(given: dict[str, Any], job: Any, part: str) -> None:
    assert read(job=job, **given)["part"] == part


def test_a_slice_fails_of_nothing_that_is_due_whatever_was_given() -> None:
    assert read(mode="part", part="a", fail_within="soon")["fail_within"] == ""


def test_each_slice_counts_that_this_run_has_just_made() -> None:
    assert read(max_age=60)["max_age"] == 0


@pytest.mark.parametrize(
    ("given", "simulated"), [(None, False), (True, True), ("Yes", True), (0, False), ("off", False)]
)
def test_whether_simulated_events_count(given: Any, simulated: bool) -> None:
    assert read("fleet_history", simulated=given)["simulated"] is simulated


def test_the_folder_is_found_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert read()["dir"] == str(tmp_path / "home" / "fleet-report")
    assert read("fleet_history", dir="here")["slices_dir"] == str(tmp_path / "here" / "history-parts")
    assert read(dir="link")["slices_dir"] == str(tmp_path / "disk" / "parts")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "html"}, "fleet_report_mode must be report, part or merge, not html."),
        ({"dir": False}, "fleet_report_dir must be the path of a folder, not False."),
        ({"mode": "part"}, "fleet_report_part must be set: a name for this slice that no other slice has"),
        ({"part": "../x"}, "not '../x'."),
        ({"part": "a\n"}, "fleet_report_part must be set"),
        ({"part": ".a"}, "fleet_report_part must be set"),
        ({"max_age": "1h"}, f"fleet_report_max_age {SECONDS} 1h."),
        ({"max_age": "1\n"}, f"fleet_report_max_age {SECONDS}"),
        ({"max_age": -1}, f"fleet_report_max_age {SECONDS} -1."),
        ({"fail_within": "soon"}, f"fleet_report_fail_within {SECONDS} soon."),
        ({"warn_after": 100000001}, "fleet_report_warn_after must be at most 100000000 seconds, not 100000001."),
        ({"warn_after": "1h"}, f"fleet_report_warn_after {SECONDS} 1h."),
        ({"warn_after": "1\n"}, f"fleet_report_warn_after {SECONDS}"),
        ({"fail_within": "1\n"}, f"fleet_report_fail_within {SECONDS}"),
        ({"warn_after": "9" * 5000}, "fleet_report_warn_after must be at most 100000000 seconds, not 999"),
        ({"ask_timeout": "soon"}, f"fleet_report_ask_timeout {SECONDS} soon."),
        ({"ask_timeout": 0}, "fleet_report_ask_timeout must be 1 to 100000000 seconds, not 0."),
        ({"ask_timeout": "9" * 5000}, "fleet_report_ask_timeout must be 1 to 100000000 seconds, not 999"),
        (
            {"playbook": "fleet_history", "simulated": "ture"},
            "fleet_history_simulated must be true or false, not ture.",
        ),
        ({"playbook": "fleet_history", "simulated": 2}, "fleet_history_simulated must be true or false, not 2."),
        ({"playbook": "fleet_history", "part": "a\n", "mode": "part"}, "fleet_history_part must be set: a name"),
        ({"playbook": "fleet_history", "max_age": "1h"}, "fleet_history_max_age must be a number of seconds, not 1h."),
        ({"playbook": "fleet_history", "simulated": ["yes"]}, "must be true or false, not ['yes']."),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence(given: dict[str, Any], said: str) -> None:
    assert said in refused(**given)


def test_each_of_several_wrong_settings_is_told() -> None:
    _settings, faults = read_settings(PLAYBOOKS["fleet_report"], {"mode": "html", "max_age": "x", "warn_after": "y"})
    assert [fault.split()[0] for fault in faults] == [
        f"fleet_report_{name}" for name in ("mode", "max_age", "warn_after")
    ]


def test_p13_a_misspelled_variable_is_told_and_one_that_an_earlier_run_has_told_is_not() -> None:
    """Without fleet_report_fail_within a monitoring would always be told that nothing is due."""
    fine = ["target", "fleet_report_dir", "fleet_report_due", "fleet_report_counts", "fleet_report_owner", "fleet"]
    assert tell_misspelled(PLAYBOOKS["fleet_report"], fine) == []
    assert tell_misspelled(PLAYBOOKS["fleet_report"], ["fleet_report_fail_withn"]) == [
        "fleet_report_fail_withn is no variable of the playbook fleet_report. Is fleet_report_fail_within meant?"
    ]
    assert tell_misspelled(PLAYBOOKS["fleet_history"], ["fleet_history_command", "fleet_history_simulated"]) == []
