# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for AWX 24 on loopback: as much of its API as awx.awx needs to set things up, and the VM to start jobs.

It answers as AWX does, in its words where they matter, and refuses what AWX would refuse. A call nobody expected is
answered with 501 and kept in ``unexpected``.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
import ssl
import threading
from http.server import ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit

from ansible_collections.fleetops.azure_maintenance.tests.awx import access, launching, notifications, rules
from ansible_collections.fleetops.azure_maintenance.tests.awx.kinds import ASSOCIATIONS, EDGES, KINDS, TYPE_OF, UNIFIED
from ansible_collections.fleetops.azure_maintenance.tests.awx.rules import Refused
from ansible_collections.fleetops.azure_maintenance.tests.quiet_handler import QuietHandler

TOKEN = "t0ken-of-awx"
NOT_FOUND = {"detail": "Not found."}
SIGN_IN = "Authentication credentials were not provided. To establish a login session, visit /api/login/."


class Awx:
    """Everything AWX knows, by kind and id.

    :param repository: the folder that it gets as a project.
    :param gateway: it stands behind the gateway of Ansible Automation Platform 2.5, and is found at its path alone.
    """

    def __init__(self, repository=None, gateway=False):
        self.repository = repository
        self.repository_fault = ""  # why it cannot be fetched
        self.reaches_galaxy = True
        self.root = "/api/controller/" if gateway else "/api/"
        self.roots = {
            self.root: {"current_version": f"{self.root}v2/", "available_versions": {"v2": f"{self.root}v2/"}}
        }
        if gateway:
            self.roots["/api/"] = {"apis": {"gateway": "/api/gateway/", "controller": self.root, "eda": "/api/eda/"}}
        self.tokens = {TOKEN: access.Token()}
        self.items = {kind: {} for kind in KINDS}
        self.surveys = {}
        self.links = {}
        self.hosts = {}  # of an inventory's id: {host: address}, whether they are enabled or not
        self.jobs = []
        self.busy = False  # jobs stay pending
        self.requests = []
        self.unexpected = []
        self._number = 0

    def add(self, kind, /, **fields):
        """Put something there as if a person had made it, and return it."""
        self._number += 1
        item = {**copy.deepcopy(KINDS[kind]), **fields, "id": self._number, "type": TYPE_OF[kind]}
        item["url"] = f"/api/v2/{kind}/{self._number}/"
        item["related"] = {"survey_spec": item["url"] + "survey_spec/"} if "survey_enabled" in item else {}
        item["summary_fields"] = {}
        if kind == "projects":
            # As if its first update were long over
            item.update(status="successful", playbooks=self._listed_playbooks())
            item["related"]["update"] = item["url"] + "update/"
        if kind == "workflow_job_template_nodes":
            item.update({edge: self.links.setdefault((self._number, edge), []) for edge in EDGES})
        self.items[kind][self._number] = item
        return item

    def named(self, kind, name):
        (item,) = (item for item in self.items[kind].values() if item.get("name", item.get("identifier")) == name)
        return item

    def linked(self, item, association):
        return self.links.get((item["id"], association), [])

    def answer(self, method, path, query, body, address, token):
        """Return the status, the body and the headers for a request with this token; a callback needs none."""
        parts = [part for part in path.split("/") if part][2:]
        if path in ("/api/v2/ping/", "/api/v2/config/") and method == "GET":
            return 200, {"version": "24.6.1"}, {}
        if len(parts) == 1 and (parts[0] in KINDS or parts[0] == "unified_job_templates"):
            if method == "GET":
                found = self._list(parts[0], query)
                seen = [item for item in found if token.may(access.READ, item["id"], self._organization_of(item))]
                shown = [dict(_shown(item)) for item in seen]
                self._end_updates(seen)
                return 200, rules.page(shown), {}
            if method == "POST" and parts[0] != "project_updates":
                self._need(token, access.CHANGE, body)
                item = self.add(parts[0], **self._accept(parts[0], body, None))
                if parts[0] == "projects" and item["scm_type"]:
                    item["playbooks"] = []
                    self._begin_update(item)
                return 201, _shown(item), {}
        if len(parts) >= 2 and parts[0] in KINDS:
            item = self._find(parts[0], parts[1])
            # A name that somebody may not see is none to AWX.
            if token and not parts[1].isdigit() and not token.may(access.READ, item["id"], self._organization_of(item)):
                raise Refused(404, NOT_FOUND)
            if token:
                self._need(token, access.action(method, parts[2:]), item)
            if len(parts) == 2:
                return self._one(method, parts[0], item, body)
            return self._part(method, item, parts[2], body, address)
        raise NotImplementedError(f"{method} {path}")

    def _need(self, token, action, item):
        if not token.may(action, item.get("id"), self._organization_of(item)):
            raise Refused(403, access.FORBIDDEN)

    def _organization_of(self, item):
        """Return the id of the organization of an item; some have it by their template or project."""
        if item.get("organization") is not None:
            return item["organization"]
        parents = [item.get(field) for field in ("unified_job_template", "workflow_job_template", "project")]
        found = [self.items[kind][one] for one in parents for kind in UNIFIED if one in self.items[kind]]
        return found[0]["organization"] if found else None

    def _find(self, kind, part):
        """Return what a part of a path stands for: an id, NAME++ORGANIZATION, or the name of a job template alone.

        The web server has decoded the path; each name is decoded once more.
        """
        if part.isdigit() and int(part) in self.items[kind]:
            return self.items[kind][int(part)]
        names = [unquote(name) for name in part.replace("[+]", "%2B").split("++")]
        found = [item for item in self.items[kind].values() if item.get("name") == names[0]]
        if len(names) == 2 and "+" not in part.replace("[+]", "").replace("++", ""):
            found = [item for item in found if self._name_of("organizations", item) == names[1]]
        elif len(names) > 1 or kind != "job_templates":
            found = []
        if not found:
            raise Refused(404, NOT_FOUND)
        return min(found, key=lambda item: item["organization"] or 0)

    def _name_of(self, kind, item):
        return self.items[kind][item["organization"]]["name"] if item["organization"] else ""

    def _list(self, kind, query):
        items = [item for one in UNIFIED for item in self.items[one].values()]
        items = items if kind == "unified_job_templates" else list(self.items[kind].values())
        query.pop("page_size", None)
        if query.pop("order_by", None) == "-id":
            items.reverse()
        either = {name[4:]: query.pop(name) for name in list(query) if name.startswith("or__")}
        for name in (*query, *either):
            if items and name.split("__")[0] not in items[0]:
                raise Refused(400, {"detail": f"{kind} has no field named '{name}'"})
        items = [item for item in items if all(self._value(item, name) == value for name, value in query.items())]
        return [item for item in items if not either or any(self._value(item, n) == v for n, v in either.items())]

    def _value(self, item, path):
        """Return as text what a field holds; organization__name is a field of what the field organization names."""
        field, _separator, rest = path.partition("__")
        if not rest:
            return str(item[field])
        owner = self.items[f"{field}s"].get(item[field])
        return self._value(owner, rest) if owner else ""

    def _one(self, method, kind, item, body):
        if method == "PATCH":
            fields = self._accept(kind, body, item)
            fetched_anew = kind == "projects" and any(
                name in fields and fields[name] != item[name] for name in ("scm_type", "scm_url", "scm_branch")
            )
            item.update(fields)
            if fetched_anew:
                self._begin_update(item)
        elif method == "DELETE" and kind == "workflow_job_template_nodes":
            del self.items[kind][item["id"]]
            for (_owner, part), links in self.links.items():
                if part in EDGES and item["id"] in links:
                    links.remove(item["id"])
            return 204, None, {}
        elif method != "GET":
            raise NotImplementedError(f"{method} {item['url']}")
        shown = dict(_shown(item))
        self._end_updates([item])
        return 200, shown, {}

    def _begin_update(self, project):
        """Begin to fetch the project; that is over when somebody has seen it run."""
        project["status"] = "running"
        update = self.add("project_updates", project=project["id"])
        update.update(status="running", failed=False, finished=None, scm_revision="", job_explanation="")
        update.update(result_traceback="", events=[])
        return update

    def _end_updates(self, items):
        for update in items:
            if update["type"] != "project_update" or update["finished"]:
                continue
            task, result = self._fetch()
            project = self.items["projects"][update["project"]]
            project["status"] = update["status"] = "failed" if task else "successful"
            update.update(failed=bool(task), finished="2026-11-27T05:30:00Z")
            if task:
                update["events"] = [{"event": "runner_on_failed", "event_data": {"task": task, "res": result}}]
            else:
                project["playbooks"] = self._listed_playbooks()

    def _fetch(self):
        """Return the task of AWX's playbook project_update.yml that fails, and its result; two times None for none."""
        if self.repository_fault:
            return "Update project using git", {"msg": self.repository_fault}
        if not self.reaches_galaxy and (self.repository / "collections" / "requirements.yml").exists():
            said = "ERROR! Unknown error when attempting to call Galaxy at 'https://galaxy.ansible.com/api/'"
            result = {"msg": "non-zero return code", "stdout": "Starting galaxy collection install", "stderr": said}
            return "Fetch galaxy collections from collections/requirements.(yml/yaml)", result
        return None, None

    def _listed_playbooks(self):
        return rules.listed_playbooks(self.repository) if self.repository else []

    def _accept(self, kind, body, old):
        """Return what AWX keeps of the fields that it was sent."""
        fields = {name: value for name, value in body.items() if name in KINDS[kind]}
        whole = {**KINDS[kind], **(old or {}), **fields}
        if kind == "job_templates":
            self._check_job_template(whole)
            # Which is the project's, whatever was sent
            fields["organization"] = whole["organization"] = self.items["projects"][whole["project"]]["organization"]
        elif kind == "projects" and whole["credential"] is not None:
            credential = self.items["credentials"].get(whole["credential"])
            if credential is None or credential["kind"] != "scm":
                raise Refused(400, {"credential": ["Credential kind must be 'scm'."]})
        elif kind == "schedules":
            rules.check_rrule(whole["rrule"])
        elif kind == "notification_templates":
            fields["notification_configuration"] = notifications.check(whole)
            fields["messages"] = notifications.merge(old and old["messages"], whole["messages"])
        unique = (
            ("identifier", "workflow_job_template")
            if kind == "workflow_job_template_nodes"
            else ("name", "organization")
        )
        for item in self.items[kind].values():
            if item is not old and all(item.get(field) == whole.get(field) for field in unique):
                raise Refused(400, {"__all__": [f"{TYPE_OF[kind]} with this {' and '.join(unique)} already exists."]})
        return fields

    def _check_job_template(self, whole):
        if whole["project"] not in self.items["projects"]:
            raise Refused(400, {"project": ["Job Templates must have a project assigned."]})
        if whole["inventory"] is not None and whole["inventory"] not in self.items["inventories"]:
            raise Refused(400, {"inventory": [f'Invalid pk "{whole["inventory"]}" - object does not exist.']})
        if whole["host_config_key"] and not whole["inventory"]:
            message = "Cannot enable provisioning callback without an inventory set."
            raise Refused(400, {"host_config_key": [message]})
        if not whole["inventory"] and not whole["ask_inventory_on_launch"]:
            message = "You must either set a default value or ask to prompt on launch."
            raise Refused(400, {"inventory": [message]})
        if whole["playbook"] not in self.items["projects"][whole["project"]]["playbooks"]:
            raise Refused(400, {"playbook": ["Playbook not found for project."]})
        if whole["job_type"] not in ("run", "check"):
            raise Refused(400, {"job_type": [f'"{whole["job_type"]}" is not a valid choice.']})
        rules.as_variables(whole["extra_vars"])

    def _part(self, method, item, part, body, address):
        if part == "survey_spec":
            if method == "POST":
                rules.check_survey(body)
                self.surveys[item["id"]] = body
                return 200, None, {}
            return 200, self.surveys.get(item["id"], {}), {}
        if part == "update" and method == "POST" and item["type"] == "project":
            return 202, dict(self._begin_update(item)), {}
        if part == "events" and method == "GET" and item["type"] == "project_update":
            return 200, rules.page(item["events"]), {}
        if part == "object_roles" and method == "GET":
            return 200, rules.page(access.roles_of(item)), {}
        if part in ASSOCIATIONS:
            kind, links = ASSOCIATIONS[part], self.links.setdefault((item["id"], part), [])
            if method == "GET":
                return 200, rules.page([self.items[kind][number] for number in links]), {}
            if body.get("disassociate"):
                links.remove(body["id"])
            elif body["id"] not in links:
                self._check_association(item, part, body["id"])
                links.append(body["id"])
            return 204, None, {}
        if part == "jobs" and method == "GET":
            return 200, rules.page([job for job in reversed(self.jobs) if job["job_template"] == item["id"]]), {}
        if part == "launch" and method == "POST":
            return launching.launch(self, item, body)
        if part == "callback" and method == "POST":
            return launching.call_back(self, item, body, address)
        raise NotImplementedError(f"{method} {item['url']}{part}/")

    def start(self, item, given, **more):
        """Start a job with the variables of the template, the defaults of its survey, and these."""
        variables = rules.with_defaults(launching.questions_of(self, item), given)
        job = {"id": 100 + len(self.jobs), "job_template": item["id"], "name": item["name"], **more}
        job["extra_vars"] = json.dumps({**rules.as_variables(item["extra_vars"]), **variables})
        self.jobs.append(job)
        return job, {"Location": f"{self.root}v2/jobs/{job['id']}/"}

    def _check_association(self, item, part, number):
        other = self.items[ASSOCIATIONS[part]].get(number)
        if other is None:
            raise Refused(400, {"msg": f"{part} {number} does not exist."})
        if part == "credentials":
            kinds = [self.items[part][one]["kind"] for one in self.linked(item, part)]
            if other["kind"] in kinds:
                raise Refused(400, {"error": "Cannot assign multiple Machine credentials."})
        if part in EDGES:
            if any(number in self.linked(item, edge) for edge in EDGES):
                raise Refused(400, {"Error": "Relationship not allowed."})
            if item["id"] in self._behind(number):
                raise Refused(400, {"Error": "Cycle detected."})

    def _behind(self, number):
        """Return a node and all that follow it."""
        found = {number}
        for edge in EDGES:
            for other in self.links.get((number, edge), []):
                found |= self._behind(other)
        return found


def _shown(item):
    """Return an item as AWX shows it, which keeps the password of a notification to itself."""
    configuration = item.get("notification_configuration")
    if not configuration or not configuration["password"]:
        return item
    return {**item, "notification_configuration": {**configuration, "password": "$encrypted$"}}


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: else each answer waits for the acknowledgement of its head

    def respond(self):
        awx, parts = self.server.awx, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(content) if content else {}
        except ValueError:
            # Of a form AWX takes the key of a callback and no extra_vars; as the body of a launch it is nothing.
            is_form = self.headers.get("Content-Type") == "application/x-www-form-urlencoded"
            body = {"host_config_key": dict(parse_qsl(content.decode())).get("host_config_key", "")} if is_form else {}
        try:
            if parts.path in awx.roots and self.command == "GET":
                raise Refused(200, awx.roots[parts.path])
            if not parts.path.startswith(f"{awx.root}v2/"):
                raise Refused(404, {"detail": "Not found."})
            token = awx.tokens.get((self.headers.get("Authorization") or "").removeprefix("Bearer "))
            if not token and not parts.path.endswith("/callback/"):
                raise Refused(401, {"detail": SIGN_IN})
            with self.server.lock:
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                path = unquote(parts.path).replace(awx.root, "/api/", 1)
                status, answer, headers = awx.answer(self.command, path, query, body, self.client_address[0], token)
        except Refused as refused:
            status, answer, headers = refused.status, refused.body, {}
        except NotImplementedError as call:
            awx.unexpected.append(str(call))
            status, answer, headers = 501, {"detail": f"unexpected: {call}"}, {}
        if parts.path not in awx.roots:
            awx.requests.append((self.command, re.sub(r"/api/(controller/)?v2", "", parts.path), body, status))
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        standard = {"X-API-Product-Name": "AWX", "X-API-Product-Version": "24.6.1", "Content-Type": "application/json"}
        for name, value in {**standard, **headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = respond


@contextlib.contextmanager
def serve(awx, address=("127.0.0.1", 0), handler=Handler, certificate=()):
    """Let it answer, as ``url`` says where, until the block ends; by TLS with the files of a certificate and a key."""
    server = ThreadingHTTPServer(address, handler)
    server.awx, server.lock = awx, threading.Lock()
    awx.url = f"http://127.0.0.1:{server.server_address[1]}"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield awx
    finally:
        server.shutdown()
        server.server_close()
    assert awx.unexpected == []
