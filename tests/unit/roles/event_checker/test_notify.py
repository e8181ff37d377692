# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a webhook and AWX are sent, what their answers mean, and how long we try; against real HTTP on loopback."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import (
    http_answer,
    http_client,
    notify,
)
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest as scripted

pytestmark = pytest.mark.filterwarnings("error")

STOP = scripted.STOP
serve, dead_endpoint, deaf_endpoint = scripted.serve, scripted.dead_endpoint, scripted.deaf_endpoint

NASTY = "{{ lookup('pipe', 'touch /tmp/x') }} $(id) \"quoted\" 'single' \\ \r\n\x1b[31m é 🚧 \ud800"
VARIABLES = {"maintenance_event": {"event_id": "A1", "description": NASTY}, "maintenance_phase": "announced"}
STARTED = (201, b"", {"Location": "/api/v2/jobs/17/"})


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.touch(0o600)
    path.write_bytes(b"s3cret\n")
    return str(path)


@pytest.fixture
def short_pauses(monkeypatch):
    """Make the pauses so short that a second try shows at once."""
    monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(http_client, "_LONGEST_PAUSE", 0.05)


class Clock:
    """A clock that only pauses move, and that writes them down."""

    def __init__(self):
        self.now = 1000.0
        self.pauses = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(http_client, "time", clock)
    monkeypatch.setattr(notify, "time", clock)
    send = http_client.send
    # Where only pauses take time, an answer takes none, however busy the machine is.
    monkeypatch.setattr(
        http_client, "send", lambda requests, options, _seconds: send(requests, {**options, "timeout": STOP}, STOP)
    )
    return clock


@pytest.fixture
def short_tries(monkeypatch):
    """Let a step have less than the second that each has at least."""
    monkeypatch.setattr(http_client, "_LEAST", 0.2)


@pytest.fixture
def steps(secret):
    """Each kind of step, as a function of the endpoint and the seconds."""
    return {
        "webhook": lambda endpoint, seconds=STOP: notify.webhook(endpoint + "/hook?x=1", VARIABLES, seconds),
        "awx_callback": lambda endpoint, seconds=STOP: notify.awx_callback(
            endpoint + "/api/v2/job_templates/7/callback/", VARIABLES, seconds, key_file=secret
        ),
        "awx_job": lambda endpoint, seconds=STOP: notify.awx_job(
            endpoint + "/api/v2/", "7", VARIABLES, seconds, token_file=secret, mark=MARK
        ),
    }


def failure(step, *arguments):
    """Return the error of a step that must fail with a message fit for the log."""
    with pytest.raises(notify.NotifyError) as caught:
        step(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith(".")
    assert len(message) < 700
    return caught.value


def refusal(*arguments, **options):
    """Return what is said where another try would not help."""
    error = failure(*arguments, **options)
    assert error.permanent is True
    return str(error)


MARK = "0ur 1aunch"
STEPS = ["webhook", "awx_callback", "awx_job"]
KINDS = pytest.mark.parametrize("kind", STEPS)


def test_a_webhook_gets_the_payload_as_plain_json(serve):
    server = serve((200, b"thanks"))
    said = notify.webhook(server.endpoint + "/hook?x=1", VARIABLES, STOP)
    assert said == f"{server.endpoint} took the event (HTTP 200)."
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/hook?x=1")
    assert request.header("Content-Type") == ["application/json"]
    assert json.loads(request.body) == VARIABLES
    for name in ("Authorization", "X-Hub-Signature-256", "Cookie"):
        assert request.header(name) == []


@pytest.mark.parametrize("target", ["/webhookb2/1@2/x", "/in?to=ops@example.com", "?token=abc", "?to=a@b"])
def test_f3_a_webhook_may_have_an_at_sign_behind_its_host(serve, target):
    server = serve((200,))
    assert notify.webhook(server.endpoint + target, {}, STOP).startswith(server.endpoint + " took")
    assert server.requests[0].target.lstrip("/") == target.lstrip("/")


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_a_webhook_may_answer_any_2xx(serve, status):
    assert f"(HTTP {status})" in notify.webhook(serve((status,)).endpoint, {}, STOP)


@pytest.mark.parametrize("body", [b'{"ok": false, "error": "no_text"}', b'{"error": {"code": 5}}'])
def test_p13_an_answer_with_an_error_took_nothing_whatever_its_status(serve, body):
    error = failure(notify.webhook, serve((200, body)).endpoint, {}, STOP)
    assert error.permanent
    assert "answered HTTP 200: " in str(error)


@pytest.mark.parametrize("body", [b'{"error": null}', b'{"error": false}', b'{"error": ""}', b'["error"]', b"error"])
def test_an_answer_without_an_error_took_the_event(serve, body):
    assert "took the event" in notify.webhook(serve((200, body)).endpoint, {}, STOP)


def test_awx_callback_sends_key_and_variables(serve, secret, steps):
    server = serve(STARTED)
    assert steps["awx_callback"](server.endpoint) == "AWX started job 17."
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/api/v2/job_templates/7/callback/")
    assert request.header("Content-Type") == ["application/json"]
    assert json.loads(request.body) == {"host_config_key": "s3cret", "extra_vars": VARIABLES}
    assert request.header("Authorization") == []
    # Else "already pending" might come in the language that AWX finds best.
    assert request.header("Accept-Language") == ["en"]


@pytest.mark.parametrize(
    ("url", "template", "target"),
    [
        ("/api/v2", "7", "/api/v2/job_templates/7/launch/"),
        ("/api/v2/", 7, "/api/v2/job_templates/7/launch/"),
        ("/awx/api/v2/", "7", "/awx/api/v2/job_templates/7/launch/"),
        ("/api/controller/v2", "7", "/api/controller/v2/job_templates/7/launch/"),
        # What a server of AWX decodes, and AWX once more; [+] and %2B are a plus in a name.
        ("/api/v2", "Drain++Ops", "/api/v2/job_templates/Drain++Ops/launch/"),
        ("/api/v2", "a/b 100% é++Ops", "/api/v2/job_templates/a%252Fb%2520100%2525%2520%25C3%25A9++Ops/launch/"),
        ("/api/v2", "50%25 a+b+++Ops", "/api/v2/job_templates/50%252525%2520a%252Bb%252B++Ops/launch/"),
    ],
)
def test_awx_job_launches_the_template_with_the_token(serve, secret, url, template, target):
    server = serve((201, b'{"job": 17, "ignored_fields": {}, "id": 17}'))
    said = notify.awx_job(server.endpoint + url, template, VARIABLES, STOP, token_file=secret, mark=MARK)
    assert said == "AWX started job 17."
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", target)
    assert request.header("Authorization") == ["Bearer s3cret"]
    assert json.loads(request.body) == {"extra_vars": {**VARIABLES, "maintenance_launch": MARK}}


GARBLED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n" + b"x" * 100_000
AWX_ROOT = {"description": "AWX REST API", "current_version": "/api/v2/", "available_versions": {"v2": "/api/v2/"}}
GATEWAY_ROOT = {"apis": {"gateway": "/api/gateway/", "controller": "/api/controller/", "eda": "/api/eda/"}}
CONTROLLER_ROOT = {"current_version": "/api/controller/v2/"}


@pytest.mark.parametrize(
    ("url", "roots", "targets"),
    [
        ("", [AWX_ROOT], ["/api/", "/api/v2/"]),
        ("/", [AWX_ROOT], ["/api/", "/api/v2/"]),
        ("/api", [AWX_ROOT], ["/api/", "/api/v2/"]),
        # A proxy takes the first part away, which AWX then does not know.
        ("/awx/", [AWX_ROOT], ["/awx/api/", "/awx/api/v2/"]),
        ("/awx", [{"current_version": "/awx/api/v2/"}], ["/awx/api/", "/awx/api/v2/"]),
        ("", [GATEWAY_ROOT, CONTROLLER_ROOT], ["/api/", "/api/controller/", "/api/controller/v2/"]),
        ("/api/controller", [CONTROLLER_ROOT], ["/api/controller/", "/api/controller/v2/"]),
    ],
)
def test_g2_the_api_of_awx_is_asked_for_at_awx_and_at_the_gateway_of_the_platform(serve, secret, url, roots, targets):
    server = serve(*((200, json.dumps(root).encode()) for root in roots), STARTED)
    said = notify.awx_job(server.endpoint + url, "7", VARIABLES, STOP, token_file=secret, mark=MARK)
    assert said == "AWX started job 17."
    asked = [(request.method, request.target) for request in server.requests]
    *gets, api = targets
    assert asked == [*(("GET", target) for target in gets), ("POST", f"{api}job_templates/7/launch/")]


@pytest.mark.parametrize(
    ("replies", "path", "said"),
    [
        ([(404, b"Not here")], "/api/", "answered HTTP 404"),
        ([(200, b"<html>Log in")], "/api/", 'answered HTTP 200: "<html>Log in"'),
        ([(200, b"[]")], "/api/", "answered HTTP 200"),
        ([(200, b'{"current_version": 2, "apis": []}')], "/api/", "answered HTTP 200"),
        ([(200, b'{"current_version": "https://elsewhere.example.com/v2/"}')], "/api/", "answered HTTP 200"),
        ([(200, b'{"apis": {"controller": "/api/"}}')] * 2, "/api/", "answered HTTP 200"),
        ([(200, json.dumps(GATEWAY_ROOT).encode()), (404, b"")], "/api/controller/", "answered HTTP 404"),
    ],
)
def test_g2_where_the_api_is_not_told_the_message_names_what_was_asked(serve, secret, replies, path, said):
    server = serve(*replies)
    told = refusal(lambda: notify.awx_job(server.endpoint, "7", {}, STOP, token_file=secret, mark=MARK))
    assert told.startswith(f"{server.endpoint}{path} {said}")
    assert "https://…/v2/" in told


@pytest.mark.parametrize("kind", ["awx_callback", "awx_job"])
@pytest.mark.parametrize("reply", [(404, b"{}"), (302, b"", {"Location": "/x"}), ["reset"], (503,), GARBLED, ["hold"]])
def test_g2_a_message_about_awx_has_the_path_that_was_asked(serve_slowly, steps, short_tries, kind, reply):
    server = serve_slowly(then=reply)
    action = {"awx_callback": "callback", "awx_job": "launch"}[kind]
    message = str(failure(steps[kind], server.endpoint, 0.2))
    assert message.startswith(f"{server.endpoint}/api/v2/job_templates/7/{action}/ ")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("7/callback/", "7"),
        pytest.param("7/callback", "7", id="with the slash without which AWX redirects"),
        ("Drain++Ops/callback/", "Drain++Ops"),
        ("Drain%2B%2BOps/callback/", "Drain++Ops"),
        ("a%2Fb%20100%25++Ops/callback/", "a%252Fb%2520100%2525++Ops"),
        pytest.param("a[+]b++Ops/callback/", "a%252Bb++Ops", id="a plus as AWX itself shows it"),
    ],
)
def test_awx_callback_names_the_template_as_awx_wants_it(serve, secret, written, target):
    server = serve(STARTED)
    notify.awx_callback(f"{server.endpoint}/x/api/v2/job_templates/{written}", {}, STOP, key_file=secret)
    assert server.requests[0].target == f"/x/api/v2/job_templates/{target}/callback/"


@pytest.mark.parametrize(("template", "asked"), [("Drain++Ops", 2), ("7", 1)])
def test_a_template_that_has_a_name_is_looked_for_twice(serve, secret, template, asked):
    """A process of AWX that was given a wrong name does not find the next one, whoever asks for it."""
    path, unknown = f"/api/v2/job_templates/{template}/callback/", (404, b'{"detail": "Not found."}')
    for call in (
        lambda url: notify.awx_callback(url + path, {}, STOP, key_file=secret),
        lambda url: notify.awx_job(f"{url}/api/v2", template, {}, STOP, token_file=secret, mark=MARK),
    ):
        server = serve(then=unknown)
        assert failure(call, server.endpoint).permanent is True
        assert len(server.requests) == asked
        if asked == 2:
            assert call(serve(unknown, STARTED).endpoint) == "AWX started job 17."


def test_a_template_that_is_looked_for_twice_gets_no_more_time(serve, secret, clock):
    busy = (503, b"")
    server = serve(busy, busy, (404, b""), then=busy)
    begun = clock.now
    with pytest.raises(notify.NotifyError, match="HTTP 503"):
        notify.awx_job(server.endpoint + "/api/v2", "Drain++Ops", {}, 6.0, token_file=secret, mark=MARK)
    assert clock.now - begun <= 6.0


def launch(server, secret, seconds=STOP, **options):
    return notify.awx_job(f"{server.endpoint}/api/v2", "7", {}, seconds, token_file=secret, mark=MARK, **options)


def jobs(*marks):
    """AWX's list of jobs of a template, the newest first."""
    listed = [{"id": 20 - number, "extra_vars": mark} for number, mark in enumerate(marks)]
    return 200, json.dumps({"count": len(marks), "results": listed}).encode()


OURS = json.dumps({"maintenance_launch": "0ur 1aunch"})
OTHERS = ("", "[]", "{", "null", '{"maintenance_launch": "another"}', None, 7)


@pytest.mark.parametrize(
    ("replies", "said", "methods"),
    [
        ([["reset"], jobs(*OTHERS, OURS)], "AWX has started job 13 already.", ["POST", "GET"]),
        ([(504,), jobs(OURS)], "AWX has started job 20 already.", ["POST", "GET"]),
        # The time of a proxy was up, as of Cloudflare's
        ([(524,), jobs(OURS)], "AWX has started job 20 already.", ["POST", "GET"]),
        ([(502,), jobs(*OTHERS), STARTED], "AWX started job 17.", ["POST", "GET", "POST"]),
        ([["reset"], (503,), jobs(OURS)], "AWX has started job 20 already.", ["POST", "GET", "GET"]),
        ([["reset"], (200, b"[]"), jobs(OURS)], "AWX has started job 20 already.", ["POST", "GET", "GET"]),
        ([GARBLED, jobs(OURS)], "AWX has started job 20 already.", ["POST", "GET"]),
        # Nothing was taken.
        ([(503,), STARTED], "AWX started job 17.", ["POST", "POST"]),
        ([(429,), STARTED], "AWX started job 17.", ["POST", "POST"]),
    ],
)
def test_a_launch_whose_answer_is_lost_starts_no_second_job(serve, secret, short_pauses, replies, said, methods):
    server = serve(*replies)
    assert launch(server, secret) == said
    assert [request.method for request in server.requests] == methods
    (listing,) = {request.target for request in server.requests if request.method == "GET"} or {None}
    assert listing in (None, f"{LISTING}&page_size=100")


LISTING = "/api/v2/job_templates/7/jobs/?created__gt=1970-01-01T00:00:00Z&order_by=-id"


def page(numbers, ours=None, length=0, more=True):
    """One page of AWX's list of jobs of a template."""
    mark = {"maintenance_launch": MARK}
    listed = [
        {"id": number, "extra_vars": json.dumps({"x": "x" * length, **(mark if number == ours else {})})}
        for number in numbers
    ]
    following = "/api/v2/job_templates/7/jobs/?page=2" if more else None
    return 200, json.dumps({"count": 1000, "next": following, "results": listed}).encode()


def test_p6_a_launch_is_found_behind_more_jobs_than_awx_lists_at_once(serve, secret):
    server = serve(page(range(300, 200, -1)), page(range(200, 100, -1)), page(range(100, 50, -1), ours=70, more=False))
    assert launch(server, secret, again=True, since=1_800_000_000) == "AWX has started job 70 already."
    # A day before, because the clocks of the VM and of AWX may differ
    recent = LISTING.replace("1970-01-01T00", "2027-01-14T08")
    assert [request.target for request in server.requests] == [
        f"{recent}&page_size=100{below}" for below in ("", "&id__lt=201", "&id__lt=101")
    ]


@pytest.mark.parametrize(
    ("replies", "said", "methods"),
    [
        pytest.param(
            [page(range(300, 200, -1)), page([]), STARTED],
            "AWX started job 17.",
            ["GET", "GET", "POST"],
            id="the last page without the job lets it be launched",
        ),
        pytest.param([jobs(OURS)], "AWX has started job 20 already.", ["GET"], id="the job is there"),
    ],
)
def test_p6_a_step_that_was_begun_before_looks_for_its_job_first(serve, secret, replies, said, methods):
    server = serve(*replies)
    assert launch(server, secret, again=True) == said
    assert [request.method for request in server.requests] == methods


def test_p6_a_list_that_does_not_end_in_time_lets_nothing_be_launched(serve, secret, short_tries):
    server = serve(then=page(range(300, 200, -1)))
    error = failure(lambda: launch(server, secret, 0.3, again=True))
    assert error.permanent is False
    assert "lists more jobs than could be read in time, so the template is not launched again" in str(error)
    assert {request.method for request in server.requests} == {"GET"}


def test_p6_a_list_that_is_too_long_for_one_answer_is_read_in_smaller_parts(serve, secret, clock):
    """Each job has the names of all VMs of its event."""
    long = 30 * 1024
    server = serve(page(range(300, 200, -1), length=long), page(range(300, 290, -1), ours=295, length=long))
    assert launch(server, secret, again=True) == "AWX has started job 295 already."
    assert [request.target for request in server.requests] == [f"{LISTING}&page_size={size}" for size in (100, 10)]

    endless = serve(then=(200, b" " * (http_answer._MAX_BODY + 1)))
    error = failure(lambda: launch(endless, secret, 1.5, again=True))
    assert "lists no jobs of the template, but a text that is too long, so it is not launched again" in str(error)


@pytest.mark.parametrize("answer", [(403, b'{"detail": "No."}'), (200, b'{"results": null}')])
def test_where_awx_does_not_tell_its_jobs_nothing_is_launched_again(serve, secret, clock, answer):
    server = serve(["reset"], then=answer)
    error = failure(lambda: launch(server, secret, 1.5))
    lists_none = f"{server.endpoint}/api/v2/job_templates/7/jobs/ lists no jobs of the template"
    assert "HTTP 403" in str(error) or lists_none in str(error)
    assert [request.method for request in server.requests].count("POST") == 1


OURS_PENDING = "AWX has a job for this VM already, after a try whose answer was lost."
BUSY = (400, b'{"msg":"Host callback job already pending."}')
LOST = (["reset"], (504,), (524,), GARBLED, [b"HTTP/1.1 2"])


def call_back(endpoint, secret, seconds=STOP, **options):
    url = f"{endpoint}/api/v2/job_templates/7/callback/"
    return notify.awx_callback(url, VARIABLES, seconds, key_file=secret, **options)


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        # Somebody else's job: another step of this VM, or a launch
        ([BUSY, (400, b'{"msg":"Host callback job already pending"}'), STARTED], "AWX started job 17."),
        # It was not taken, so the job is not ours.
        *(([(status,), BUSY, STARTED], "AWX started job 17.") for status in (429, 503)),
        # Ours, or that of somebody else, which was there before: not known
        ([BUSY, ["reset"], BUSY, STARTED], "AWX started job 17."),
        *(([lost, BUSY], OURS_PENDING) for lost in LOST),
        ([["reset"], (503,), BUSY], OURS_PENDING),
    ],
)
def test_p13_a_job_that_awx_calls_pending_is_ours_only_after_a_try_whose_answer_was_lost(
    serve, secret, clock, replies, said
):
    server = serve(*replies)
    assert call_back(server.endpoint, secret) == said
    assert len(server.requests) == len(replies)


def test_p13_a_try_that_never_reached_awx_makes_no_job_ours(serve, secret, clock, dead_endpoint):
    tries = notify.CallbackTries()
    failure(lambda: call_back(dead_endpoint, secret, 5, tries=tries))
    server = serve(BUSY, STARTED)
    assert call_back(server.endpoint, secret, tries=tries) == "AWX started job 17."


def test_p13_a_callback_fails_where_the_job_of_somebody_else_stays(serve, secret, clock):
    server = serve(then=BUSY)
    noted = []
    error = failure(lambda: call_back(server.endpoint, secret, 5, tries=notify.CallbackTries(note=noted.append)))
    assert error.permanent is False
    assert str(error).startswith(notify.OTHER_JOB)
    assert "timeout" in str(error)
    assert len(server.requests) > 2
    assert noted == [notify.OTHER_JOB]


CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: "
REFUSED = (403, 404, 405, 410, 451)
IGNORED = "AWX started job 17, but without variables that the job template 7 does not ask for on launch."


@pytest.mark.parametrize(
    ("kind", "reply", "said"),
    [
        ("awx_callback", (201,), "AWX started a job."),
        ("awx_callback", (201, b"", {"Location": "https://awx.example.com/api/v2/jobs/17/"}), "AWX started job 17."),
        ("awx_callback", (201, b"", {"Location": "/api/v2/jobs/%1b[31m/"}), "AWX started a job."),
        ("awx_callback", (202, b"", {"Location": "/api/v1/jobs/17/"}), "AWX started job 17."),
        ("awx_job", (201, b'{"job": 17}'), "AWX started job 17."),
        ("awx_job", (201, b'{"workflow_job": 18}', {"Location": "/api/v2/workflow_jobs/18/"}), "AWX started a job."),
        ("awx_job", STARTED, "AWX started job 17."),
        ("awx_job", (201, b'{"job": "1\\n7"}'), "AWX started a job."),
        ("awx_job", (201, b'{"job": true}'), "AWX started a job."),
        ("awx_job", (201, b"[" * 100000), "AWX started a job."),
        ("awx_job", (201, b'{"job": 17, "ignored_fields": {"extra_vars": {"a": 1}}}'), IGNORED),
        ("awx_job", [CREATED + b"11\r\n\r\n", 0.3, b'{"job": 17}'], "AWX started job 17."),
        # What AWX has begun stays begun, even if nobody can tell its number.
        ("awx_job", [CREATED + b'999\r\n\r\n{"job": 17'], "AWX started a job."),
        ("awx_job", [CREATED + b"999\r\n\r\n", "reset"], "AWX started a job."),
    ],
)
def test_good_answers_of_awx(serve, steps, kind, reply, said):
    assert steps[kind](serve(reply).endpoint) == said


@pytest.mark.parametrize(
    ("kind", "reply", "said"),
    [
        *((kind, (status, b"No\x1b[31m\nway"), '"No\\u001b[31m\\nway"') for kind in STEPS for status in (400, 401)),
        *((kind, (status, b"Nope"), f'HTTP {status}: "Nope".') for kind in STEPS for status in REFUSED),
        *((kind, (403,), "HTTP 403. Check the address") for kind in STEPS),
        *((kind, BUSY, "Host callback job already pending.") for kind in ("webhook", "awx_job")),
        ("awx_job", (400, b'{"variables_needed_to_start":["x"]}'), '{\\"variables_needed_to_start\\":[\\"x\\"]}'),
        ("awx_job", (404, b'{"detail":"Not found."}'), 'HTTP 404: "Not found.". Check the address, the job template 7'),
        ("awx_callback", (400, b'{"msg":"No matching host could be found!"}'), '"No matching host could be found!"'),
        ("awx_callback", (403, b'{"detail":"You have no permission."}'), '"You have no permission."'),
        ("awx_callback", (403, b'{"msg":"Host callback job already pending."}'), "HTTP 403"),
        # A portal in front of AWX
        ("awx_callback", (200, b"<html>Log in"), 'HTTP 200: "<html>Log in"'),
        ("awx_job", (200, b"<html>Log in"), 'HTTP 200: "<html>Log in"'),
        ("awx_job", (202, b""), "HTTP 202."),
    ],
)
def test_answers_that_a_retry_does_not_mend(serve, steps, kind, reply, said):
    server = serve(reply)
    told = refusal(steps[kind], server.endpoint)
    assert said in told
    assert server.endpoint in told


@KINDS
@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(serve, steps, kind, status):
    elsewhere = serve()
    server = serve((status, b"", {"Location": elsewhere.endpoint}))
    assert f'redirects (HTTP {status}) to "{elsewhere.endpoint}"' in refusal(steps[kind], server.endpoint)
    assert elsewhere.requests == []


PASSING = {
    **{str(status): (status, b"busy") for status in (408, 409, 425, 429, 500, 502, 503, 504, 507)},
    "reset": ["reset"],
    "hang-up": [b""],
    "half an answer": [b"HTTP/1.1 2"],
    "no HTTP": [b"SSH-2.0-OpenSSH\x1b[31m\r\n"],
}


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *((kind, fault) for kind in ("webhook", "awx_callback") for fault in PASSING),
        *(("awx_job", status) for status in ("408", "409", "425", "429", "503", "507")),
    ],
)
def test_what_may_pass_is_tried_again(serve, steps, clock, kind, fault):
    server = serve(PASSING[fault], PASSING[fault], STARTED)
    steps[kind](server.endpoint)
    assert len(server.requests) == 3
    assert len({request.body for request in server.requests}) == 1


@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_in_time_is_told(serve, steps, clock, fault):
    server = serve(then=PASSING[fault])
    error = failure(steps["webhook"], server.endpoint, 5)
    assert error.permanent is False
    assert str(error).startswith(server.endpoint)
    assert str(error).endswith(f"It was tried {len(server.requests)} times.")
    assert not fault.isdigit() or f'HTTP {fault}: "busy".' in str(error)


def test_nothing_listens(dead_endpoint, steps, clock):
    error = failure(steps["webhook"], dead_endpoint, 5)
    assert error.permanent is False
    tries = f"It was tried {len(clock.pauses) + 1} times."
    assert str(error) == f"{dead_endpoint} cannot be reached (Connection refused). {tries}"


@pytest.mark.parametrize(
    ("seconds", "pauses"),
    [
        (200, [1, 2, 4, 8, 16, 30, 30, 30, 30, 24.5, 12.25, 6.125, 3.0625, 1.53125, 0.765625]),
        (10, [1, 2, 3.5, 1.75, 0.875]),
        (1, [0.5]),
        (0, [0.5]),
        (-3, [0.5]),
    ],
)
def test_pauses_grow_to_30_seconds_and_use_all_the_time(serve, steps, clock, seconds, pauses):
    server = serve(then=(503,))
    failure(steps["webhook"], server.endpoint, seconds)
    assert clock.pauses == pauses
    assert len(server.requests) == len(pauses) + 1


@pytest.mark.parametrize(
    ("status", "retry_after", "least", "most"),
    [
        (429, "7", 7, 7),
        (503, "7", 7, 7),
        (409, " 7 ", 7, 7),
        (429, timedelta(seconds=90), 60, 90),
        (429, timedelta(seconds=-90), 1, 1),
        (429, "0", 1, 1),
        (429, "-5", 1, 1),
        (429, "soon", 1, 1),
        (429, "٣", 1, 1),
        (429, "", 1, 1),
    ],
)
def test_the_pause_a_service_asks_for(serve, steps, clock, status, retry_after, least, most):
    if isinstance(retry_after, timedelta):
        retry_after = format_datetime(datetime.now(timezone.utc) + retry_after, usegmt=True)
    head = f"HTTP/1.1 {status} Busy\r\nContent-Length: 0\r\nRetry-After: {retry_after}\r\n\r\n"
    steps["webhook"](serve([head.encode("utf-8")], (200,)).endpoint, 200)
    (pause,) = clock.pauses
    assert least <= pause <= most


def test_a_pause_longer_than_the_time_left_is_not_begun(serve, steps, clock):
    for asked, told in (("3600", "3600"), ("9999999999", "1000000000"), ("9" * 400, "1000000000")):
        error = failure(steps["webhook"], serve((429, b"busy", {"Retry-After": asked})).endpoint, 60)
        assert error.permanent is False
        assert str(error).endswith(f'answered HTTP 429: "busy". It asks to wait {told} seconds.')
    assert clock.pauses == []


@pytest.fixture
def slow_names(monkeypatch):
    """Make the look-up of names take longer than any limit here."""
    goes_on = threading.Event()

    def getaddrinfo(*_arguments, **_options):
        goes_on.wait(STOP)
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield
    goes_on.set()


TRICKLE = [step for _number in range(12) for step in (b"x", 0.1)]


@pytest.fixture
def serve_slowly(serve):
    """Servers that outlive our patience; what was left behind must end when they do."""
    yield serve
    for thread in threading.enumerate():
        if thread.name == "notify":
            thread.join(STOP)
            assert not thread.is_alive()


@pytest.mark.parametrize(
    "reply",
    [
        ["hold"],
        [*TRICKLE, "hold"],
        [b"HTTP/1.1 200 OK\r\nX-Long: ", *TRICKLE],
    ],
    ids=["silent", "a slow status", "slow headers"],
)
def test_an_answer_that_does_not_come_holds_nobody(serve_slowly, steps, short_tries, reply):
    server = serve_slowly(reply)
    error = failure(steps["webhook"], server.endpoint, 0.2)
    assert error.permanent is False
    assert str(error) == f"{server.endpoint} gave no answer in time."


def test_a_slow_look_up_of_the_name_holds_nobody(slow_names, short_tries):
    error = failure(notify.webhook, "http://hooks.example.com/", {}, 0.2)
    assert (str(error), error.permanent) == ("http://hooks.example.com gave no answer in time.", False)


def test_a_connection_that_is_not_taken_holds_nobody(deaf_endpoint, short_tries):
    assert failure(notify.webhook, deaf_endpoint, {}, 0.2).permanent is False


def test_a_try_does_not_use_up_the_time_of_the_next(serve_slowly, steps, monkeypatch, short_pauses):
    monkeypatch.setattr(http_client, "_LONGEST_TRY", 0.5)
    # On a busy machine a try after this one may be too late as well.
    server = serve_slowly([b"HTTP/1.1 200 OK\r\nX-Long: ", *TRICKLE], then=STARTED)
    assert "took the event" in steps["webhook"](server.endpoint)


@pytest.mark.parametrize(
    ("status", "rest"),
    [
        (200, [*TRICKLE]),
        (403, [*TRICKLE]),
        (200, [b"x" * http_answer._MAX_BODY, "hold"]),
    ],
    ids=["slow", "slow refusal", "endless"],
)
def test_a_body_without_end_does_not_undo_the_status(serve_slowly, steps, monkeypatch, status, rest):
    if rest == TRICKLE:
        monkeypatch.setattr(http_answer, "_LONGEST_BODY", 0.3)
    server = serve_slowly([b"HTTP/1.1 %d Yes\r\nContent-Length: 4000000\r\n\r\n" % status, *rest])
    if status == 200:
        assert "took the event" in steps["webhook"](server.endpoint)
    else:
        assert failure(steps["webhook"], server.endpoint).permanent is True


def test_p9_a_body_that_was_compressed_unasked_is_not_decoded(serve, steps):
    body = gzip.compress(gzip.compress(b"x" * 1000))
    reply = (400, body, {"Content-Encoding": "gzip, gzip"})
    error = failure(steps["webhook"], serve(reply).endpoint)
    assert "answered HTTP 400. " in str(error)
    assert "x" * 10 not in str(error)


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
NEGATIVE = CHUNKED + b"-1\r\n" + b"x" * (256 * 1024)
# The peak of a process that getrusage() tells includes that of the one which started it.
CHILD = f"""
import sys
from {notify.__package__} import notify
try:
    print(notify.webhook(sys.argv[1], {{}}, 0))
except notify.NotifyError as error:
    print(error)
with open("/proc/self/status") as file:
    print(next(line for line in file if line.startswith("VmHWM")).split()[1])
"""


@KINDS
@pytest.mark.parametrize("status", [200, 201, 403])
def test_p9_an_answer_with_a_chunk_of_negative_size_is_none(serve, steps, clock, kind, status):
    server = serve(then=[b"HTTP/1.1 %d Yes\r\n" % status + NEGATIVE, "hold"])
    error = failure(steps[kind], server.endpoint, 5)
    assert error.permanent is False
    assert str(error).startswith(server.endpoint)
    assert f" answered HTTP {status}, but the rest is not HTTP (LineTooLong: " in str(error)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the peak of a process")
@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"-1\r\n",
        b"HTTP/1.1 403 No\r\n" + CHUNKED + b"-7fffffff\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"-1\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["chunk", "large chunk", "chunk of a redirect", "redirect", "no length"],
)
def test_p9_a_body_without_end_fills_no_memory(serve, head):
    server = serve(then=[head, *[b"x" * 1024 * 1024] * 200])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.check_output(
        [sys.executable, "-B", "-c", CHILD, server.endpoint], env=environment, timeout=STOP, text=True
    )
    said, peak = output.splitlines()
    assert server.endpoint in said
    assert int(peak) <= 64 * 1024, f"{int(peak) // 1024} MiB"


def test_what_was_said_before_a_body_breaks_off_is_told(serve, steps):
    server = serve(b"HTTP/1.1 403 No\r\n" + CHUNKED + b"7\r\nNo way.\r\n")
    assert 'answered HTTP 403: "No way."' in str(failure(steps["webhook"], server.endpoint))


def test_a_long_body_is_shown_in_part(serve, steps):
    error = failure(steps["awx_callback"], serve((400, b"x" * 100000)).endpoint)
    assert '"' + "x" * 200 + '"…' in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example.com/",
        "hooks.example.com/hook",
        "https://",
        "https:///hook",
        "https://s3cret:s3cret@hooks.example.com/",
        "http://[::1",
        "http://hooks.example.com:99999/",
        "http://hooks.example.com:s3cret/",
        "",
    ],
)
def test_an_address_that_is_none(url):
    told = refusal(notify.webhook, url, {}, STOP)
    assert "https://HOST" in told
    assert "s3cret" not in told


def test_an_address_that_requests_does_not_take():
    assert "cannot be asked (" in refusal(notify.webhook, f"https://{'a' * 70}.example.com/hook", {}, STOP)


@KINDS
def test_without_requests_the_package_is_named(steps, monkeypatch, dead_endpoint, kind):
    monkeypatch.setitem(sys.modules, "requests", None)
    assert "python3-requests" in refusal(steps[kind], dead_endpoint)


def test_the_program_starts_without_requests():
    code = (
        "import sys; sys.modules['requests'] = sys.modules['urllib3'] = None; "
        f"import {notify.__name__} as notify; print(notify.NotifyError('x').permanent)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.check_output([sys.executable, "-B", "-c", code], env=environment, timeout=STOP) == b"False\n"


def test_pauses_are_real_time(serve, steps, monkeypatch):
    monkeypatch.setattr(http_client, "_FIRST_PAUSE", 0.2)
    server = serve((503,), (200,))
    steps["webhook"](server.endpoint)
    first, second = (request.moment for request in server.requests)
    assert second - first >= 0.2
