# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""The messages for the operator during a run, and at its end; pure. No line is wider than a terminal."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from datetime import datetime, timezone
from typing import Any, Container, Iterable, Mapping, Sequence

from ...module_utils._errors import escape, one_line
from ...module_utils._event.lifecycle import ENDED, STARTED
from ...module_utils._event.sentences import format_duration
from .progress import is_coming, progress_key, seconds_left

# Ansible puts a margin and quotes around the lines of a message.
_WIDTH = 68
_MOST_HOSTS = 4


def format_held_back(
    plan: Mapping[str, Any],
    progress: Mapping[str, Iterable[Mapping[str, Any]]],
    wait_timeout: float,
    now: float,
    check_mode: bool = False,
    of_checkers: bool = False,
    rehearsal: bool = False,
) -> list[str]:
    """Return which event is held back, by which hosts and why, and how a person can still approve it.

    :param plan: one of plan_approval(); no lines where nothing stands in its way.
    :param progress: of each host of the play.
    :param wait_timeout: how many seconds an event that is not approved may be waited for.
    :param check_mode: whether the run is in check mode.
    :param of_checkers: whether the checkers of its hosts prepare and restore.
    :param rehearsal: whether it is an event of a rehearsal, which Azure does not know.
    """
    if not plan["blocked"]:
        return []
    event = plan["event"]
    key = progress_key(plan)
    own = {host: [each for each in followed if progress_key(each) == key] for host, followed in progress.items()}
    reasons = [(host, why) for host, found in own.items() for each in found if each["failed"] for why in each["why"]]
    told = [
        *_wrap(f"HELD BACK: {event['event_type']} {event['event_id']}", ""),
        *_wrap(f"VMs: {', '.join(event['resources'])}"),
        *(line for reason in dict.fromkeys([*merge_reasons(reasons), plan["why"]]) for line in _wrap(reason)),
        *_wrap(f"{_format_start(event, now)} {_format_wait(plan['wait'], wait_timeout, check_mode, of_checkers)}"),
    ]
    if rehearsal:
        return [*told, *_wrap("To do: repair the cause and rehearse again.")]
    # Only these need be asked: a question switches Scheduled Events on where they are off.
    target = ",".join(host for host, found in own.items() if found)
    # Where the approval was tried, all VMs were prepared, and Azure or the metadata service refused it.
    approve = "once more" if plan.get("was_tried") else "although a VM is not prepared"
    todo = (
        f"To do before then: repair the cause and run this again. Or approve the event {approve}, by this command in "
        "one line, with the -i and the login options of this run:"
    )
    return [
        *told,
        *_wrap(todo),
        escape(f"    ansible-playbook fleetops.azure_maintenance.approve {_format_variable('target', target)}"),
        escape(f"    {_format_variable('approve_event_ids', event['event_id'])}"),
        escape(f"    {_format_variable('approve_resources_ready', ','.join(event['resources']))}"),
    ]


def format_plan(plan: Mapping[str, Any]) -> str:
    """Return which event is approved for whom."""
    event = plan["event"]
    return escape(f"{event['event_type']} {event['event_id']} for {', '.join(plan['resources_ready'])}")


def _format_wait(waits: bool, wait_timeout: float, check_mode: bool, of_checkers: bool) -> str:
    run = "A real run" if check_mode else "This run"
    if waits and of_checkers:
        return f"{run} waits for it. The checkers restore their hosts after it."
    if waits:
        return f"{run} keeps the hosts prepared and waits for it."
    why = f"waits {format_duration(int(wait_timeout))} at most (event_response_wait_timeout)"
    if not wait_timeout:
        why = "does not wait"
    if of_checkers:
        return f"{run} {why}. It restores no host: the checkers restore their hosts after the event."
    return f"{run} {why}. It restores each host that is prepared for no other event."


def _format_start(event: Mapping[str, Any], now: float) -> str:
    left = seconds_left(event, now)
    if left is None:
        return "Azure gave no start time. It may start at any time, without an approval."
    if left == 0:
        return "Azure may start it now, also without an approval."
    moment = datetime.fromtimestamp(now + left, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"Azure starts it without an approval from {moment} on, in {format_duration(left)}."


def _format_variable(name: str, text: str) -> str:
    """Return the option -e for a command line. A shell and Ansible would cut other text, as at a space."""
    if re.fullmatch(r"[\w.,-]*", text, re.ASCII):
        return f"-e {name}={text}"
    # A double quote could not be copied: Ansible puts a backslash before it.
    if re.fullmatch(r"[^\s\"'\\{}]+", text):
        return f"-e {shlex.quote(f'{name}={text}')}"
    # Without a comma Ansible cuts a pattern of hosts at a space, too.
    text += "," if name == "target" and "," not in text else ""
    return f"-e {shlex.quote(json.dumps({name: text}, ensure_ascii=False))}"


def _wrap(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(
        escape(" ".join(text.split())),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        # An id or a path can be copied only whole.
        break_long_words=False,
        break_on_hyphens=False,
    )


def format_queued(entry: Mapping[str, Any], now: float) -> list[str]:
    """Return that an event must wait its turn, or takes more hosts out of service than may be.

    :param entry: of limit.queue_events().
    """
    event = entry["event"]
    name = f"{event['event_type']} {event['event_id']} of {shorten(entry['hosts'])}"
    if not entry["behind"]:
        of = f"takes {len(entry['hosts'])} hosts out of service at once, and no more than {entry['limit']}"
        return _wrap(
            f"{name} {of} may be (event_response_max_unavailable). Azure starts it for all of them together.", ""
        )
    if entry["may"] == "neither":
        return _wrap(f"{name} waits its turn: {format_limit(entry)}.", "")
    early = "is prepared for now, because Azure may start it soon, and not approved"
    return _wrap(f"{name} {early}: {format_limit(entry)}.", "")


def format_limit(entry: Mapping[str, Any]) -> str:
    """Return behind whom an event waits its turn."""
    number = entry["limit"]
    unknown = shorten(entry["unknown"])
    return (
        f"event_response_max_unavailable lets {number} host{'' if number == 1 else 's'} be out of service at once, and "
        f"{shorten(entry['behind'])} must be back first"
        + (f" (cannot be asked, so it counts as out of service: {unknown})" if unknown else "")
    )


def format_waiting(progress: Mapping[str, Iterable[Mapping[str, Any]]], deadline: float, now: float) -> str:
    """Return the events for which hosts wait, the hosts and the time, on one line.

    :param progress: of the hosts that are awaited.
    """
    followed = [each for events in progress.values() for each in events]
    open_events = {progress_key(each): each for each in followed if is_coming(each) or each["phase"] == STARTED}
    left = int(deadline - now)
    at_most = f", {format_duration(left)} at most" if left > 0 else ""
    parts = [_format_event(each, now) for each in open_events.values()]
    lost = [host for host, events in progress.items() if any(each["unreachable"] for each in events)]
    if lost:
        parts.append(f"cannot be reached now: {shorten(lost)}")
    silent = [host for host, events in progress.items() if host not in lost and any(map(_is_silent, events))]
    if silent:
        parts.append(f"cannot be asked now: {shorten(silent)}")
    what = "; ".join(parts) or "somebody may be at work there"
    return f"Waiting for {shorten(list(progress))}{at_most}: {what}"


def _is_silent(each: Mapping[str, Any]) -> bool:
    return bool(each["phase"] != ENDED and each["no_answer"])


def format_not_asked(reasons: Mapping[str, str]) -> list[str]:
    """Return which hosts did not answer, and why; one sentence for each reason."""
    return _format_reasons("{host} could not be asked: {why}", reasons)


def format_given_up(reasons: Mapping[str, str]) -> list[str]:
    """Return which hosts can be reached and not asked, and are not waited for any more; a sentence for each reason."""
    return _format_reasons("{host} is not waited for any more: {why}", reasons)


def _format_reasons(sentence: str, reasons: Mapping[str, str]) -> list[str]:
    told = merge_reasons([(host, sentence.format(host=host, why=why)) for host, why in reasons.items()])
    return [line for each in told for line in _wrap(each, "")]


def format_unwanted(host: str, event: Mapping[str, Any]) -> list[str]:
    """Return that an event was announced meanwhile for which this run does nothing."""
    return _wrap(
        f"{event['event_type']} {event['event_id']} of {host} was announced while this run goes on. The conditions of "
        "this run leave it out, so no host is prepared for it.",
        "",
    )


def format_marked(marked: Iterable[str], at_work: Mapping[str, float]) -> list[str]:
    """Return which hosts others have out of service, and until when this run leaves them alone.

    :param marked: sentences on these hosts. None is left out (P16).
    :param at_work: until when others may be at work on a host, in seconds since 1970.
    """
    told = list(marked)
    if at_work:
        moment = datetime.fromtimestamp(max(at_work.values()), timezone.utc).strftime("%H:%M:%S UTC")
        told.append(
            f"Somebody may be at work on {shorten(list(at_work))}. Until {moment} at most this run does nothing there "
            "that disturbs it. If you know that nobody is, the playbook restore with -e restore_open=true restores it "
            "at once."
        )
    return [line for sentence in told for line in _wrap(sentence, "")]


def merge_reasons(reasons: Iterable[tuple[str, str]]) -> list[str]:
    """Return sentences about hosts, one for all the hosts about which the same is said.

    :param reasons: hosts, and sentences that begin with the host or do not name it.
    """
    merged: dict[str, list[str]] = {}
    for host, why in reasons:
        rest = why[len(host) :] if why.startswith(f"{host} ") else ""
        # Without a host, the whole sentence is the same for all.
        hosts = merged.setdefault(rest or f"\0{why}", [])
        if host not in hosts:
            hosts.append(host)
    return [key[1:] if key.startswith("\0") else _join(hosts, key) for key, hosts in merged.items()]


def _join(hosts: Sequence[str], rest: str) -> str:
    if len(hosts) > 1:
        for one, several in ((" was ", " were "), (" is ", " are ")):
            rest = several + rest[len(one) :] if rest.startswith(one) else rest
    return shorten(hosts) + rest


def name_event(event: Mapping[str, Any]) -> str:
    """Return the name of an event in a sentence: its type, and as much of its id as tables show."""
    return f"{one_line(str(event['event_type']))} {one_line(event['event_id'])[:8]}"


def _format_event(each: Mapping[str, Any], now: float) -> str:
    event = each["event"]
    name = name_event(event)
    if each["phase"] == STARTED:
        return f"{name} has started"
    left = seconds_left(event, now)
    if each["approved_by"]:
        return f"{name} is approved"
    return f"{name} may start" + ("" if left is None else f" in {format_duration(left)}" if left else " now")


def shorten(names: Sequence[str]) -> str:
    """Return the first of these names, and how many more there are."""
    more = [f"{len(names) - _MOST_HOSTS} more"] if len(names) > _MOST_HOSTS else []
    return ", ".join([*names[:_MOST_HOSTS], *more])


def format_outcome(
    summary: Mapping[str, Any],
    faults: Mapping[str, Iterable[str]],
    told: Container[str],
    empty: Sequence[str] = (),
    staying: Sequence[str] = (),
    only_marked: bool = False,
    check_mode: bool = False,
    with_checker: Sequence[str] = (),
) -> list[str]:
    """Return the result of each event, and the faults.

    :param summary: of summarize().
    :param faults: of find_faults().
    :param told: the faults that are reasons of an event, which the summary tells.
    :param empty: of find_empty().
    :param staying: the hosts that stay prepared.
    :param only_marked: whether the run only restores hosts that earlier runs have left out of service.
    :param with_checker: the hosts that their checkers have prepared, and restore.
    """
    lines = []
    for event in summary["events"]:
        how = f", approved by {event['approved_by']}" if event["approved_by"] else ""
        if event["would_be_approved_by"]:
            how = f", would be approved by {event['would_be_approved_by']}"
        if only_marked and not any(faults.get(host) for host in event["hosts"]):
            how = ", would be restored" if check_mode else ", restored"
        lines += _wrap(
            f"{event['event_type']} {event['event_id']} {event['outcome'] or event['phase']}{how}: "
            + ", ".join(event["hosts"]),
            "",
        )
        lines += [line for why in event["why"] for line in _wrap(why)]
    left = merge_reasons((host, fault) for host, found in faults.items() for fault in found if fault not in told)
    lines += [line for fault in left for line in _wrap(fault, "")]
    if empty:
        lines += _wrap(f"Azure gave an empty answer to {shorten(empty)}: whether there are events is unknown.", "")
    if staying:
        stay = f"stay{'' if len(staying) > 1 else 's'} out of service"
        lines += _wrap(
            f"{shorten(staying)} {stay}. When the event is over, run this again, or the playbook restore.", ""
        )
    if with_checker:
        restore = "restores it" if len(with_checker) == 1 else "restore them"
        one = "checker of" if len(with_checker) == 1 else "checkers of"
        lines += _wrap(f"The {one} {shorten(with_checker)} {restore} when the event is over.", "")
    return lines or ["No VM is marked, so none is to be restored." if only_marked else "No event."]
