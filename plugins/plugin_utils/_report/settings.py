# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The variables of the playbooks fleet_report and fleet_history, and their faults; pure."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from typing import Any, Iterable, Mapping, NamedTuple

REPORT, PART, MERGE = "report", "part", "merge"
# Three years: no time that is this much later is beyond the last one that can be written.
LONGEST_SECONDS = 10**8

# Neither of them is read by the action. The last two are told to the next node of a workflow.
_OTHERS = ("command", "counts", "due")
_SWITCHES = ("simulated", "resource_graph")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_NAME = re.compile(r"\w[\w.-]*")
_SECONDS = re.compile("[0-9]+")

Settings = dict[str, Any]


class Playbook(NamedTuple):
    """The differences between the two playbooks.

    :ivar name: the beginning of the names of its variables.
    :ivar file: the name of its files, before the ending.
    :ivar slices: the folder of its slices. Two playbooks may share a folder, and each merges its own.
    :ivar defaults: of the variables that the action reads.
    """

    name: str
    file: str
    slices: str
    defaults: Mapping[str, str]


PLAYBOOKS = {
    one.name: one
    for one in (
        Playbook(
            "fleet_report",
            "report",
            "parts",
            {
                "dir": "~/fleet-report",
                "mode": REPORT,
                "part": "",
                "max_age": "3600",
                "fail_within": "",
                "warn_after": "900",
                "ask_timeout": "180",
                "resource_graph": "false",
            },
        ),
        Playbook(
            "fleet_history",
            "history",
            "history-parts",
            {
                "dir": "~/fleet-history",
                "mode": REPORT,
                "part": "",
                "max_age": "3600",
                "simulated": "false",
                "ask_timeout": "60",
                "resource_graph": "false",
            },
        ),
    )
}


def tell_misspelled(playbook: Playbook, extra_variables: Iterable[str]) -> list[str]:
    """Return which extra variables have nearly the name of one of the playbook, a sentence each. Others may be a user's
    own, or what an earlier run has told in a workflow.
    """
    names = [f"{playbook.name}_{name}" for name in playbook.defaults]
    known = {*names, *(f"{playbook.name}_{name}" for name in _OTHERS)}
    return [
        f"{name} is no variable of the playbook {playbook.name}. Is {like} meant?"
        for name in sorted(set(extra_variables) - known)
        for like in get_close_matches(name, names, n=1, cutoff=0.9)
    ]


def read_settings(playbook: Playbook, given: Mapping[str, Any], job: Any = None) -> tuple[Settings, list[str]]:
    """Return the settings of a run, and a sentence for each that is wrong.

    :param given: the values of the variables, by their names without the prefix. None and an empty text, as a survey of
        AWX gives them, count as not given; 0 is an answer.
    :param job: the id of the AWX job, None elsewhere.
    """
    texts = {name: _text(given.get(name)) or default for name, default in playbook.defaults.items()}
    mode = texts["mode"]
    texts["part"] = texts["part"] or ("whole" if mode == REPORT else f"job-{job}" if job is not None else "")
    if mode == PART:
        # The merge fails for events that are due, not the part.
        texts.pop("fail_within", None)
    wrong = [(name, why) for name in texts for why in [_fault(name, texts, given)] if why]
    faults = [f"{playbook.name}_{name} must be {why}." for name, why in wrong]
    if faults:
        return {}, faults
    folder = os.path.realpath(os.path.expanduser(texts["dir"]))
    return {
        "dir": folder,
        "slices_dir": os.path.join(folder, playbook.slices),
        "mode": mode,
        "part": texts["part"],
        "max_age": float(texts["max_age"]) if mode == MERGE else 0.0,
        "fail_within": texts.get("fail_within", ""),
        "warn_after": float(texts.get("warn_after", 0)),
        **{name: texts.get(name, "").lower() in _TRUE for name in _SWITCHES},
        "ask_timeout": int(float(texts["ask_timeout"])),
    }, []


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _fault(name: str, texts: Mapping[str, str], given: Mapping[str, Any]) -> str | None:
    """Return how a setting must be, as the end of a sentence; None where it is so."""
    text = texts[name]
    if name == "dir":
        # ansible-core 2.19 and later read the answer off of AWX as false, and a folder would be called False.
        value = given.get("dir")
        return f"the path of a folder, not {value}" if not isinstance(value, (str, type(None))) else None
    if name == "mode":
        return None if text in (REPORT, PART, MERGE) else f"report, part or merge, not {text}"
    if name == "part":
        if texts["mode"] not in (REPORT, PART) or _NAME.fullmatch(text):
            return None
        return f"set: a name for this slice that no other slice has, made of letters, digits, _ . and -, not '{text}'"
    if name in _SWITCHES:
        return None if text.lower() in (*_TRUE, *_FALSE) else f"true or false, not {text}"
    if name == "fail_within" and not text:
        return None
    if not _SECONDS.fullmatch(text):
        return f"a number of seconds, not {text}"
    if name == "warn_after" and float(text) > LONGEST_SECONDS:
        return f"at most {LONGEST_SECONDS} seconds, not {text}"
    if name == "ask_timeout" and not 0 < float(text) <= LONGEST_SECONDS:
        return f"1 to {LONGEST_SECONDS} seconds, not {text}"
    return None
