# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The control API under /simulator/: JSON in, JSON out."""

from __future__ import annotations

from urllib.parse import unquote

from simulator.checks import Fields, Refused, decode, filled_text, or_null, seconds, show, text
from simulator.clock import iso

_EVENT = "/simulator/events/"


class Control:
    """Every route is a method that takes the decoded body and gives status and value of the answer."""

    def __init__(self, simulator):
        self._simulator = simulator
        self._world = simulator.world
        self._routes = {
            "/simulator/events": {"GET": self._get_events, "POST": self._post_events},
            "/simulator/clock": {"GET": self._get_clock, "POST": self._post_clock},
            "/simulator/faults": {"GET": self._get_faults, "POST": self._post_faults, "DELETE": self._delete_faults},
            "/simulator/settings": {"GET": self._get_settings, "PATCH": self._patch_settings},
            "/simulator/state": {"GET": self._get_state},
            "/simulator/journal": {"GET": self._get_journal, "DELETE": self._delete_journal},
            "/simulator/notes": {"POST": self._post_notes},
            "/simulator/timeline": {"GET": self._get_timeline},
            "/simulator/stop": {"POST": self._post_stop},
        }

    def answer(self, method, path, body):
        try:
            if path.startswith(_EVENT) and path != _EVENT:
                event_id = unquote(path[len(_EVENT) :])
                verbs = {"DELETE": lambda _body: self._delete_event(event_id)}
            elif path in self._routes:
                verbs = self._routes[path]
            else:
                raise Refused(f"there is nothing at {show(path)}; there are {', '.join(self._routes)}.", 404)
            if method not in verbs:
                raise Refused(f"{path} takes {', '.join(verbs)}, not {method}.", 405)
            with self._world.lock:
                self._world.settle()
                return verbs[method](body)
        except Refused as refused:
            return refused.status, {"error": str(refused)}

    # --- events -------------------------------------------------------------------------------------------------

    def _get_events(self, _body):
        return 200, {"events": [event.state() for event in self._world.events()]}

    def _post_events(self, body):
        asked = _decoded(body)
        several = isinstance(asked, list)
        events = self._world.schedule(asked if several else [asked], "event")
        shown = [event.state() for event in events]
        return 201, {"events": shown} if several else shown[0]

    def _delete_event(self, event_id):
        event = self._world.event_to_withdraw(event_id)
        self._world.withdraw(event)
        return 200, event.state()

    # --- clock, settings, faults --------------------------------------------------------------------------------

    def _get_clock(self, _body):
        clock = self._world.clock
        now = clock.now()
        passed = round(now - clock.started, 3)
        return 200, {"mode": clock.mode, "speed": clock.speed, "time": iso(now), "seconds": passed}

    def _post_clock(self, body):
        fields = Fields(_decoded(body), "clock")
        advance = fields.take("advance", seconds)
        fields.end()
        self._world.advance(advance)
        return self._get_clock(body)

    def _get_settings(self, _body):
        return 200, self._world.settings.as_dict()

    def _patch_settings(self, body):
        self._world.settings.change(_decoded(body), "settings")
        return self._get_settings(body)

    def _get_faults(self, _body):
        return 200, {"faults": self._simulator.faults.state()}

    def _post_faults(self, body):
        asked = _decoded(body)
        several = isinstance(asked, list)
        faults = self._simulator.faults.add(asked if several else [asked], "fault", self._world)
        return 201, {"faults": faults} if several else faults[0]

    def _delete_faults(self, _body):
        self._simulator.faults.clear()
        return 200, {"faults": []}

    # --- the past and the state ---------------------------------------------------------------------------------

    def _get_state(self, _body):
        world = self._world
        return 200, {
            **self._simulator.about,
            "clock": self._get_clock(b"")[1],
            "scopes": [
                {
                    "name": scope.name,
                    "vms": list(scope.vms),
                    "document_incarnation": world.incarnation(scope),
                    "enabled": scope.enabled,
                }
                for scope in world.scopes
            ],
            "events": [event.state() for event in world.events()],
            "settings": world.settings.as_dict(),
            "faults": self._simulator.faults.state(),
        }

    def _get_journal(self, _body):
        return 200, {"requests": self._simulator.journal.requests()}

    def _delete_journal(self, _body):
        self._simulator.journal.clear()
        return 200, {"requests": []}

    def _post_notes(self, body):
        fields = Fields(_decoded(body), "note")
        vm = fields.take("vm", or_null(text), None)
        told = fields.take("text", filled_text)
        fields.end()
        if vm is not None:
            vm = self._world.vm_named(vm, "note: vm")
        return 201, dict(self._world.timeline.add("note", told, vm))

    def _get_timeline(self, _body):
        timeline = self._world.timeline
        return 200, {"entries": timeline.entries(), "lines": timeline.lines()}

    def _post_stop(self, _body):
        return 200, {"stopping": True}


def _decoded(body):
    if not body:
        raise Refused("the request has no body; send JSON.")
    try:
        words = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(f"the body is not UTF-8: {error.reason}.") from error
    return decode(words, "the body")
