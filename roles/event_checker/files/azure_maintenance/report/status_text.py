# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as a person reads it, at three in the morning and on 80 columns."""

from __future__ import annotations

import os
import textwrap
from datetime import datetime, timedelta
from typing import Any

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape, one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import parse_utc
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.lifecycle import RESTORE
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.marks import ENDING, RUN, tell_mark
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.sentences import format_duration

from ..config.rules import APPROVE_STEP, RESPONSE_LOST
from ..config.step import COMMAND, PLAYBOOK, describe_step
from ..state.records import APPROVED, LEFT_TO_FLEET, RUNNING, SUCCEEDED
from .report import may_be_retried

_WIDTH = 79
# This mark is in front of lines on which a person must act.
_ALARM = "!! "
# How often a step was interrupted
_INTERRUPTED = ("", ", interrupted once", ", interrupted twice")


def status_text(found: dict[str, Any], now: datetime) -> str:
    """Return the coming events, and their steps that are done, have failed or wait."""
    coming = [event for event in found["events"] if event["ended_at"] is None]
    past = [event for event in found["events"] if event["ended_at"] is not None]
    heard = found["heard_lately"] and not found["last_error"]
    name = one_line(found["resource_name"] or "This VM")
    is_known = found["heard_lately"] and not found["warnings"]
    lines = fold(f"{name}: {_count(coming, is_known)}. {_heard(found, now, heard)}", "")
    if found["last_error"]:
        lines += fold(f"{_ALARM}{found['last_error']['message']}", "")
    if found["unclear_seconds"]:
        unclear = format_duration(found["unclear_seconds"])
        lines += fold(f"{_ALARM}No answer of the last {unclear} could be read as a whole, so no event ends.", "")
    for warning in found["warnings"]:
        lines += fold(f"{_ALARM}{warning}", "")
    for path in found["state_put_aside"]:
        why = f"The state could not be read and was put aside as {path}. Check what was running on this VM"
        lines += fold(f"{_ALARM}{why}, then move that file away.", "")
    for mark in found["marks"]:
        lines += fold(_mark_line(mark, found), "")
    for event in coming:
        lines += ["", *event_lines(event, now)]
    if past:
        lines += ["", "Ended, but with a response that failed or is not finished:"]
    for event in past:
        lines += ["", *event_lines(event, now)]
    return "\n".join(lines) + "\n"


def _count(events: list[dict[str, Any]], is_known: bool) -> str:
    if not events:
        return "no maintenance is announced" if is_known else "whether maintenance is announced is unknown"
    return "1 event" if len(events) == 1 else f"{len(events)} events"


def _heard(found: dict[str, Any], now: datetime, heard: bool) -> str:
    last = found["last_answer_at"]
    if not last:
        return "Azure has never answered."
    if heard:
        return f"Azure answered {ago(last, now)}."
    return f"No document since {'the clock was set back' if parse_utc(last) > now else _since(last, now)}."


def _mark_line(mark: dict[str, Any], found: dict[str, Any]) -> str:
    if mark["fault"]:
        return f"{_ALARM}A mark on this VM: {mark['file']}: {mark['fault']}"
    if mark["file"] in found["marks_left"]:
        if mark["by"] == RUN:
            why = "the event has been over for more than an hour, and no run has put this VM back"
            return f"{_ALARM}Out of service {tell_mark(mark)}; {why}. Run the playbook restore for this VM."
        told = f"Out of service {tell_mark(mark)}, and no response is left that puts it back"
        # The whole path would be broken into two lines, and nobody could copy it.
        place, name = os.path.split(mark["file"])
        short = os.path.join(place, name.split(".", maxsplit=1)[0][:8])
        return f"{_ALARM}{told}. Restore this VM by hand, then: rm {short}*.checker{ENDING}"
    return f"Out of service {tell_mark(mark)}."


def title_lines(event: dict[str, Any], about: str, state: str) -> list[str]:
    """Return the event's type, id and state, its VMs, and Azure's description."""
    title = f"{one_line(event['event_type'] or 'Event')} {one_line(event['event_id'])} {state}"
    source = f" from {one_line(event['event_source'])}" if event["event_source"] else ""
    said = f": {one_line(event['description'])}" if event["description"] else ""
    return [*fold(title, ""), *fold(f"{about}{source}{said}", "  ")]


def event_lines(event: dict[str, Any], now: datetime) -> list[str]:
    """Return an event and the responses to it."""
    about = ", ".join(one_line(name) for name in event["resources"]) or "names no VM"
    lines = title_lines(event, about, _when(event, now))
    if event["note"]:
        note = f"{event['note'][0].upper()}{event['note'][1:]}."
        lines += fold(f"{_ALARM if event['ended_at'] is None else ''}{note}", "  ")
    if event["rule"] or not event["note"]:
        lines += fold(f"rule: {one_line(event['rule'] or 'unknown')}", "  ")
    if event["missing"]:
        why = "Not in the last answer, which could not be read as a whole. It ends with a document that can be."
        lines += fold(f"{_ALARM}{why}", "  ")
    for response in event["responses"]:
        lines += _response_lines(response, event, now)
    if event["ended_at"] is None:
        lines += _approval_lines(event, now)
    return lines


def _when(event: dict[str, Any], now: datetime) -> str:
    if event["ended_at"]:
        return f"{event['outcome']} {ago(event['ended_at'], now)}"
    if event["started_at"]:
        return f"started {ago(event['started_at'], now)}"
    seconds = event["seconds_until_start"]
    if seconds is None:
        return "announced, start unknown"
    return f"may start in {format_duration(seconds)}" if seconds else "may start now"


def _response_lines(response: dict[str, Any], event: dict[str, Any], now: datetime) -> list[str]:
    state = response["state"]
    if response["waits"]:
        told = f"waits {one_line(response['waits'])}"
    elif state == "planned":
        told = _planned(response, event)
    elif response["finished_at"]:
        told = f"{state} {ago(response['finished_at'], now)}"
    else:
        told = state
    alarm = _ALARM if response["undone_by_boot"] or may_be_retried(response, event) else ""
    name = RESTORE if response["phase"] == RESTORE else f"on_{response['phase']}"
    lines = fold(f"{alarm}response {response['number']}, {name}: {told}", "  ")
    for step in response["steps"]:
        tries = f", {step['tries']} tries" if step["tries"] > 1 else ""
        why = f": {step['message']}" if step["state"] == "failed" and step["message"] else ""
        if (step["message"] or "").startswith(LEFT_TO_FLEET):
            # The step succeeded, but approved nothing.
            lines += fold("approve   left to the fleet", "     ")
            continue
        if (step["step"], step["state"], step["message"]) == (describe_step(APPROVE_STEP), SUCCEEDED, None):
            # Only a record that was made of a mark has no message.
            lines += fold("approve   unknown, its record was lost", "     ")
            continue
        # Its program has ended.
        is_cut_off = step["state"] == state == RUNNING and response["waits"]
        cut = _INTERRUPTED[min(step["interruptions"], len(_INTERRUPTED) - 1)]
        begun = f", begun {ago(step['started_at'], now)}" if step["state"] == RUNNING and step["started_at"] else ""
        lines += fold(
            f"{'cut off' if is_cut_off else step['state']:9} {one_line(step['step'])}{tries}{cut}{begun}{why}",
            "     ",
            "               ",
        )
    if response["message"] == RESPONSE_LOST:
        lines += fold(response["message"], "     ")
    if any(
        step["state"] == "failed" and step["step"].split(" ")[0] in (COMMAND, PLAYBOOK) for step in response["steps"]
    ):
        lines += fold(f"its output: journalctl -u azure-maintenance-respond@{response['number']}", "     ")
    elif any(step["interruptions"] for step in response["steps"]) or (state == RUNNING and response["waits"]):
        lines += fold(f"why it was interrupted: journalctl -u azure-maintenance-respond@{response['number']}", "     ")
    if may_be_retried(response, event):
        lines += fold(f"to try again: azure-maintenance retry {response['number']}", "     ")
        if response["restorable"]:
            lines += fold("Until the event ends, this VM stays as these steps have left it.", "     ")
            lines += fold(f"to put it back now: azure-maintenance restore {response['number']}", "     ")
    elif response["undone_by_boot"]:
        lines += fold("This VM has booted since, so it may be in service again.", "     ")
        lines += fold(f"to prepare it again: azure-maintenance retry {response['number']}", "     ")
    elif response["booted_since"] and event["approval"] == APPROVED:
        lines += fold("This VM has booted since. An event that is approved is not prepared again.", "     ")
    elif state == "skipped" and response["message"]:
        lines += fold(response["message"], "     ")
    return lines


def _planned(response: dict[str, Any], event: dict[str, Any]) -> str:
    if response["phase"] != "announced" or event["lead_time"] is None:
        return "due now"
    if event["seconds_until_start"] is None:
        return "waits for a start time that can be read"
    left = max(0, event["seconds_until_start"] - event["lead_time"])
    return f"due in {format_duration(left)}"


def _approval_lines(event: dict[str, Any], now: datetime) -> list[str]:
    if event["approval"] == "approved":
        return fold(f"approved {ago(event['approved_at'], now)}", "  ")
    if event["approval"] == "waiting":
        names = ", ".join(one_line(name) for name in event["waiting_for"]) or "somebody else"
        return fold(f"approval: waits for {names}; a runbook for the fleet approves it", "  ")
    return []


def ago(text: str, now: datetime) -> str:
    """Return how long ago a time such as 2026-11-21T10:00:00Z is."""
    return f"{_since(text, now)} ago" if now - parse_utc(text) >= timedelta(seconds=1) else "just now"


def _since(text: str, now: datetime) -> str:
    return format_duration(max(0, int((now - parse_utc(text)).total_seconds())))


def fold(text: str, indent: str, further: str | None = None) -> list[str]:
    """Return a text as lines that fit a terminal of 80 columns."""
    return textwrap.wrap(
        # A message may hold words of the configuration or of the system.
        escape(text),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if further is None else further,
        break_on_hyphens=False,
    )
