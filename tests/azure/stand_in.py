# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for Azure Resource Manager and for the login endpoint, on loopback, by TLS.

It is stricter than Azure: an unknown field, a wrong api-version, a missing ETag and a token for another audience are
refused. Its answers are those of Microsoft's tests, examples and pages. Microsoft's clients ask it in test_clients.py.
It shares no code with the product.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import http.server
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from email.utils import formatdate

TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT_ID = "8d1c7b6e-5a52-4c9a-9d3e-1f2a3b4c5d6e"
SECRET = "s3cret~of.the_service-principal"
FEDERATED_TOKEN = "eyJhbGciOiJSUzI1NiJ9.from-kubernetes.signature"
SUBSCRIPTION = "5b4b650e-28b9-4790-b3ab-ddbd88d727c4"
AUDIENCE = "https://management.stand-in.example/"
# What most tests have: a VM, and an event of it
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/web/providers/Microsoft.Compute"
VM = f"{GROUP}/virtualMachines/web-1"
EVENT = "3da1b9aa-5204-4335-8c33-c54e315dcffe"

_GRAPH_VERSIONS = ("2021-03-01", "2022-10-01")
_MAINTENANCE_VERSIONS = ("2025-10-01-preview",)
_SINGLE_VERSIONS = ("2023-10-01-preview", *_MAINTENANCE_VERSIONS)
# The first that has every setting of the policy, and that of azure-mgmt-compute 39
_COMPUTE_VERSIONS = ("2025-04-01", "2026-04-01")
# That of azure.azcollection 3.12
_INVENTORY_VERSIONS = ("2024-07-01",)

_PARENT = (
    r"/subscriptions/(?P<subscription>[^/]+)/resourcegroups/(?P<group>[^/]+)/providers/microsoft\.compute/"
    r"(?P<kind>virtualmachines|virtualmachinescalesets|availabilitysets)/(?P<name>[^/]+)"
)
_EVENTS = _PARENT + r"/providers/microsoft\.maintenance/scheduledevents"
_GUID = r"[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}"

_APPROVED = {"value": "Successfully Approved"}
_NOT_FOUND = {"error": {"code": "InvalidScheduledEventId", "message": "Scheduled event not found"}}
_BAD_ID = {
    "error": {
        "code": "BadRequest",
        "message": "Invalid resource type or parameters. The valid ResourceParentTypes are virtualMachines, "
        "virtualMachineScaleSets and availabilitySets. ScheduledEventId has to be GUID.",
    }
}
WRONG_REGION = {
    "error": {
        "code": "NotImplemented",
        "message": "This operation is not supported in the region of resource provided. ",
    }
}
INTERNAL = {
    "error": {
        "code": "InternalServerError",
        "message": "Encountered an internal service error. Please try again later.",
    }
}
_MULTI_STATUS = (
    "The operation returned different statuses for the Scheduled Events. Review each event's result for details."
)

_BOOLS = {"automaticallyApprove": bool}
_POLICY = {
    "scheduledEventsAdditionalPublishingTargets": {
        "eventGridAndResourceGraph": {"enable": bool, "scheduledEventsApiVersion": str}
    },
    "userInitiatedRedeploy": _BOOLS,
    "userInitiatedReboot": _BOOLS,
    "allInstancesDown": _BOOLS,
}
_NOTICE = {"notBeforeTimeout": str, "enable": bool}
_PROFILE = {"terminateNotificationProfile": _NOTICE, "osImageNotificationProfile": _NOTICE}
# What a PATCH of each kind may have, as the models of azure-mgmt-compute say
_PATCHES = {
    "virtualmachines": {"properties": {"scheduledEventsPolicy": _POLICY, "scheduledEventsProfile": _PROFILE}},
    "virtualmachinescalesets": {"properties": {"virtualMachineProfile": {"scheduledEventsProfile": _PROFILE}}},
    "availabilitysets": {"properties": {"scheduledEventsPolicy": _POLICY}},
}


class RefusedError(Exception):
    """The stand-in refuses a request, with this status and body."""

    def __init__(self, status, code, message, **headers):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message}}
        self.headers = headers


class Azure:
    """What the stand-in knows, and what was asked of it.

    :ivar rows: of the table maintenanceresources; health_rows: of healthresources.
    :ivar resources: VMs, scale sets and availability sets, by their id in lower case.
    :ivar journal: every request, as dictionaries; without tokens and secrets.
    :ivar audiences: for which a token must be.
    :ivar faults: are used up by the requests that they match, the first first.
    :ivar approved: (id of the resource, id of the event) for each approval that was taken.
    :ivar after_approval: is called with the row of an event once its approval was taken.
    :ivar before_write, after_write: are called before a resource is changed and afterwards.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.rows = []
        self.health_rows = []
        self.resources = {}
        self.journal = []
        self.faults = []
        self.approved = []
        self.after_approval = None
        self.before_write = None
        self.after_write = None
        self.page_size = 1000
        self.quota = 15
        self.token_seconds = 3600
        self.tokens = {}
        self.audiences = [AUDIENCE]
        self.logins = 0
        self.clock_ahead = 0.0
        self.asynchronous = False
        self.operations = {}
        self.certificates = {}
        self.over = threading.Event()
        self.url = ""

    def add_fault(self, part, status=500, body=None, times=1, after=0, **headers):
        """Answer requests whose path has this part with a status, or a word: hang, reset, take, garble, dribble.

        :param after: how many such requests are answered as usual before. With ``take``, the approval is taken, and the
            connection reset before the answer. With ``garble`` it is taken, and the answer is no TLS, as of a firewall.
        """
        self.faults.append(
            {"part": part.lower(), "status": status, "body": body, "times": times, "after": after, "headers": headers}
        )

    def find_fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault["part"] not in path.lower():
                    continue
                if fault["after"]:
                    fault["after"] -= 1
                    return None
                fault["times"] -= 1
                if fault["times"] <= 0:
                    self.faults.remove(fault)
                return fault
        return None

    def requests(self, part):
        """Return the requests whose path has this part."""
        return [each for each in self.journal if part.lower() in each["path"].lower()]

    def add_event(self, event_id, parent, resources, properties=None, **row):
        """Add a row as Resource Graph has it; properties and columns may be given, None leaves one out."""
        group = re.fullmatch(_PARENT, parent.lower())
        content = {
            "EventId": event_id,
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": resources,
            "EventStatus": "Scheduled",
            "NotBefore": formatdate(time.time() + 900, usegmt=True),
            "Description": "Host server is undergoing maintenance.",
            "EventSource": "Platform",
            "DurationInSeconds": 9,
            "ScheduledEventApiVersion": "2020-07-01",
            **(properties or {}),
        }
        entry = {
            "id": f"{parent}/providers/Microsoft.Maintenance/scheduledevents/{event_id}",
            "name": event_id.lower(),
            "type": "microsoft.maintenance/scheduledevents",
            "tenantId": TENANT,
            "location": "westeurope",
            "resourceGroup": group["group"],
            "subscriptionId": group["subscription"],
            "zones": None,
            "properties": {name: value for name, value in content.items() if value is not None},
            **row,
        }
        self.rows.append(entry)
        return entry

    def add_health(self, vm_id, **properties):
        """Add a row of the table healthresources."""
        content = {
            "targetResourceId": vm_id,
            "targetResourceType": "microsoft.compute/virtualmachines",
            "annotationName": "VirtualMachineHostRebootedForMaintenance",
            "reason": "",
            "category": "Planned",
            "context": "Platform-Initiated",
            "summary": "The host was rebooted for planned maintenance.",
            "occurredTime": "2026-11-21T10:00:00.0000000Z",
            **properties,
        }
        name = str(uuid.uuid4())
        self.health_rows.append(
            {
                "id": f"{vm_id}/providers/Microsoft.ResourceHealth/resourceAnnotations/{name}",
                "name": name,
                "type": "microsoft.resourcehealth/resourceannotations",
                "subscriptionId": vm_id.split("/")[2],
                "properties": content,
            }
        )

    def add_resource(self, resource_id, **properties):
        """Add a VM, scale set or availability set."""
        kind = re.fullmatch(_PARENT, resource_id.lower())["kind"]
        resource = {
            "id": resource_id,
            "name": resource_id.rsplit("/", 1)[1],
            "type": "Microsoft.Compute/" + resource_id.split("/")[-2],
            "location": "westeurope",
            "tags": {"owner": "anna"},
            "properties": {"provisioningState": "Succeeded", **properties},
        }
        if kind != "availabilitysets":
            resource["etag"] = '"1"'
        if kind == "virtualmachinescalesets":
            resource["sku"] = {"name": "Standard_D2s_v5", "capacity": 2}
            resource["properties"].setdefault("virtualMachineProfile", {"priority": "Regular"})
        self.resources[resource_id.lower()] = resource
        return resource


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "stand-in"
    sys_version = ""
    # A connection that a client keeps open must not keep a thread for ever.
    timeout = 60

    def setup(self):
        self.request.settimeout(10)
        self.request.do_handshake()
        super().setup()

    def log_message(self, *_args):
        pass

    def date_time_string(self, timestamp=None):
        return formatdate((timestamp or time.time()) + self.azure.clock_ahead, usegmt=True)

    @property
    def azure(self):
        return self.server.azure

    def _serve(self):
        split = urllib.parse.urlsplit(self.path)
        self.route = urllib.parse.unquote(split.path)
        self.query = dict(urllib.parse.parse_qsl(split.query))
        length = int(self.headers.get("Content-Length") or 0)
        self.raw = self.rfile.read(length)
        self._note()
        fault = self.azure.find_fault(self.route)
        word = fault["status"] if fault else None
        if word == "hang":
            self.azure.over.wait(120)
            self.close_connection = True
            return
        if word == "reset":
            self._reset()
            return
        if word == "dribble":
            self._dribble()
            return
        if fault and word not in ("take", "garble"):
            self._answer(word, fault["body"], fault["headers"])
            return
        try:
            with self.azure.lock:
                status, body, headers = self._route()
        except RefusedError as refused:
            status, body, headers = refused.status, refused.body, refused.headers
        if word == "take":
            self._reset()
            return
        if word == "garble":
            self._garble()
            return
        self._answer(status, body, headers)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve

    def _note(self):
        entry = {"method": self.command, "path": self.route, "query": self.query, "body": self._readable()}
        entry["headers"] = {name.lower(): value for name, value in self.headers.items() if name != "Authorization"}
        entry["authorized"] = "Authorization" in self.headers
        self.azure.journal.append(entry)

    def _readable(self):
        if "/oauth2/" in self.route:
            form = dict(urllib.parse.parse_qsl(self.raw.decode()))
            return {name: value for name, value in form.items() if name not in ("client_secret", "client_assertion")}
        try:
            return json.loads(self.raw) if self.raw else None
        except ValueError:
            return self.raw.decode(errors="replace")

    def _reset(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.request.close()

    def _garble(self):
        self.close_connection = True
        with socket.socket(fileno=self.request.detach()) as plain:
            plain.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    def _dribble(self):
        """Send an answer byte by byte, so that no limit of a single read ever trips."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
            while not self.azure.over.wait(0.1):
                self.wfile.write(b" ")
                self.wfile.flush()

    def _answer(self, status, body, headers):
        text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
        content = text.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(content)

    # What there is

    def _route(self):
        for method, pattern, serve in _ROUTES:
            found = re.fullmatch(pattern, self.route, re.IGNORECASE)
            if found and method == self.command:
                return serve(self, **found.groupdict())
        raise RefusedError(404, "ResourceNotFound", f"There is no {self.command} {self.route}.")

    def _need_version(self, versions):
        if set(self.query) != {"api-version"}:
            raise RefusedError(400, "MissingApiVersionParameter", "api-version is required, and nothing else.")
        if self.query["api-version"] not in versions:
            raise RefusedError(400, "InvalidApiVersionParameter", f"api-version must be one of {versions}.")

    def _need_token(self):
        scheme, _space, token = self.headers.get("Authorization", "").partition(" ")
        known = self.azure.tokens.get(token)
        if scheme != "Bearer" or known is None:
            raise RefusedError(
                401, "InvalidAuthenticationToken", "The access token is invalid.", WWW_Authenticate="Bearer"
            )
        if known["audience"] not in self.azure.audiences:
            raise RefusedError(
                401, "InvalidAuthenticationTokenAudience", f"The access token is for {known['audience']}."
            )
        if known["expires"] < time.time():
            raise RefusedError(401, "ExpiredAuthenticationToken", "The access token has expired.")

    def _json(self):
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            raise RefusedError(415, "UnsupportedMediaType", "The body must be JSON.")
        try:
            body = json.loads(self.raw)
        except ValueError:
            raise RefusedError(400, "InvalidRequestContent", "The request content is no JSON.") from None
        if not isinstance(body, dict):
            raise RefusedError(400, "InvalidRequestContent", "The request content is no object.")
        return body

    # Clouds and logins

    def _metadata(self):
        self._need_version(("2022-09-01", "2015-01-01"))
        return (
            200,
            {
                "name": "StandIn",
                "resourceManager": self.azure.url,
                "graph": f"{self.azure.url}/graph/",
                "graphAudience": "https://graph.stand-in.example/",
                "graphEndpoint": f"{self.azure.url}/graph/",
                "galleryEndpoint": f"{self.azure.url}/gallery/",
                "portalEndpoint": f"{self.azure.url}/portal/",
                "authentication": {
                    "loginEndpoint": f"{self.azure.url}/",
                    "audiences": [AUDIENCE],
                    "tenant": "common",
                    "identityProvider": "AAD",
                },
                "suffixes": {},
            },
            {},
        )

    def _openid(self, tenant):
        base = f"{self.azure.url}/{tenant}"
        return (
            200,
            {
                "issuer": f"{base}/v2.0",
                "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/oauth2/v2.0/token",
                "device_authorization_endpoint": f"{base}/oauth2/v2.0/devicecode",
                "tenant_region_scope": "EU",
            },
            {},
        )

    def _token(self, tenant):
        form = dict(urllib.parse.parse_qsl(self.raw.decode()))
        if tenant != TENANT:
            return 400, _login_error("invalid_request", "AADSTS90002: Tenant not found."), {}
        if form.get("grant_type") != "client_credentials" or form.get("client_id") != CLIENT_ID:
            return 400, _login_error("unauthorized_client", "AADSTS700016: Application was not found."), {}
        if "client_secret" in form:
            right = form["client_secret"] == SECRET
        else:
            right = self._is_assertion_right(form.get("client_assertion", ""))
        if not right:
            return 401, _login_error("invalid_client", "AADSTS7000215: Invalid client secret provided."), {}
        scope = form.get("scope", "")
        if not scope.endswith("/.default"):
            return 400, _login_error("invalid_scope", "AADSTS70011: The provided scope is not valid."), {}
        return 200, self._issue(scope[: -len("/.default")]), {}

    def _is_assertion_right(self, assertion):
        if assertion == FEDERATED_TOKEN:
            return True
        with contextlib.suppress(ValueError, IndexError, KeyError):
            header = json.loads(_decode(assertion.split(".")[0]))
            return any(str(header.get(name)).rstrip("=") in self.azure.certificates for name in ("x5t", "x5t#S256"))
        return False

    def _issue(self, audience):
        """Make a token for the audience, which Azure knows with and without a slash at its end."""
        now = time.time()
        audience = AUDIENCE if audience.rstrip("/") == AUDIENCE.rstrip("/") else audience
        claims = {"aud": audience, "exp": int(now + self.azure.token_seconds), "tid": TENANT, "appid": CLIENT_ID}
        claims["jti"] = str(uuid.uuid4())
        token = ".".join(_encode(part) for part in ({"alg": "none"}, claims, {"signed": "not"}))
        self.azure.tokens[token] = {"audience": audience, "expires": now + self.azure.token_seconds}
        self.azure.logins += 1
        return {
            "token_type": "Bearer",
            "expires_in": self.azure.token_seconds,
            "ext_expires_in": self.azure.token_seconds,
            "access_token": token,
        }

    def _managed_identity(self):
        """The token service of App Service, which azure-identity asks where IDENTITY_ENDPOINT names it."""
        if self.headers.get("X-IDENTITY-HEADER") != SECRET:
            raise RefusedError(403, "Forbidden", "X-IDENTITY-HEADER is wrong.")
        issued = self._issue(self.query.get("resource", ""))
        answer = {name: issued[name] for name in ("access_token", "token_type")}
        expires = str(int(time.time() + self.azure.token_seconds))
        return 200, {**answer, "expires_on": expires, "resource": self.query.get("resource", "")}, {}

    def _subscriptions(self):
        self._need_token()
        entry = {
            "id": f"/subscriptions/{SUBSCRIPTION}",
            "subscriptionId": SUBSCRIPTION,
            "tenantId": TENANT,
            "displayName": "stand-in",
            "state": "Enabled",
            "managedByTenants": [],
        }
        return 200, {"value": [entry]}, {}

    # Resource Graph

    def _graph(self):
        self._need_token()
        self._need_version(_GRAPH_VERSIONS)
        body = self._json()
        _refuse_unknown(body, ("subscriptions", "managementGroups", "query", "options"), "the request")
        options = body.get("options") or {}
        _refuse_unknown(options, ("resultFormat", "$top", "$skip", "$skipToken", "allowPartialScopes"), "options")
        if options.get("resultFormat", "objectArray") != "objectArray":
            raise RefusedError(400, "BadRequest", "resultFormat must be objectArray.")
        top = options.get("$top", 100)
        if not isinstance(top, int) or not 1 <= top <= 1000:
            raise RefusedError(400, "BadRequest", "$top must be from 1 to 1000.")
        if bool(body.get("subscriptions")) == bool(body.get("managementGroups")):
            raise RefusedError(400, "BadRequest", "Either subscriptions or managementGroups is required.")
        if len(body.get("subscriptions") or ()) >= 300:
            raise RefusedError(400, "BadRequest", "At most 299 subscriptions a query.")
        if self.azure.quota <= 0:
            headers = {"Retry_After": "1", "x_ms_user_quota_remaining": "0", "x_ms_user_quota_resets_after": "00:00:01"}
            self.azure.quota = 15
            raise RefusedError(429, "RateLimiting", "Please provide below info when asking for support.", **headers)
        self.azure.quota -= 1
        wanted = [each.lower() for each in body.get("subscriptions") or ()]
        rows, ordered, columns = self._run_query(body["query"], wanted)
        mark = hashlib.sha256(json.dumps([body["query"], wanted]).encode()).hexdigest()[:16]
        start = 0
        if "$skipToken" in options and options["$skipToken"] is not None:
            with contextlib.suppress(ValueError):
                start = json.loads(_decode(options["$skipToken"])).get(mark, 0)
            if not start:
                raise RefusedError(400, "BadRequest", "The $skipToken belongs to another query.")
        top = min(top, self.azure.page_size)
        page = rows[start : start + top]
        answer = {"totalRecords": len(rows), "count": len(page), "data": page, "facets": [], "resultTruncated": "false"}
        if start + top < len(rows):
            if ordered and "id" in columns:
                answer["$skipToken"] = _encode({mark: start + top})
            else:
                answer["resultTruncated"] = "true"
        headers = {"x_ms_user_quota_remaining": self.azure.quota, "x_ms_user_quota_resets_after": "00:00:05"}
        return 200, answer, headers

    def _run_query(self, query, subscriptions):
        """Return the rows, whether they are in an order that lasts, and the columns; only a few operators are known."""
        table, *operators = [part.strip() for part in query.split("|")]
        tables = {"maintenanceresources": self.azure.rows, "healthresources": self.azure.health_rows}
        if table.lower() not in tables:
            raise RefusedError(400, "BadRequest", f"There is no table {table}.")
        # A management group has them all.
        rows, ordered, columns = list(tables[table.lower()]), False, ()
        if subscriptions:
            rows = [row for row in rows if row["id"].lower().split("/")[2] in subscriptions]
        for operator in operators:
            where = re.fullmatch(r'where type (==|=~) "([^"]+)"', operator)
            project = re.fullmatch(r"project ([A-Za-z]+(, *[A-Za-z]+)*)", operator)
            if where:
                # In Resource Graph types are in lower case, and == minds the case.
                folded = where[2].lower() if where[1] == "=~" else where[2]
                rows = [row for row in rows if str(row.get("type")).lower() == folded]
            elif project:
                columns = re.split(r", *", project[1])
                rows = [{name: row.get(name) for name in columns} for row in rows]
            elif operator == "order by id asc":
                rows, ordered = sorted(rows, key=lambda row: str(row.get("id"))), True
            else:
                raise RefusedError(400, "BadRequest", f"The stand-in does not know: {operator}")
        return rows, ordered, columns

    # Acknowledging

    def _acknowledge(self, event, **_parts):
        self._need_token()
        self._need_version(_SINGLE_VERSIONS)
        if self.raw:
            raise RefusedError(400, "BadRequest", "This call has no body.")
        parent = self.route[: self.route.lower().index("/providers/microsoft.maintenance")]
        if not re.fullmatch(_GUID, event.lower()):
            return 400, _BAD_ID, {}
        return (200, _APPROVED, {}) if self._approve(parent, event) else (404, _NOT_FOUND, {})

    def _acknowledge_list(self, **_parts):
        self._need_token()
        self._need_version(_MAINTENANCE_VERSIONS)
        body = self._json()
        _refuse_unknown(body, ("value",), "the request")
        ids = body.get("value")
        if not isinstance(ids, list) or not ids:
            return 400, _BAD_ID, {}
        if not all(isinstance(each, str) and re.fullmatch(_GUID, each.lower()) for each in ids):
            return 400, _BAD_ID, {}
        parent = self.route[: self.route.lower().index("/providers/microsoft.maintenance")]
        missing = [each for each in ids if not self._approve(parent, each)]
        if not missing:
            return 200, _APPROVED, {}
        details = [{"target": each, "code": "NotFound", "message": "Scheduled event not found"} for each in missing]
        error = {"code": "MultiStatusResponse", "message": _MULTI_STATUS, "details": details}
        return 207, {"error": error}, {}

    def _approve(self, parent, event_id):
        suffix = f"/providers/microsoft.maintenance/scheduledevents/{event_id.lower()}"
        for row in self.azure.rows:
            open_ = row["properties"].get("EventStatus") in ("Scheduled", "Started")
            if row["id"].lower() == parent.lower() + suffix and open_:
                self.azure.approved.append((parent, event_id))
                if self.azure.after_approval:
                    self.azure.after_approval(row)
                return True
        return False

    # Policies

    def _resource(self):
        self._need_token()
        self._need_version(_COMPUTE_VERSIONS)
        resource = self.azure.resources.get(self.route.lower())
        if resource is None:
            raise RefusedError(404, "ResourceNotFound", f"The Resource '{self.route}' was not found.")
        return resource

    def _read(self, **_parts):
        resource = self._resource()
        headers = {"ETag": resource["etag"]} if "etag" in resource else {}
        return 200, resource, headers

    def _list_vms(self, subscription):
        self._need_token()
        self._need_version(_INVENTORY_VERSIONS)
        begin = f"/subscriptions/{subscription.lower()}/"
        own = [each for key, each in self.azure.resources.items() if key.startswith(begin)]
        return 200, {"value": [each for each in own if each["type"].endswith("/virtualMachines")]}, {}

    def _instance_view(self, **_parts):
        self._need_token()
        self._need_version(_INVENTORY_VERSIONS)
        return 200, {"statuses": [{"code": "PowerState/running", "level": "Info", "displayStatus": "VM running"}]}, {}

    def _need_etag(self, resource):
        if self.azure.before_write:
            self.azure.before_write()
        if "etag" not in resource:
            return
        if "If-Match" not in self.headers:
            raise RefusedError(428, "PreconditionRequired", "If-Match is required.")
        if self.headers["If-Match"] != resource["etag"]:
            raise RefusedError(412, "PreconditionFailed", "The ETag is not that of the resource.")

    def _patch(self, kind, **_parts):
        resource = self._resource()
        self._need_etag(resource)
        body = self._json()
        _check_shape(body, _PATCHES[kind.lower()], "the request")
        content = body.get("properties", {})
        target = resource["properties"]
        if "virtualMachineProfile" in content:
            target, content = target["virtualMachineProfile"], content["virtualMachineProfile"]
        _refuse_in_set(resource, content)
        # What is sent takes the place of what was there: a setting that is left out is gone.
        target.update(copy.deepcopy(content))
        return self._written(resource)

    def _put(self, kind, **_parts):
        resource = self._resource()
        self._need_etag(resource)
        body = self._json()
        _refuse_unknown(body, ("location", "tags", "sku", "properties"), "the request")
        for name in ("location", "sku"):
            if name in resource and body.get(name) != resource[name]:
                raise RefusedError(400, "PropertyChangeNotAllowed", f"Changing property '{name}' is not allowed.")
        _check_shape(body["properties"].get("scheduledEventsPolicy", {}), _POLICY, "scheduledEventsPolicy")
        if kind.lower() != "virtualmachinescalesets":
            raise RefusedError(400, "BadRequest", "The stand-in takes a PUT of scale sets only.")
        resource.update(tags=body.get("tags", {}), properties=copy.deepcopy(body["properties"]))
        return self._written(resource)

    def _written(self, resource):
        if "etag" in resource:
            resource["etag"] = f'"{int(resource["etag"].strip(chr(34))) + 1}"'
        if self.azure.after_write:
            self.azure.after_write()
        if not self.azure.asynchronous:
            return 200, resource, {}
        name = str(uuid.uuid4())
        self.azure.operations[name] = {"left": 2, "status": self.azure.asynchronous}
        where = f"{self.azure.url}/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope"
        address = f"{where}/operations/{name}?api-version=2025-04-01"
        return 200, resource, {"Azure_AsyncOperation": address, "Retry_After": "0"}

    def _operation(self, operation):
        self._need_token()
        known = self.azure.operations[operation]
        known["left"] -= 1
        if known["left"] > 0:
            return 200, {"status": "InProgress"}, {"Retry_After": "0"}
        body = {"status": known["status"]}
        if known["status"] != "Succeeded":
            body["error"] = {"code": "OperationNotAllowed", "message": "It cannot be changed now."}
        return 200, body, {}


_VMS = r"/subscriptions/(?P<subscription>[^/]+)/providers/microsoft\.compute/virtualmachines"
_LOCATIONS = r"/subscriptions/[^/]+/providers/microsoft\.compute/locations/[^/]+"
_ROUTES = (
    ("GET", r"/metadata/endpoints", _Handler._metadata),
    ("GET", r"/(?P<tenant>[^/]+)/v2\.0/\.well-known/openid-configuration", _Handler._openid),
    ("POST", r"/(?P<tenant>[^/]+)/oauth2/v2\.0/token", _Handler._token),
    ("GET", r"/msi/token", _Handler._managed_identity),
    ("GET", r"/subscriptions", _Handler._subscriptions),
    ("POST", r"/providers/microsoft\.resourcegraph/resources", _Handler._graph),
    ("POST", _EVENTS + r"/(?P<event>[^/]+)/acknowledge", _Handler._acknowledge),
    ("POST", _EVENTS, _Handler._acknowledge_list),
    ("GET", _PARENT, _Handler._read),
    ("GET", _VMS, _Handler._list_vms),
    ("GET", _PARENT + r"/instanceview", _Handler._instance_view),
    ("PATCH", _PARENT, _Handler._patch),
    ("PUT", _PARENT, _Handler._put),
    ("GET", _LOCATIONS + r"/operations/(?P<operation>[^/]+)", _Handler._operation),
)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_args):
        """A client that went away is none of its faults."""


@contextlib.contextmanager
def serve(certificate):
    """Serve a stand-in on a free port of loopback, with a certificate and its key in one file.

    A thread of its own shakes hands with each client, so that one that says nothing stops nobody.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    azure = server.azure = Azure()
    azure.url = f"https://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield azure
    finally:
        azure.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _login_error(code, description):
    return {"error": code, "error_description": description, "error_codes": [int(re.search(r"\d+", description)[0])]}


def _encode(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _refuse_unknown(content, known, where):
    unknown = set(content) - set(known)
    if unknown:
        raise RefusedError(400, "InvalidRequestContent", f"{where} has unknown members: {sorted(unknown)}")


def _check_shape(content, shape, where):
    if not isinstance(content, dict):
        raise RefusedError(400, "InvalidRequestContent", f"{where} is no object.")
    _refuse_unknown(content, shape, where)
    for name, value in content.items():
        wanted = shape[name]
        if isinstance(wanted, dict):
            _check_shape(value, wanted, name)
        elif not isinstance(value, wanted):
            raise RefusedError(400, "InvalidParameter", f"{where}.{name} is no {wanted.__name__}.")
        elif name == "notBeforeTimeout" and not re.fullmatch(r"PT(5|6|7|8|9|1[0-5])M", value):
            raise RefusedError(400, "InvalidParameter", f"{where}.{name} must be from PT5M to PT15M.")


def _refuse_in_set(resource, content):
    members = [name for name in ("availabilitySet", "virtualMachineScaleSet") if resource["properties"].get(name)]
    if members and "scheduledEventsPolicy" in content:
        raise RefusedError(400, "BadRequest", "scheduledEventsPolicy is inherited from the set and cannot be set.")
