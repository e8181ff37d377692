# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The /metadata/ routes, as Azure answers them."""

from __future__ import annotations

import json
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from simulator import wire
from simulator.faults import TOO_MANY, throttle_headers
from simulator.timeline import short

_EVENTS = "/metadata/scheduledevents"
_INSTANCE = "/metadata/instance"
_COMPUTE = "/metadata/instance/compute"
_NAME = "/metadata/instance/compute/name"
_VERSIONS = "/metadata/versions"
_AREAS = {_EVENTS: "scheduledevents", _INSTANCE: "instance", _COMPUTE: "instance", _NAME: "instance"}
_MORE = " For more information refer to aka.ms/azureimds"
# The field sets of /instance follow the api-version as well.
_COMPUTE_SINCE = {"vmId": "2017-04-02", "placementGroupId": "2017-08-01", "vmScaleSetName": "2017-12-01"}
_COMPUTE_SINCE.update({"resourceId": "2019-03-11", "osProfile": "2020-07-15"})


@dataclass
class Request:
    vm: str
    method: str
    path: str
    query: str
    headers: Any
    body: bytes


@dataclass
class Answer:
    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict = field(default_factory=dict)


class _Rejected(Exception):
    def __init__(self, status, error, headers=None, **more):
        super().__init__(error)
        self.answer = Answer(status, wire.compact({"error": error, **more}), headers=headers or {})


def area_of(path):
    """Which part of IMDS a fault must name to meet this path."""
    return _AREAS.get(path, "other")


class Imds:
    def __init__(self, world):
        self._world = world
        self._recent = {}

    def answer(self, request):
        """The answer to a request. The world must be locked and settled; its lock may be let go meanwhile."""
        try:
            self._throttle(request.vm)
            return self._route(request)
        except _Rejected as rejected:
            return rejected.answer

    def _throttle(self, vm):
        limit = self._world.settings.rate_limit
        if not limit:
            return
        now = self._world.clock.now()
        recent = self._recent.setdefault(vm, deque())
        while recent and recent[0] <= now - 1:
            recent.popleft()
        if len(recent) >= limit:
            raise _Rejected(429, TOO_MANY, headers=throttle_headers(self._world.settings))
        recent.append(now)

    def _route(self, request):
        routes = {
            _EVENTS: ("GET, POST", self._scheduled_events),
            _INSTANCE: ("GET", self._instance),
            _COMPUTE: ("GET", self._instance),
            _NAME: ("GET", self._name),
            _VERSIONS: ("GET", self._versions),
        }
        if request.path not in routes:
            raise _Rejected(404, "Not found")
        verbs, handle = routes[request.path]
        if request.method not in verbs.split(", "):
            raise _Rejected(405, f"Method not allowed. Supported: {verbs}", headers={"Allow": verbs})
        return handle(request, self._query(request))

    def _query(self, request):
        """The query, after the checks that all routes share."""
        pairs = parse_qsl(request.query, keep_blank_values=True)
        query = {name.lower(): value for name, value in pairs}
        if len(query) < len(pairs):
            raise _Rejected(400, "Bad request. Duplicate query parameter." + _MORE)
        if request.headers.get("X-Forwarded-For") is not None and self._world.settings.forwarded_for == 400:
            raise _Rejected(400, "Bad request. Header X-Forwarded-For is not allowed." + _MORE)
        events_version = query.get("api-version") if request.path == _EVENTS else None
        if wire.header_required(events_version) and request.headers.get("Metadata", "").strip().lower() != "true":
            raise _Rejected(400, "Bad request. Required metadata header not specified")
        if request.path != _VERSIONS:
            known = wire.VERSIONS if request.path == _EVENTS else wire.INSTANCE_VERSIONS
            if query.get("api-version") not in known:
                raise _Rejected(
                    400,
                    "Bad request. api-version is invalid or was not specified in the request." + _MORE,
                    **{"newest-versions": sorted(known, reverse=True)[:3]},
                )
        return query

    # --- scheduled events ---------------------------------------------------------------------------------------

    def _scheduled_events(self, request, query):
        scope = self._world.scope_of(request.vm)
        ready_at = self._world.touch(scope)
        if request.method == "POST":
            return self._approve(request, scope, query["api-version"])
        self._world.wait_until(ready_at)
        return self._document(request, scope, query["api-version"])

    def _document(self, request, scope, version):
        world = self._world
        incarnation = world.incarnation(scope)
        answer = Answer(200, wire.document(incarnation, world.listed(scope), version, world.settings))
        if world.settings.etag:
            etag = f'"{incarnation}"'
            answer.headers["ETag"] = etag
            if request.method == "GET" and request.headers.get("If-None-Match", "").strip() == etag:
                return Answer(304, headers={"ETag": etag})
        return answer

    def _approve(self, request, scope, version):
        world = self._world
        try:
            wanted = _start_requests(request.body)
            self._check_incarnation(wanted, scope)
            ids = [item["EventId"] for item in wanted["StartRequests"]]
            listed = {event.listed_id: event for event in world.listed(scope)}
            unknown = [event_id for event_id in ids if event_id.upper() not in listed]
            # Nothing of a request is carried out when a part of it is refused.
            if unknown and world.settings.unknown_event_id == 400:
                raise _Rejected(400, f"Bad request. EventId {short(unknown[0])} is not in the document.")
        except _Rejected as rejected:
            world.timeline.add("vm", f"sent an approval that was refused: {rejected}", request.vm)
            raise
        for event_id in ids:
            if event_id in unknown:
                world.timeline.add("vm", f"approved {short(event_id)}, which no document lists", request.vm)
            else:
                world.approve(request.vm, listed[event_id.upper()])
        # An event approved without a delay has started when the answer is written.
        world.settle()
        return self._document(request, scope, version) if world.settings.post_body == "document" else Answer(200)

    def _check_incarnation(self, wanted, scope):
        if self._world.settings.stale_incarnation != 400 or "DocumentIncarnation" not in wanted:
            return
        # The pages of 2017 post it back as a string.
        if str(wanted["DocumentIncarnation"]) != str(self._world.incarnation(scope)):
            raise _Rejected(400, "Bad request. DocumentIncarnation is not the current one.")

    # --- instance -----------------------------------------------------------------------------------------------

    def _name(self, request, query):
        if query.get("format") != "text":
            raise _Rejected(400, "Bad request. Missing required parameter format=text.")
        if self._world.settings.instance_name == "missing":
            raise _Rejected(404, "Not found")
        return Answer(200, request.vm.encode("utf-8"), "text/plain")

    def _instance(self, request, query):
        if query.get("format", "json") != "json":
            raise _Rejected(400, "Bad request. Only format=json is simulated here.")
        missing = self._world.settings.instance_name == "missing"
        if request.path == _COMPUTE:
            if missing:
                raise _Rejected(404, "Not found")
            return Answer(200, wire.compact(self._compute(request.vm, query["api-version"])))
        compute = {} if missing else {"compute": self._compute(request.vm, query["api-version"])}
        return Answer(200, wire.compact({**compute, "network": {"interface": []}}))

    def _compute(self, vm, version):
        scope = self._world.scope_of(vm)
        subscription = "00000000-0000-0000-0000-000000000000"
        group = f"/subscriptions/{subscription}/resourceGroups/simulator"
        members = {
            "location": "simulated",
            "name": vm,
            "osProfile": {"adminUsername": "azureuser", "computerName": vm},
            "osType": "Linux",
            "placementGroupId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"scope:{scope.name}")),
            "resourceGroupName": "simulator",
            "resourceId": f"{group}/providers/Microsoft.Compute/virtualMachines/{vm}",
            "subscriptionId": subscription,
            "vmId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"vm:{vm}")),
            "vmScaleSetName": "",
        }
        return {name: value for name, value in members.items() if version >= _COMPUTE_SINCE.get(name, "")}

    def _versions(self, _request, _query):
        return Answer(200, wire.compact({"apiVersions": wire.INSTANCE_VERSIONS}))


def _start_requests(body):
    """The body of a POST. Its Content-Type does not matter: Azure's own samples send none, or a wrong one."""
    try:
        wanted = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _Rejected(400, "Bad request. The body is not JSON.") from error
    requests = wanted.get("StartRequests") if isinstance(wanted, dict) else None
    if not isinstance(requests, list) or not requests:
        raise _Rejected(400, "Bad request. The body has no list StartRequests with a member.")
    if not all(isinstance(item, dict) and isinstance(item.get("EventId"), str) for item in requests):
        raise _Rejected(400, "Bad request. A member of StartRequests has no EventId.")
    return wanted
