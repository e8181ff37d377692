# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that go wrong on purpose."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from simulator.checks import (
    Fields,
    Refused,
    flag,
    header_text,
    list_of,
    map_of,
    one_of,
    or_null,
    seconds,
    sendable_text,
    show,
    text,
    whole,
)
from simulator.wire import compact

# fault: the keys it takes besides the common ones (those marked * it needs)
_KEYS = {
    "status": ("status*", "body", "content_type"),
    "slow": ("seconds*",),
    "hold": ("seconds*",),
    "reset": (),
    "truncated": (),
    "empty": (),
    "garbage": ("body", "content_type"),
    "oversize": (),
    "proxy_page": ("status",),
    "proxy_agent": ("status", "by_azure"),
    "redirect": ("status",),
    "throttle": (),
    "body": ("body*", "content_type"),
    "silent": (),
}
# These spoil the way back of a true answer: the request has its effect. The others answer in IMDS's place.
SPOILED = ("slow", "hold", "reset", "truncated")
TOO_MANY = "Too many requests"
# Azure's guest proxy agent adds it to what Azure answers, and not to its own refusals.
_AGENT_HEADER = {"x-ms-azure-host-authorization": "value"}
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_JSON = "application/json"
_GARBAGE = b'\x00\x9f\xff{"DocumentIncarnation": 1, "Events": ['
_OVERSIZE = b'{"DocumentIncarnation":1,"Events":[],"Padding":"' + b"x" * (2 * 1024 * 1024) + b'"}'
_PROXY_PAGE = b"<!DOCTYPE html>\n<html><head><title>Web gateway</title></head><body><h1>Blocked</h1></body></html>\n"


@dataclass
class Fault:  # pylint: disable=too-many-instance-attributes
    fault: str
    path: str
    vms: list | None
    methods: list | None
    times: int | None
    headers: dict = field(default_factory=dict)
    status: int | None = None
    body: str | None = None
    content_type: str = _JSON
    seconds: float = 0.0
    by_azure: bool = False
    served: int = 0

    def matches(self, area, method, vm):
        return (
            self.path in ("any", area)
            and (self.vms is None or vm in self.vms)
            and (self.methods is None or method in self.methods)
        )

    def answer(self, settings):
        """Status, body, content type and headers of an answer given in IMDS's place."""
        told = None if self.body is None else self.body.encode("utf-8", "surrogateescape")
        extra = {}
        if self.fault == "throttle":
            extra = throttle_headers(settings)
        elif self.fault == "redirect":
            extra = {"Location": "/simulator/redirected"}
        elif self.fault == "proxy_agent":
            extra = {"Connection": "close", **(_AGENT_HEADER if self.by_azure else {})}
        usual = {
            "status": (self.status, b'{"error":"Simulated fault"}', self.content_type),
            "empty": (200, b"", _JSON),
            "garbage": (200, _GARBAGE, self.content_type),
            "oversize": (200, _OVERSIZE, _JSON),
            "proxy_page": (self.status or 200, _PROXY_PAGE, "text/html"),
            "proxy_agent": (self.status or 421, b"", _JSON),
            "redirect": (self.status or 302, b"", _JSON),
            "throttle": (429, compact({"error": TOO_MANY}), _JSON),
            "body": (200, b"", self.content_type),
        }
        status, body, content_type = usual[self.fault]
        return status, body if told is None else told, content_type, extra

    def state(self):
        shown = {name: getattr(self, name) for name in ("fault", "path", "vms", "methods", "times", "headers")}
        for key in _KEYS[self.fault]:
            shown[key.rstrip("*")] = getattr(self, key.rstrip("*"))
        return {**shown, "served": self.served}


def throttle_headers(settings):
    return {} if settings.retry_after is None else {"Retry-After": str(settings.retry_after)}


class Faults:
    """In the order in which they were set; the first that matches a request is served."""

    def __init__(self):
        self._lock = threading.Lock()
        self._faults = []

    def add(self, values, where, world):
        """All of the faults or, when one of them is wrong, none."""
        faults = [
            _read_fault(value, f"{where} {number}" if len(values) > 1 else where, world)
            for number, value in enumerate(values, start=1)
        ]
        with self._lock:
            self._faults += faults
            return [fault.state() for fault in faults]

    def clear(self):
        with self._lock:
            self._faults = []

    def state(self):
        with self._lock:
            return [fault.state() for fault in self._faults]

    def take(self, area, method, vm):
        """The fault for a request, its ``times`` counted down; None when there is none."""
        with self._lock:
            for fault in self._faults:
                if fault.matches(area, method, vm):
                    fault.served += 1
                    if fault.times is not None:
                        fault.times -= 1
                        if fault.times == 0:
                            self._faults.remove(fault)
                    return fault
        return None


def _read_fault(value, where, world):
    fields = Fields(value, where)
    kind = fields.take("fault", one_of(*_KEYS))
    fault = Fault(
        fault=kind,
        path=fields.take("path", one_of("scheduledevents", "instance", "any"), "scheduledevents"),
        vms=fields.take("vms", or_null(list_of(text)), None),
        methods=fields.take("methods", or_null(list_of(one_of(*_METHODS))), None),
        times=fields.take("times", or_null(whole(1)), None),
        headers=fields.take("headers", map_of(header_text), {}),
    )
    for name in fault.headers:
        if not name or not all(character.isalnum() or character in "-_" for character in name) or not name.isascii():
            raise Refused(f"{where}: headers: {show(name)} is not the name of a header.")
    if fault.vms is not None:
        fault.vms = [world.vm_named(name, f"{where}: vms") for name in fault.vms]
    statuses = {"redirect": one_of(301, 302, 303, 307, 308), "proxy_agent": one_of(421, 403)}
    checks = {
        "status": statuses.get(kind, whole(200, 599)),
        "body": sendable_text,
        "content_type": header_text,
        "seconds": seconds,
        "by_azure": flag,
    }
    for key in _KEYS[kind]:
        name = key.rstrip("*")
        if key.endswith("*") or fields.has(name):
            setattr(fault, name, fields.take(name, checks[name]))
        else:
            fields.take(name, checks[name], None)
    fields.end()
    if fault.by_azure and fault.status != 403:
        raise Refused(f"{where}: by_azure needs the status 403; 421 comes from the agent alone.")
    return fault
