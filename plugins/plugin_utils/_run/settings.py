# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the role event_response, and its demands on the play; pure."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Iterable, Mapping, Sequence

from ...module_utils._errors import one_line
from ...module_utils._event.document import fold_case
from ...module_utils._event.selection import check_words, words
from .._text_input import tell_not_text

NOTHING = "nothing"
CHECKER = "checker"
# The words for event_response_prepare in place of the name of a file
WORDS = (NOTHING, CHECKER)

_UNNAMED = (
    "event_response_prepare must be the path of a file with the tasks that prepare a host, or the word "
    f"{NOTHING} if nothing need be prepared, or {CHECKER} if the checkers of the hosts prepare; it is not set. "
    "Is its name misspelled?"
)
_GIVEN_TO_FILES = (
    "maintenance_event",
    "maintenance_phase",
    "maintenance_outcome",
    "maintenance_marks",
    "maintenance_peers",
)
_REPLACED = (
    "Extra variables (-e, or those of a job in AWX) replace what the files of tasks are given for each host: {names}. "
    "Start this run without them."
)
_NO_RESTORE = (
    "event_response_restore is not set, so the hosts stay as event_response_prepare leaves them. Is its name "
    f"misspelled? Set it to {NOTHING} if nothing need be restored."
)
_DIFFERS = (
    "event_response_{name} must be the same for all hosts of a run, because one of them decides for all: it is "
    "{values}. Give all of them the same value, or respond in a run for each value, with another target or --limit."
)
_CHECK_MODE = (
    "check_mode must be the same for the response and for the run: {own} here, and the run has {run}. Leave check_mode "
    "out, and start the run with --check to see what would change."
)
_CONDITION = (
    "when must not stand at the role, at a block around it or at import_playbook: Ansible evaluates it anew before "
    "each task, so a host for which it becomes false meanwhile is not restored. It is: {condition}. Choose the hosts "
    "by hosts or target, or give the condition to a task include_role that includes the role."
)
_MAX_FAIL = (
    "max_fail_percentage must not be set for the play: where more hosts fail, Ansible ends the play for all at once, "
    "so no other host is restored or named. It is {percentage:g}. Leave it out."
)
_REHEARSE = "rehearse_"
# Those of the playbook rehearse, and of rehearse_checker: a file of variables may be for both
_OF_REHEARSALS = [
    _REHEARSE + name for name in ("prepare", "restore", "event_type", "event_hosts", "listen", "notice", "timeout")
]
_STEP = (
    "With --step a task of a preparation or restore can be left out, and the host would count as prepared or restored. "
    "Run this without --step."
)
_SKIP_ALWAYS = (
    "With --skip-tags always Ansible leaves out the report of the run, and a run that failed would end as a success. "
    "Run this without it."
)
_STRATEGY = (
    "The strategy must be linear, not {name}: nothing may be approved before all hosts have tried to prepare. "
    "Leave strategy out, or where ansible.cfg sets it, give the play strategy: linear."
)
_LIMIT = (
    "event_response_max_unavailable must be a whole number of hosts from 1 on, or a percentage from 1% to 100%, not "
    "'{value}'. Leave it empty to set no limit."
)
# The meaning of an empty text. Argument specs take null for one, which may be a value that was not found.
_EMPTY = {"max_unavailable": "set no limit", "group_by": "make no groups"}
# One host decides by these for all; each host reads the others itself.
_SHARED = ("event_ids", "approve", "wait", "wait_timeout", "outside_vms", "acknowledge", "max_unavailable", "group_by")
# The least value of each time-out. With 0 for the events the run does not wait for them, and the hosts stay prepared.
# With 0 for a file Ansible limits no task (P15), and the run waits for nobody who is at work on a VM (P3).
_LEAST_SECONDS = {
    "prepare_timeout": 1,
    "restore_timeout": 1,
    "reconnect_timeout": 0,
    "wait_timeout": 1,
    "ask_timeout": 1,
}
# Ansible fails a task with a longer or a negative time, and that of a restore comes after the approval.
MOST_SECONDS = 100000000
_PER_HOST = ("prepare", "restore", "due_within", *_LEAST_SECONDS)
_MOST_NAMED = 3
# The filter bool takes any other word for false, also some that Ansible takes for true elsewhere.
_BOOLEAN = ("approve", "wait")
_MEANS = {**dict.fromkeys(("true", "yes", "on", "1"), "true"), **dict.fromkeys(("false", "no", "off", "0"), "false")}
IGNORE, FALLBACK = "ignore", "fallback"
_CHOICES = {"outside_vms": ("refuse", IGNORE), "acknowledge": ("never", FALLBACK)}
# A condition that is no text might be dropped, as 0 and false are, and the run would take all events.
_CONDITIONS = ("event_ids", "event_types", "event_sources")
_PREFIX = "event_response_"
# The variables of the role, without this
NAMES = tuple(dict.fromkeys((*_SHARED, *_PER_HOST, *_CONDITIONS)))


def tell_differences(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which variables of the role differ between the hosts although one host decides by them, a sentence each.

    :param settings: the values of each host, by the names without ``event_response_``.
    """
    faults = []
    for name in _SHARED:
        hosts: dict[str, list[str]] = {}
        shown: dict[str, str] = {}
        for host, given in settings.items():
            text = _read(name, given.get(name))
            key = _MEANS.get(text, text) if name in _BOOLEAN else fold_case(text)
            shown.setdefault(key, text)
            hosts.setdefault(key, []).append(host)
        if len(hosts) > 1:
            named = [f"{shown[key] or 'empty'} for {_name(hosts[key])}" for key in list(hosts)[:_MOST_NAMED]]
            left = sum(len(hosts[key]) for key in list(hosts)[_MOST_NAMED:])
            named += [f"others for {left} more"] if left else []
            faults.append(_DIFFERS.format(name=name, values=", ".join(named[:-1]) + f", and {named[-1]}"))
    return faults


def _read(name: str, value: Any) -> str:
    """Return a value as text, which is the same for values that are written in different ways."""
    if name == "event_ids" and not tell_not_text(name, value):
        return " ".join(sorted((one_line(word) for word in words(value)), key=fold_case))
    text = str(value).strip().lower()
    try:
        return f"{float(text):.0f}" if name == "wait_timeout" else text
    except ValueError:
        return text


def group_input(settings: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, dict[str, str]]]:
    """Return the values, as text, that each host looks at itself, once for all hosts that have the same.

    :param settings: as for tell_differences.
    :returns: with the hosts that a sentence about these values begins with; nothing where all hosts have them.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, given in settings.items():
        values = tuple("" if given.get(name) is None else str(given[name]) for name in _PER_HOST)
        groups.setdefault(values, []).append(host)
    return [
        ("" if len(groups) == 1 else f"{_name(hosts)}: ", dict(zip(_PER_HOST, values)))
        for values, hosts in groups.items()
    ]


def _name(hosts: Sequence[str]) -> str:
    left = len(hosts) - _MOST_NAMED
    return ", ".join(hosts[:_MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def tell_wrong_words(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return which variables of the role have a value that would be read as another one, a sentence each.

    Ansible checks them too, unless the play ignores errors.

    :param settings: as for tell_differences; a variable that a host does not have is not looked at.
    """
    faults = []
    for given in settings.values():
        texts = {name: "" if value is None else str(value) for name, value in given.items()}
        for name in _BOOLEAN:
            faults += _tell_not_boolean(f"event_response_{name}", texts[name]) if name in texts else []
        for name, choices in _CHOICES.items():
            if name in texts and texts[name] not in choices:
                told = one_line(texts[name])
                faults.append(f"event_response_{name} must be {' or '.join(choices)}, not '{told}'.")
        if not _is_limit(texts.get("max_unavailable", "")):
            faults.append(_LIMIT.format(value=one_line(texts["max_unavailable"])))
        faults += [
            f"event_response_{name} must be text, not null. Leave it empty to {meaning}."
            for name, meaning in _EMPTY.items()
            if name in given and given[name] is None
        ]
        faults += [_tell_seconds(name, "") for name in _LEAST_SECONDS if texts.get(name) == ""]
        for name in _CONDITIONS:
            faults += tell_not_text(f"event_response_{name}", given.get(name)) or _tell_unknown_words(name, given)
    return list(dict.fromkeys(faults))


def _is_limit(text: str) -> bool:
    digits = text[:-1] if text.endswith("%") else text
    whole = digits.isascii() and digits.isdigit() and int(digits) >= 1
    return not text or (whole and not (text.endswith("%") and int(digits) > 100))


def _tell_unknown_words(name: str, given: Mapping[str, Any]) -> list[str]:
    """Return which type or source Azure does not use: a typing error would select nothing, ever."""
    try:
        check_words({name: given.get(name)})
    except ValueError as error:
        return [f"event_response_{error}"]
    return []


def tell_wrong_input(given: Mapping[str, str], only_marked: bool = False) -> list[str]:
    """Return the faults of the variables of the role, a sentence each.

    :param given: the values, as text, by the names without ``event_response_``.
    :param only_marked: whether the run only restores hosts that earlier runs have left out of service.
    """
    faults = []
    if only_marked and not given.get("restore"):
        faults.append(f"event_response_restore must be the path of a file with tasks, or the word {NOTHING}.")
    if not given.get("prepare"):
        faults.append(_UNNAMED)
    if given.get("prepare") == CHECKER and given.get("restore", "") not in ("", NOTHING):
        faults.append(
            f"event_response_restore must be empty where event_response_prepare is {CHECKER}: the checkers restore."
        )
    seconds = given.get("due_within", "")
    if seconds and not (seconds.isascii() and seconds.isdigit()):
        faults.append(f"event_response_due_within must be a whole number of seconds, not '{seconds}'.")
    for name, least in _LEAST_SECONDS.items():
        text = given.get(name, "")
        if text and not _is_whole(text, least):
            faults.append(_tell_seconds(name, text))
    return faults


def _tell_seconds(name: str, text: str) -> str:
    limits = f"from {_LEAST_SECONDS[name]} to {MOST_SECONDS}"
    return f"event_response_{name} must be a whole number of seconds {limits}, not '{text}'."


def _is_whole(text: str, least: int) -> bool:
    try:
        number = float(text)
    except ValueError:
        return False
    return number.is_integer() and least <= number <= MOST_SECONDS


def tell_check_mode(own: bool, run: bool) -> list[str]:
    """Return the fault where the play or the role sets check_mode, a sentence: some tasks would change nothing, and
    the others would count on their changes, or the other way round.

    :param own: check_mode of the tasks.
    :param run: whether the run was started with ``--check``.
    """
    if own == run:
        return []
    words = {"own": "it is true" if own else "it is false", "run": "--check" if run else "no --check"}
    return [_CHECK_MODE.format(**words)]


def tell_step(is_given: bool) -> list[str]:
    """Return the fault where a person is asked before each task, a sentence: a task that is left out is no failure."""
    return [_STEP] if is_given else []


def tell_skip_tags(skipped: Iterable[str]) -> list[str]:
    """Return the fault where the run leaves out all that has the tag always, a sentence: the report has it."""
    return [_SKIP_ALWAYS] if "always" in skipped else []


def tell_strategy(name: str, is_linear: bool) -> list[str]:
    """Return the fault of the play's strategy, a sentence: in others no host waits for another."""
    return [] if is_linear else [_STRATEGY.format(name=name)]


def tell_max_fail(percentage: float | None) -> list[str]:
    """Return the fault where the play sets max_fail_percentage, a sentence. More than all hosts cannot fail."""
    return [] if percentage is None or percentage >= 100 else [_MAX_FAIL.format(percentage=percentage)]


def tell_conditions(conditions: str) -> list[str]:
    """Return the fault where the play gives the response a condition, a sentence.

    :param conditions: those that hold for each task of the response, of find_conditions().
    """
    return [_CONDITION.format(condition=conditions)] if conditions else []


def tell_doubtful_input(given: Mapping[str, str]) -> list[str]:
    """Return doubts about the variables of the role, a sentence each; the run goes on.

    :param given: as for tell_wrong_input.
    """
    prepares = given.get("prepare", "") not in ("", *WORDS)
    return [_NO_RESTORE] if prepares and not given.get("restore") else []


def tell_replaced(extra_variables: Iterable[str]) -> list[str]:
    """Return the doubt about extra variables that replace what the run gives to the files of tasks, a sentence."""
    names = sorted(set(extra_variables) & set(_GIVEN_TO_FILES))
    return [_REPLACED.format(names=", ".join(names))] if names else []


def tell_unknown(extra_variables: Iterable[str]) -> list[str]:
    """Return which extra variables have the beginning of the role's and are none of them, a sentence each: a condition
    whose name is misspelled would be none, and events would be approved that nobody meant.
    """
    return [_tell_unknown_name(name, like) for name, like in _unknown_names(extra_variables)]


def tell_misspelled(variables: Iterable[str]) -> list[str]:
    """Return which variables of a host have nearly the name of one of the role, a sentence each. A host may have
    others with that beginning.
    """
    return [_tell_unknown_name(name, like) for name, like in _unknown_names(variables, cutoff=0.85) if like]


def tell_unknown_in_rehearsal(extra_variables: Iterable[str]) -> list[str]:
    """Return which extra variables have the beginning of those of the playbook rehearse, or nearly the name target, and
    are none of its variables, a sentence each. Without target the files run on this machine.
    """
    given = set(extra_variables)
    known = ["target"] if "target" not in given else []
    likes = {name: get_close_matches(name, known, n=1, cutoff=0.8) for name in given}
    likes = {name: like for name, like in likes.items() if like}
    for name in given - set(_OF_REHEARSALS):
        if name.startswith(_REHEARSE):
            likes[name] = get_close_matches(name, _OF_REHEARSALS, n=1, cutoff=0.8)
    return [
        f"{one_line(name)} is no variable of the playbook rehearse.{f' Is {like[0]} meant?' if like else ''}"
        for name, like in sorted(likes.items())
    ]


def _unknown_names(variables: Iterable[str], cutoff: float = 0.6) -> list[tuple[str, list[str]]]:
    """Return the names with the beginning of the role's that are none of them, and the name that each is like."""
    given = {name[len(_PREFIX) :] for name in variables if name.startswith(_PREFIX)}
    return [(name, get_close_matches(name, NAMES, n=1, cutoff=cutoff)) for name in sorted(given - set(NAMES))]


def _tell_unknown_name(name: str, like: Sequence[str]) -> str:
    hint = f" Is {_PREFIX}{like[0]} meant?" if like else ""
    return f"{_PREFIX}{one_line(name)} is no variable of the role event_response.{hint}"


def tell_wrong_switch(variable: str, value: Any) -> list[str]:
    """Return the fault of a variable that is true or false, and false where it is empty, a sentence."""
    told = "" if value is None else str(value).strip()
    return _tell_not_boolean(variable, told) if told else []


def _tell_not_boolean(variable: str, text: str) -> list[str]:
    return [] if text.lower() in _MEANS else [f"{variable} must be true or false, not '{one_line(text)}'."]


def as_boolean(value: Any) -> bool:
    """Return the value of a variable that was checked by tell_wrong_words() or tell_wrong_switch()."""
    return _MEANS.get(str(value).strip().lower()) == "true"
