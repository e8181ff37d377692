# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in answers as AWX 24 was seen to answer, point by point: what it refuses, takes, and decides."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from ansible_collections.fleetops.azure_maintenance.tests.awx import access, controller, notifications

KEY = "k3y"
TEMPLATE = "/job_templates/5/"
DAILY = "DTSTART:20260101T053000Z RRULE:FREQ=DAILY;INTERVAL=1"
WEBHOOK = {
    "name": "hook",
    "organization": 1,
    "notification_type": "webhook",
    "notification_configuration": {"url": "https://hooks.example.com", "headers": {}},
}


class Ask:
    """ask("POST", "/job_templates/", {…}) sends a request, and returns the status and the body."""

    def __init__(self, state):
        self.state = state

    def __call__(self, method, path, body=None, token=controller.TOKEN, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{self.state.url}/api/v2{path}", content, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        return status, json.loads(text) if text else None


@pytest.fixture
def ask(awx):
    """The organization 1, its inventory 2, its credential 3, a project 4, and the job template 5 with a workflow 6."""
    project = awx.add("projects", name="ours", organization=1)["id"]
    fields = {"name": "Drain", "organization": 1, "project": project, "inventory": 2, "playbook": "respond.yml"}
    awx.add("job_templates", **fields, survey_enabled=True, host_config_key=KEY)
    awx.add("workflow_job_templates", name="flow", organization=1)
    awx.hosts[2] = {"web-1": "127.0.0.1"}
    return Ask(awx)


def survey(**question):
    """A survey of one question."""
    asked = {"question_name": "Q", "variable": "q", "type": "text", "required": False, **question}
    return {"name": "", "description": "", "spec": [asked]}


def job_template(**fields):
    made = {"name": "new", "project": 4, "inventory": 2, "playbook": "respond.yml", **fields}
    return "POST", "/job_templates/", {name: value for name, value in made.items() if value != "left out"}


def rrule(rule):
    return "POST", "/schedules/", {"name": "s", "unified_job_template": 5, "rrule": rule}


def node(identifier):
    return "POST", "/workflow_job_template_nodes/", {"identifier": identifier, "workflow_job_template": 6}


def hook(**fields):
    return "POST", "/notification_templates/", {**WEBHOOK, **fields}


def hook_of(**configuration):
    return hook(notification_configuration={**WEBHOOK["notification_configuration"], **configuration})


def message(**texts):
    return hook(messages={"success": texts})


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (job_template(name="Drain"), "already exists"),
        (job_template(inventory=99), 'Invalid pk \\"99\\"'),
        (job_template(inventory=None), "You must either set a default value or ask to prompt on launch."),
        (
            job_template(inventory=None, ask_inventory_on_launch=True, host_config_key=KEY),
            "Cannot enable provisioning callback without an inventory set.",
        ),
        (job_template(project="left out"), "Job Templates must have a project assigned."),
        (job_template(playbook="other.yml"), "Playbook not found for project."),
        (job_template(job_type="try"), '\\"try\\" is not a valid choice.'),
        (job_template(extra_vars='["a list"]'), "is not a dictionary"),
        (job_template(extra_vars=["a list"]), "is not a dictionary"),
        (("POST", f"{TEMPLATE}credentials/", {"id": 99}), "does not exist"),
        (rrule("DTSTART:20260101T053000 RRULE:FREQ=DAILY;INTERVAL=1"), "DTSTART cannot be a naive datetime."),
        (rrule("RRULE:FREQ=DAILY;INTERVAL=1"), "Valid DTSTART required in rrule."),
        (rrule("DTSTART:20260101T053000Z"), "One or more rule required in rrule."),
        (rrule("DTSTART:20260101T053000Z RRULE:FREQ=DAILY"), "INTERVAL required in rrule"),
        (rrule(DAILY.replace("DAILY", "OFTEN")), "invalid 'FREQ': OFTEN"),
        (hook_of(headers="none"), "Configuration field 'headers' incorrect type"),
        (hook(notification_configuration={"headers": {}}), "Missing required fields for Notification Configuration"),
        (message(message="two\nlines"), "Messages cannot contain newlines"),
        (message(body="{{ undefined_name }}"), "Unable to render message"),
        (message(body="{% if %}"), "Unable to render message"),
        (message(body="{{ ''.__class__.mro() }}"), "Unable to render message"),
        (message(other="x"), "must be either 'message' or 'body'"),
        (("POST", f"{TEMPLATE}survey_spec/", survey(min="a")), "The min limit in survey question 0"),
        (("POST", f"{TEMPLATE}launch/", {"extra_vars": ["a list"]}), "is not a dictionary"),
    ],
)
def test_it_refuses_what_awx_refuses(ask, request_, said):
    status, body = ask(*request_)
    assert status == 400
    assert said in json.dumps(body)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (job_template(), 201),
        (job_template(extra_vars="---\na: b"), 201),
        (rrule(DAILY), 201),
        (rrule("DTSTART;TZID=Europe/Berlin:20260101T053000 RRULE:FREQ=WEEKLY;INTERVAL=1;BYDAY=MO"), 201),
        (("POST", f"{TEMPLATE}survey_spec/", survey(min=None)), 200),
        (("POST", f"{TEMPLATE}survey_spec/", survey(min=True)), 200),
        (("POST", "/job_templates/Drain/launch/", {}), 201),
        (("POST", "/job_templates/Drain++Default/launch/", {}), 201),
        (("GET", f"{TEMPLATE}object_roles/", None), 200),
        (("POST", f"{TEMPLATE}launch/", b"not JSON"), 201),
        (("GET", "/ping/", None), 200),
        (("GET", "/config/", None), 200),
    ],
)
def test_it_takes_what_awx_takes(ask, request_, status):
    assert ask(*request_)[0] == status


def test_a_workflow_has_each_node_and_edge_once_and_no_cycle(ask):
    first, second = (ask(*node(name))[1]["id"] for name in ("a", "b"))
    nodes = "/workflow_job_template_nodes"
    assert "already exists" in str(ask(*node("a")))
    assert ask("POST", f"{nodes}/{first}/always_nodes/", {"id": second})[0] == 204
    # Once more the same is nothing new.
    assert ask("POST", f"{nodes}/{first}/always_nodes/", {"id": second})[0] == 204
    refused = 400, {"Error": "Relationship not allowed."}
    assert ask("POST", f"{nodes}/{first}/success_nodes/", {"id": second}) == refused
    assert ask("POST", f"{nodes}/{second}/success_nodes/", {"id": first}) == (400, {"Error": "Cycle detected."})


def test_a_template_has_one_credential_of_a_kind(ask):
    assert ask("POST", f"{TEMPLATE}credentials/", {"id": 3})[0] == 204
    second = ask.state.add("credentials", name="second", organization=1)["id"]
    status, body = ask("POST", f"{TEMPLATE}credentials/", {"id": second})
    assert (status, body) == (400, {"error": "Cannot assign multiple Machine credentials."})


@pytest.mark.parametrize(
    ("question", "answers", "said"),
    [
        ({"min": 1}, {"q": ""}, "too small (length is 0 must be at least 1)"),
        ({"max": 2}, {"q": "abc"}, "too large (must be no more than 2)"),
        ({}, {"q": 3}, "expected to be a string"),
        ({"required": True, "default": "x"}, {}, "'q' value missing"),
        ({"type": "multiplechoice", "choices": ["a"]}, {"q": ""}, "expected to be one of ['a']"),
        ({"type": "multiselect", "choices": ["a"]}, {"q": "a"}, "expected to be a list"),
    ],
)
def test_an_answer_that_does_not_fit_starts_no_job(ask, question, answers, said):
    ask("POST", f"{TEMPLATE}survey_spec/", survey(**question))
    status, body = ask("POST", f"{TEMPLATE}launch/", {"extra_vars": answers})
    assert status == 400
    assert said in body["variables_needed_to_start"][0]
    assert ask.state.jobs == []


def test_a_job_gets_the_variables_of_the_template_and_the_defaults_of_the_survey(ask):
    ask.state.named("job_templates", "Drain").update(extra_vars='{"a": 1}')
    ask("POST", f"{TEMPLATE}survey_spec/", survey(default="d"))
    _status, job = ask("POST", f"{TEMPLATE}launch/", {"extra_vars": {"other": 1}, "limit": "web-1"})
    assert json.loads(job["extra_vars"]) == {"a": 1, "q": "d"}
    assert job["ignored_fields"] == {"extra_vars": {"other": 1}, "limit": "web-1"}


def test_without_an_inventory_nothing_is_launched(ask):
    ask.state.named("job_templates", "Drain").update(inventory=None)
    assert ask("POST", f"{TEMPLATE}launch/") == (400, {"inventory": ["This field may not be null."]})


def test_a_schedule_is_taken_though_a_required_question_would_keep_its_jobs_from_starting(ask):
    ask("POST", f"{TEMPLATE}survey_spec/", survey(required=True, default="d"))
    assert ask(*rrule(DAILY))[0] == 201
    needed = {"variables_needed_to_start": ["'q' value missing"]}
    assert ask("POST", f"{TEMPLATE}launch/") == (400, needed)


@pytest.mark.parametrize(
    ("name", "address", "status"),
    [
        ("a+b", "a+b++Default", 404),
        ("a+b", "a[+]b++Default", 201),
        ("a/b", "a/b++Default", 404),
        ("a/b", "a%252Fb++Default", 201),
        ("100%25", "100%2525++Default", 404),
        ("100%25", "100%252525++Default", 201),
        ("Drain", "Drain++Nobody", 404),
        ("Drain", "Nobody++Default", 404),
    ],
)
def test_a_template_is_found_by_names_that_are_encoded_twice(ask, name, address, status):
    ask.state.named("job_templates", "Drain").update(name=name)
    assert ask("POST", f"/job_templates/{address}/launch/", {})[0] == status


def test_a_name_alone_is_the_template_of_the_older_organization(ask):
    newer = ask.state.add("organizations", name="Newer")["id"]
    ask.state.add("job_templates", name="Drain", organization=newer, inventory=2)
    assert ask("POST", "/job_templates/Drain/launch/")[1]["job_template"] == 5
    assert ask("POST", "/job_templates/Drain++Newer/launch/")[1]["job_template"] != 5


REQUIRED = survey(required=True, default="d")
INPUT = {"msg": "Cannot start automatically, user input required!"}


@pytest.mark.parametrize(
    ("template", "spec", "body", "answer"),
    [
        ({}, None, {"extra_vars": {}}, (201, None)),
        ({}, None, {}, (201, None)),
        ({"ask_limit_on_launch": True}, None, {}, (400, INPUT)),
        ({"ask_limit_on_launch": True}, None, {"extra_vars": {}}, (201, None)),
        # A default does not count, an answer in the variables does.
        ({}, REQUIRED, {"extra_vars": {}}, (400, INPUT)),
        ({}, REQUIRED, {"extra_vars": {"q": "x"}}, (201, None)),
    ],
)
def test_a_callback_answers_no_question(ask, template, spec, body, answer):
    ask.state.named("job_templates", "Drain").update(template)
    if spec:
        ask("POST", f"{TEMPLATE}survey_spec/", spec)
    assert ask("POST", f"{TEMPLATE}callback/", {"host_config_key": KEY, **body}, token=None) == answer


def test_h1_a_callback_as_a_form_starts_only_what_prompts_for_nothing(ask):
    """The usual form, curl --data host_config_key=…, has no extra_vars for AWX."""
    template = ask.state.named("job_templates", "Drain")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for prompts, answer in ((False, (201, None)), (True, (400, INPUT))):
        template["ask_job_type_on_launch"] = prompts
        call = ask("POST", f"{TEMPLATE}callback/", f"host_config_key={KEY}".encode(), token=None, **form)
        assert call == answer
    assert ask("POST", f"{TEMPLATE}callback/", b"host_config_key=wrong", token=None, **form)[0] == 403


NO_HOST = (400, {"msg": "No matching host could be found!"})
SEVERAL = (400, {"msg": "Multiple hosts matched the request!"})


# AWX does not ask whether a host is enabled, and the stand-in does not keep it.
@pytest.mark.parametrize(
    ("hosts", "answer"),
    [
        ({"web-1": "127.0.0.1"}, (201, None)),
        ({"127.0.0.1": ""}, (201, None)),
        ({"web-1": "localhost"}, (201, None)),
        ({"web-1": "10.0.0.1"}, NO_HOST),
        ({"web-1": "127.0.0.1", "web-2": "127.0.0.1"}, SEVERAL),
    ],
)
def test_a_callback_is_from_the_host_that_has_or_resolves_to_the_address(ask, hosts, answer):
    ask.state.hosts[2] = hosts
    assert ask("POST", f"{TEMPLATE}callback/", {"host_config_key": KEY}, token=None) == answer


def test_what_a_proxy_says_of_the_address_does_not_count(ask):
    ask.state.hosts[2] = {"web-1": "10.0.0.1"}
    call = {"host_config_key": KEY}
    forwarded = {"X-Forwarded-For": "10.0.0.1"}
    assert ask("POST", f"{TEMPLATE}callback/", call, token=None, **forwarded) == NO_HOST


@pytest.mark.parametrize(
    ("template", "path", "key", "answer"),
    [
        ({}, TEMPLATE, "wrong", (403, access.FORBIDDEN)),
        ({}, TEMPLATE, "", (403, access.FORBIDDEN)),
        ({"host_config_key": ""}, TEMPLATE, "", (403, access.FORBIDDEN)),
        ({}, "/job_templates/99/", KEY, (404, {"detail": "Not found."})),
        ({"inventory": None}, TEMPLATE, KEY, (400, {"msg": "Cannot start automatically, an inventory is required."})),
    ],
)
def test_a_callback_that_is_refused_is_told_why(ask, template, path, key, answer):
    ask.state.named("job_templates", "Drain").update(template)
    assert ask("POST", f"{path}callback/", {"host_config_key": key}, token=None) == answer


def test_a_pending_callback_holds_up_only_its_own_template(ask):
    ask.state.busy = True
    fields = {"organization": 1, "inventory": 2, "host_config_key": KEY}
    other = ask.state.add("job_templates", name="Other", **fields)["id"]
    call = {"host_config_key": KEY}
    pending = (400, {"msg": "Host callback job already pending."})
    for template, answer in ((5, (201, None)), (5, pending), (other, (201, None))):
        assert ask("POST", f"/job_templates/{template}/callback/", call, token=None) == answer


def test_a_message_that_is_null_keeps_the_old_one(ask):
    old = {"started": {"message": "It starts"}, "success": {"message": "m", "body": "b"}}
    _status, made = ask(*hook(messages=old))
    path = f"/notification_templates/{made['id']}/"
    _status, kept = ask("PATCH", path, {"messages": {"started": None, "success": {"body": "new"}}})
    assert kept["messages"] == {
        "started": {"message": "It starts"},
        "success": {"message": "m", "body": "new"},
        "error": None,
        "workflow_approval": None,
    }


def test_errors_of_a_notification_stand_under_all(ask):
    assert ask(*hook_of(http_method="GET")) == (400, {"__all__": ["HTTP method must be either 'POST' or 'PUT'."]})


def test_a_password_comes_back_hidden_and_messages_as_four_nulls(ask):
    _status, made = ask(*hook_of(username="u", password="s3cret"))
    assert made["notification_configuration"]["password"] == "$encrypted$"
    assert made["messages"] == dict.fromkeys(notifications.EVENTS)


@pytest.mark.parametrize(
    ("body", "posted"),
    [
        ('{"text": "one line"}', {}),
        ('{"text":\n"two lines"}', {}),
        ('{\n"text": "three lines"\n}', {"text": "three lines"}),
        ("three\nlines\nbut no JSON", {}),
    ],
)
def test_a_body_of_fewer_than_three_lines_is_posted_empty(body, posted):
    assert notifications.posted(body) == posted


def test_who_does_not_sign_in_is_told_where(ask):
    status, body = ask("GET", "/job_templates/", token=None)
    assert (status, body["detail"]) == (401, controller.SIGN_IN)
    assert "/api/login/" in controller.SIGN_IN


@pytest.mark.parametrize(
    ("scope", "roles", "read", "launched", "changed"),
    [
        ("write", None, 200, 201, 200),
        ("read", None, 200, 403, 403),
        ("write", [("admin_role", 5)], 200, 201, 200),
        ("write", [("execute_role", 5)], 200, 201, 403),
        ("write", [("read_role", 5)], 200, 403, 403),
        ("read", [("execute_role", 5)], 200, 403, 403),
        # The same role of its organization, or of another template
        ("write", [("admin_role", 1)], 200, 201, 200),
        ("write", [("execute_role", 1)], 200, 201, 403),
        ("write", [("admin_role", 6)], 403, 403, 403),
        ("write", [], 403, 403, 403),
    ],
)
def test_a_token_does_what_its_scope_and_the_roles_of_its_user_allow(ask, scope, roles, read, launched, changed):
    ask.state.tokens["theirs"] = access.Token(scope, roles)
    found = [
        ask("GET", TEMPLATE, token="theirs"),
        ask("POST", f"{TEMPLATE}launch/", token="theirs"),
        ask("PATCH", TEMPLATE, {"description": "d"}, token="theirs"),
    ]
    assert [status for status, _body in found] == [read, launched, changed]
    assert [body for status, body in found if status == 403 and body != access.FORBIDDEN] == []
    _status, listed = ask("GET", "/job_templates/?name=Drain", token="theirs")
    assert listed["count"] == (read == 200)
    # H7: a name that somebody may not see is none.
    status, body = ask("POST", "/job_templates/Drain++Default/launch/", token="theirs")
    assert (status, body.get("detail") == "Not found.") == (launched if read == 200 else 404, read == 403)


def test_h2_a_project_has_playbooks_once_an_update_has_succeeded_and_is_not_updated_by_itself(ask):
    ask.state.repository_fault = "no such host"
    fields = {"name": "new", "organization": 1, "scm_type": "git", "scm_url": "https://git.example.com/x.git"}
    _status, project = ask("POST", "/projects/", fields)
    path = f"/projects/{project['id']}/"
    offered = {"name": "t", "project": project["id"], "inventory": 2, "playbook": "respond.yml"}
    newest = f"/project_updates/?project={project['id']}&order_by=-id"

    def statuses():
        return [[one["status"] for one in ask("GET", newest)[1]["results"]] for _again in range(2)]

    assert statuses() == [["running"], ["failed"]]
    refused = 400, {"playbook": ["Playbook not found for project."]}
    assert ask("POST", "/job_templates/", offered) == refused
    ask.state.repository_fault = ""
    # Another credential is no reason for AWX to look again.
    credential = ask.state.add("credentials", name="git", organization=1, kind="scm")["id"]
    assert ask("PATCH", path, {"credential": 3}) == (400, {"credential": ["Credential kind must be 'scm'."]})
    assert ask("PATCH", path, {"credential": credential})[1]["status"] == "failed"
    assert ask("POST", f"{path}update/")[0] == 202
    assert statuses() == [["running", "failed"], ["successful", "failed"]]
    assert ask("GET", path)[1]["status"] == "successful"
    assert ask("POST", "/job_templates/", offered)[0] == 201


@pytest.mark.parametrize("needs", [True, False])
def test_h6_an_update_installs_the_requirements_of_the_project_from_galaxy(ask, tmp_path, needs):
    ask.state.repository = tmp_path
    ask.state.reaches_galaxy = False
    if needs:
        (tmp_path / "collections").mkdir()
        (tmp_path / "collections" / "requirements.yml").write_text("collections: [awx.awx]")
    _status, update = ask("POST", "/projects/4/update/")
    for status in ("running", "failed" if needs else "successful"):
        assert ask("GET", f"/project_updates/{update['id']}/")[1]["status"] == status
    _status, events = ask("GET", f"/project_updates/{update['id']}/events/?event=runner_on_failed")
    assert events["count"] == needs
