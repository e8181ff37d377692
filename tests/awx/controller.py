# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for AWX 24 on loopback: as much of its API as awx.awx needs to set things up, and the VM to start jobs.

It answers as AWX does, in its words where they matter, and refuses what AWX would refuse. A call nobody expected is
answered with 501 and kept in ``unexpected``.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from ansible_collections.fleetops.azure_maintenance.tests.awx import rules

TOKEN = "t0ken-of-awx"
PROMPTS = ("variables", "limit", "job_type", "inventory", "scm_branch", "tags", "skip_tags", "diff_mode", "verbosity")
TEMPLATE = {
    "name": "",
    "description": "",
    "organization": None,
    "inventory": None,
    "extra_vars": "",
    "survey_enabled": False,
    "allow_simultaneous": False,
    **{f"ask_{prompt}_on_launch": False for prompt in PROMPTS},
}
# The fields of each kind, with what AWX gives to one that is not sent
KINDS = {
    "organizations": {"name": ""},
    "inventories": {"name": "", "organization": None},
    "credentials": {"name": "", "organization": None},
    "execution_environments": {"name": "", "organization": None, "image": ""},
    "projects": {
        "name": "",
        "description": "",
        "organization": None,
        "scm_type": "",
        "scm_url": "",
        "scm_branch": "",
        "scm_update_on_launch": False,
        "default_environment": None,
        "scm_revision": "",
    },
    "job_templates": {
        **TEMPLATE,
        "project": None,
        "playbook": "",
        "job_type": "run",
        "job_slice_count": 1,
        "execution_environment": None,
        "host_config_key": "",
    },
    "workflow_job_templates": TEMPLATE,
    "workflow_job_template_nodes": {
        "identifier": "",
        "workflow_job_template": None,
        "unified_job_template": None,
        "extra_data": {},
        "all_parents_must_converge": False,
    },
    "schedules": {
        "name": "",
        "description": "",
        "unified_job_template": None,
        "rrule": "",
        "enabled": True,
        "extra_data": {},
    },
    "notification_templates": {
        "name": "",
        "description": "",
        "organization": None,
        "notification_type": "",
        "notification_configuration": {},
        "messages": None,
    },
}
UNIFIED = ("projects", "job_templates", "workflow_job_templates")
ASSOCIATIONS = {
    "credentials": "credentials",
    "notification_templates_success": "notification_templates",
    "notification_templates_error": "notification_templates",
    "success_nodes": "workflow_job_template_nodes",
    "always_nodes": "workflow_job_template_nodes",
    "failure_nodes": "workflow_job_template_nodes",
}


class Refused(Exception):
    """AWX refuses the request with this status and body."""

    def __init__(self, status, body):
        super().__init__(status, body)
        self.status, self.body = status, body


class Awx:
    """Everything AWX knows, by kind and id; ``playbooks`` are those that it found in the project."""

    def __init__(self, playbooks=()):
        self.playbooks = playbooks
        self.items = {kind: {} for kind in KINDS}
        self.surveys = {}
        self.links = {}
        self.hosts = {}  # of an inventory's id: {host: address}
        self.jobs = []
        self.busy = False  # jobs stay pending
        self.requests = []
        self.unexpected = []
        self._number = 0

    def add(self, kind, **fields):
        """Put something there as if a person had made it, and return it."""
        self._number += 1
        item = {**copy.deepcopy(KINDS[kind]), **fields, "id": self._number, "type": rules.TYPE_OF[kind]}
        item["url"] = f"/api/v2/{kind}/{self._number}/"
        item["related"] = {"survey_spec": item["url"] + "survey_spec/"} if "survey_enabled" in item else {}
        item["summary_fields"] = {"current_update": {"id": self._number}} if kind == "projects" else {}
        self.items[kind][self._number] = item
        return item

    def named(self, kind, name):
        (item,) = (item for item in self.items[kind].values() if item.get("name", item.get("identifier")) == name)
        return item

    def linked(self, item, association):
        return self.links.get((item["id"], association), [])

    def answer(self, method, path, query, body, address):
        """Return the status, the body and the headers for a request that may be made."""
        parts = path.strip("/").split("/")[2:]
        if parts[0] == "project_updates" and method == "GET":
            return 200, {"id": int(parts[1]), "status": "successful"}, {}
        if len(parts) == 1 and (parts[0] in KINDS or parts[0] == "unified_job_templates"):
            if method == "GET":
                return 200, rules.page(self._list(parts[0], query)), {}
            if method == "POST":
                item = self.add(parts[0], **self._accept(parts[0], body, None))
                return 201, item, {}
        if len(parts) >= 2 and parts[0] in KINDS:
            item = self._find(parts[0], unquote(parts[1]))
            if len(parts) == 2:
                return self._one(method, parts[0], item, body)
            return self._part(method, item, parts[2], body, address)
        raise NotImplementedError(f"{method} {path}")

    def _find(self, kind, name):
        name, _plus, organization = name.partition("++")
        for item in self.items[kind].values():
            if name == str(item["id"]) or (
                organization and name == item["name"] and self._name_of("organizations", item) == organization
            ):
                return item
        raise Refused(404, {"detail": "Not found."})

    def _name_of(self, kind, item):
        return self.items[kind][item["organization"]]["name"] if item["organization"] else ""

    def _list(self, kind, query):
        items = [item for one in UNIFIED for item in self.items[one].values()]
        items = items if kind == "unified_job_templates" else list(self.items[kind].values())
        query.pop("page_size", None)
        either = {name[4:]: query.pop(name) for name in list(query) if name.startswith("or__")}
        for name in (*query, *either):
            if items and name not in items[0]:
                raise Refused(400, {"detail": f"{kind} has no field named '{name}'"})
        items = [item for item in items if all(str(item[name]) == value for name, value in query.items())]
        return [item for item in items if not either or any(str(item[n]) == value for n, value in either.items())]

    def _one(self, method, kind, item, body):
        if method == "PATCH":
            item.update(self._accept(kind, body, item))
        elif method != "GET":
            raise NotImplementedError(f"{method} {item['url']}")
        return 200, item, {}

    def _accept(self, kind, body, old):
        """Return what AWX keeps of the fields that it was sent."""
        fields = {name: value for name, value in body.items() if name in KINDS[kind]}
        whole = {**KINDS[kind], **(old or {}), **fields}
        twins = [
            item
            for item in self.items[kind].values()
            if item is not old
            and "name" in item
            and (item["name"], item.get("organization")) == (whole["name"], whole.get("organization"))
        ]
        if kind == "job_templates":
            # Which is the project's, whatever was sent
            fields["organization"] = self.items["projects"][whole["project"]]["organization"]
            if whole["playbook"] not in self.playbooks:
                raise Refused(400, {"playbook": ["Playbook not found for project."]})
        elif kind == "schedules":
            rules.check_rrule(whole["rrule"])
        elif kind == "notification_templates":
            rules.check_notification(whole)
        elif kind == "workflow_job_template_nodes":
            twins = []
        if twins:
            raise Refused(400, {"__all__": [f"{rules.TYPE_OF[kind]} with this name already exists."]})
        return fields

    def _part(self, method, item, part, body, address):
        if part == "survey_spec":
            if method == "POST":
                rules.check_survey(body)
                self.surveys[item["id"]] = body
                return 200, None, {}
            return 200, self.surveys.get(item["id"], {}), {}
        if part in ASSOCIATIONS:
            kind, links = ASSOCIATIONS[part], self.links.setdefault((item["id"], part), [])
            if method == "GET":
                return 200, rules.page([self.items[kind][number] for number in links]), {}
            (links.remove if body.get("disassociate") else links.append)(body["id"])
            return 204, None, {}
        if part == "launch" and method == "POST":
            return self._launch(item, body)
        if part == "callback" and method == "POST":
            return self._callback(item, body, address)
        raise NotImplementedError(f"{method} {item['url']}{part}/")

    def start(self, item, **more):
        job = {"id": 100 + len(self.jobs), "job_template": item["id"], "name": item["name"], **more}
        self.jobs.append(job)
        return job, {"Location": f"/api/v2/jobs/{job['id']}/"}

    def _launch(self, item, body):
        given = body.get("extra_vars", {})
        survey = self.surveys.get(item["id"], {}).get("spec", []) if item["survey_enabled"] else []
        errors = [error for question in survey for error in rules.check_answer(question, given)]
        if errors:
            raise Refused(400, {"variables_needed_to_start": errors})
        asked = {question["variable"] for question in survey}
        kept = {name: value for name, value in given.items() if item["ask_variables_on_launch"] or name in asked}
        ignored = {name: value for name, value in given.items() if name not in kept}
        job, headers = self.start(item, extra_vars=kept)
        return 201, {"job": job["id"], "ignored_fields": {"extra_vars": ignored} if ignored else {}, **job}, headers

    def _callback(self, item, body, address):
        key = body.get("host_config_key", "")
        if not key or key != item["host_config_key"]:
            raise Refused(403, {"detail": "You do not have permission to perform this action."})
        if not item["inventory"]:
            raise Refused(400, {"msg": "Cannot start automatically, an inventory is required."})
        hosts = self.hosts.get(item["inventory"], {})
        found = [host for host, known_as in hosts.items() if address in (host, known_as)]
        if len(found) != 1:
            said = "Multiple hosts matched the request!" if found else "No matching host could be found!"
            raise Refused(400, {"msg": said})
        survey = self.surveys.get(item["id"], {}).get("spec", []) if item["survey_enabled"] else []
        if any(question["required"] and "default" not in question for question in survey):
            raise Refused(400, {"msg": "Cannot start automatically, user input required!"})
        if self.busy and any(job.get("limit") == found[0] for job in self.jobs):
            raise Refused(400, {"msg": "Host callback job already pending."})
        kept = body.get("extra_vars") or {} if item["ask_variables_on_launch"] else {}
        _job, headers = self.start(item, limit=found[0], extra_vars=kept)
        return 201, None, headers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: else each answer waits for the acknowledgement of its head

    def log_message(self, *_arguments):
        pass

    def respond(self):
        awx, parts = self.server.awx, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else {}
        try:
            if not parts.path.endswith("/callback/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Refused(401, {"detail": "Authentication credentials were not provided."})
            with self.server.lock:
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                status, answer, headers = awx.answer(self.command, parts.path, query, body, self.client_address[0])
        except (Refused, rules.Wrong) as refused:
            status, answer, headers = getattr(refused, "status", 400), refused.body, {}
        except NotImplementedError as call:
            awx.unexpected.append(str(call))
            status, answer, headers = 501, {"detail": f"unexpected: {call}"}, {}
        awx.requests.append((self.command, re.sub(r"/api/v2", "", parts.path), body, status))
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        standard = {"X-API-Product-Name": "AWX", "X-API-Product-Version": "24.6.1", "Content-Type": "application/json"}
        for name, value in {**standard, **headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = respond


def serve(awx):
    """Start it on a free port of loopback, and return the server; its ``url`` is where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.awx, server.lock = awx, threading.Lock()
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
