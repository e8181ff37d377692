# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Metrics in the text format that the textfile collector of Prometheus' node_exporter reads."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, Mapping

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import escape
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import parse_utc

_PREFIX = "azure_maintenance"
# Azure sends one word; a longer text must not fill the exporter.
_LONGEST_WORD = 100


def metrics_text(
    found: Mapping[str, Any],
    responses: Iterable[tuple[str, str, int]],
    failed: Mapping[str, int],
    failed_steps: Mapping[str, int],
    prepared: set[str],
    damaged: bool,
) -> str:
    """Return the metrics of a report.

    :param responses: the number of remembered responses, by phase and state.
    :param failed: the number of failed responses that can be tried again, by phase.
    :param failed_steps: the number of failed steps of these responses, by phase.
    :param prepared: the ids of the events with a finished preparation.
    :param damaged: a part of the state could not be read.
    """
    events = [event for event in found["events"] if event["ended_at"] is None]
    kinds = Counter((_word(event["event_type"]), _word(event["event_status"])) for event in events)
    last_answer = found["last_answer_at"]
    lines = [
        *_metric("polls_total", "counter", "Polls of the metadata service.", [({}, found["polls"])]),
        *_metric(
            "poll_errors_total",
            "counter",
            "Polls that failed, by reason.",
            [({"reason": reason}, count) for reason, count in sorted(found["poll_errors"].items())],
        ),
        *_metric(
            "last_poll_success", "gauge", "Whether the last poll was answered.", [({}, int(not found["last_error"]))]
        ),
        *_metric(
            "last_answer_timestamp_seconds",
            "gauge",
            "When a poll was last answered; its age is time() minus this.",
            [({}, _timestamp(last_answer))] if last_answer else [],
        ),
        *_metric(
            "state_damaged",
            "gauge",
            "Whether a part of the state could not be read, so that an event may be missing.",
            [({}, int(damaged))],
        ),
        *_metric(
            "marks_left",
            "gauge",
            "Marks for which nobody puts the VM back.",
            [({}, len(found["marks_left"]))],
        ),
        *_metric(
            "events",
            "gauge",
            "Events of this VM that have not ended.",
            [({"event_type": kind, "event_status": status}, count) for (kind, status), count in sorted(kinds.items())],
        ),
        *_metric(
            "event_seconds_until_start",
            "gauge",
            "Seconds until Azure may start the event, when this file was written.",
            [
                (_labels(event), event["seconds_until_start"])
                for event in events
                if event["seconds_until_start"] is not None
            ],
        ),
        *_metric(
            "event_not_before_timestamp_seconds",
            "gauge",
            "When Azure may start the event.",
            [(_labels(event), _timestamp(event["not_before"])) for event in events if event["not_before"]],
        ),
        *_metric(
            "event_waits_for_approval",
            "gauge",
            "Whether the event is left to a runbook for the fleet.",
            [(_labels(event), int(event["approval"] == "waiting")) for event in events],
        ),
        *_metric(
            "event_prepared",
            "gauge",
            "Whether nothing is left to be done before the event.",
            [(_labels(event), int(event["event_id"] in prepared)) for event in events],
        ),
        *_metric(
            "failed_responses",
            "gauge",
            "Responses that failed and can be tried again, by phase.",
            [({"phase": phase}, count) for phase, count in sorted(failed.items())],
        ),
        *_metric(
            "failed_steps",
            "gauge",
            "Steps that failed in the responses of the last 30 days, ignored or not, by phase.",
            [({"phase": phase}, count) for phase, count in sorted(failed_steps.items())],
        ),
        *_metric(
            "responses",
            "gauge",
            "Responses of the last 30 days, by phase and result.",
            [({"phase": phase, "result": state}, count) for phase, state, count in responses],
        ),
    ]
    return "\n".join(lines) + "\n"


def _labels(event: dict[str, Any]) -> dict[str, str]:
    return {
        "event_id": escape(event["event_id"]),
        "event_type": _word(event["event_type"]),
        "event_status": _word(event["event_status"]),
    }


def _word(value: str | None) -> str:
    return escape((value or "unknown")[:_LONGEST_WORD])


def _timestamp(text: str) -> int:
    return int(parse_utc(text).timestamp())


def _metric(name: str, kind: str, description: str, samples: list[tuple[dict[str, str], int]]) -> list[str]:
    lines = [f"# HELP {_PREFIX}_{name} {description}", f"# TYPE {_PREFIX}_{name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
        lines.append(f"{_PREFIX}_{name}{'{' + shown + '}' if shown else ''} {value}")
    return lines


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
