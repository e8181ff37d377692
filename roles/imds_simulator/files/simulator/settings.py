# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behaviour that nobody outside Azure knows, or that was seen only sometimes: each a switch with a default."""

from __future__ import annotations

from simulator.checks import Fields, filled_text, flag, list_of, one_of, or_null, seconds, whole
from simulator.wire import DOCUMENT_FIELDS, EVENT_FIELDS

_SETTINGS = {
    # name: (default, check)
    "post_body": ("empty", one_of("empty", "document")),
    "unknown_event_id": (400, one_of(400, 200)),
    "stale_incarnation": ("ignored", one_of("ignored", 400)),
    "forwarded_for": (400, one_of(400, "allowed")),
    "rate_limit": (0, whole(0, 100000)),
    "retry_after": (None, or_null(whole(0))),
    "etag": (False, flag),
    "event_id_case": ("upper", one_of("upper", "lower")),
    "date_format": ("rfc1123", one_of("rfc1123", "iso8601", "wrong_weekday")),
    "omit_fields": ([], list_of(one_of(*DOCUMENT_FIELDS, *EVENT_FIELDS))),
    "approval": ("starts", one_of("starts", "waits")),
    "skip_started": (False, flag),
    "new_id_each_state": (False, flag),
    "other_agent_approves": ([], list_of(filled_text)),
    "hold_first_answer": (0, seconds),
    "instance_name": ("present", one_of("present", "missing")),
    # Microsoft's own captures begin with 1; three other sources saw 0.
    "baseline_incarnation": (1, one_of(0, 1)),
    "lapse_seconds": (86400, seconds),
}


class Settings:
    """Read as attributes (``settings.etag``)."""

    def __init__(self):
        self._values = {name: default for name, (default, _check) in _SETTINGS.items()}

    def __getattr__(self, name):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def change(self, body, where):
        """All of the changes or, when one of them is wrong, none."""
        fields = Fields(body, where)
        changed = {name: fields.take(name, check, self._values[name]) for name, (_default, check) in _SETTINGS.items()}
        fields.end()
        self._values = changed

    def as_dict(self):
        return dict(self._values)
