# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells other services of an event: a webhook, and AWX by provisioning callback or by launching a job template.

After an error that may pass it tries again, so a service may hear of an event more than once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from datetime import datetime, timezone
from typing import Any, Callable
from urllib.parse import quote, unquote, urlsplit

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._event.document import format_utc

from ..config.step import CALLBACK
from .http_answer import Answer
from .http_client import NotifyError, Service

__all__ = ["OTHER_JOB", "CallbackTries", "NotifyError", "awx_callback", "awx_job", "webhook"]

OTHER_JOB = (
    "AWX takes no callback while another job of this template for this VM is pending or running. Give the step a "
    "timeout that is longer than that job, or a template of its own."
)

_MARK = "maintenance_launch"
# Jobs in one answer of AWX, which gives at most 200. With the names of very many VMs in each they are too long for one.
_MANY_JOBS, _FEW_JOBS = 100, 10
# The clocks of this VM and of AWX may differ.
_EARLIER = 24 * 60 * 60
# Characters of a part of an address that may be a token
_SHORTEST_PIECE = 12


def webhook(
    url: str,
    payload: dict[str, Any],
    seconds: float,
    *,
    ca_file: str | None = None,
    hmac_file: str | None = None,
    token_file: str | None = None,
) -> str:
    """POST the payload as JSON, and return a sentence for the log.

    The signature is GitHub's, which ``eda.builtin.webhook`` checks too: ``X-Hub-Signature-256: sha256=HEX``.

    :param seconds: all the time there is, tries and pauses together.
    :raises NotifyError: there was no answer 2xx without an error.
    """
    service = Service(url, ca_file)
    # With many services everybody who knows the address may post to it.
    path, query = urlsplit(url).path.rstrip("/"), urlsplit(url).query
    service.hide(path)
    service.hide(query)
    # It may also repeat a piece alone. A shorter one may be a word of any sentence.
    for piece in re.split("[/&=]", f"{path}/{query}"):
        if len(piece) >= _SHORTEST_PIECE:
            service.hide(piece)
            service.hide(unquote(piece))
    content = json.dumps(payload).encode("ascii")
    if hmac_file is not None:
        digest = hmac.new(service.read_secret(hmac_file).encode(), content, hashlib.sha256).hexdigest()
        service.headers["X-Hub-Signature-256"] = f"sha256={digest}"
    if token_file is not None:
        service.use_token(token_file)
    answer = service.post(content, seconds)
    # Some services, such as Slack's API, refuse with the status of a success (P13).
    if 200 <= answer.status < 300 and not answer.json().get("error"):
        return f"{service.name} took the event (HTTP {answer.status})."
    raise service.refusal(answer, "Check the address of the webhook, and the files with its secrets.")


class CallbackTries:
    """Whether the pending job of AWX is ours: of one template it has one at a time for a VM, also from another client.

    It is ours only where a try was sent and not answered, and no other was there before.

    :param unanswered: an earlier try was sent, and it is unknown whether AWX took it.
    :param other: AWX has had another job since this step was begun.
    :param note: is called with OTHER_JOB when that is seen first.
    """

    def __init__(
        self, unanswered: bool = False, other: bool = False, note: Callable[[str], None] = lambda _text: None
    ) -> None:
        self._unanswered = unanswered
        self._other = other
        self._note = note

    def judge(self, answer: Answer, problem: str | None) -> tuple[Answer, str | None]:
        """Return the result of one try, as :meth:`Service.send` does."""
        if not _is_job_pending(answer):
            self._unanswered = self._unanswered or answer.may_have_been_taken()
            return answer, problem
        if self._unanswered and not self._other:
            return answer, None
        if not self._other:
            self._other = True
            self._note(OTHER_JOB)
        return answer, OTHER_JOB


def awx_callback(
    url: str,
    extra_vars: dict[str, Any],
    seconds: float,
    *,
    key_file: str,
    ca_file: str | None = None,
    tries: CallbackTries | None = None,
) -> str:
    """Ask AWX by provisioning callback to run a job template for this VM, and return a sentence for the log.

    :param url: ``…/api/v2/job_templates/N/callback/``, or with the names of the template for N.
    :param seconds: all the time there is, tries and pauses together.
    :param tries: of this step, those of earlier calls included.
    :raises NotifyError: AWX has started no job.
    """
    found = CALLBACK.fullmatch(url)
    if found:
        # AWX answers an address without the last slash by a redirect.
        url = f"{found[1]}{_address(unquote(found[2]).replace('[+]', '+'))}/callback/"
    template = found[2] if found else ""
    service = Service(url, ca_file, shows_path=True)
    key = service.read_sent_secret(key_file)
    content = json.dumps({"host_config_key": key, "extra_vars": extra_vars}).encode("ascii")
    known = tries or CallbackTries()

    def call(left: float) -> tuple[Answer, str | None]:
        return known.judge(*service.send("POST", service.url, content, left))

    answer = _twice_where_not_found(template, lambda left: service.repeat(call, left), seconds)
    # Up to Tower 3.2 it was 202.
    if answer.status in (201, 202):
        return f"AWX started {_job(answer)}."
    if _is_job_pending(answer):
        return "AWX has a job for this VM already, after a try whose answer was lost."
    raise service.refusal(
        answer, f"Check the address, the key in {one_line(key_file)}, and the inventory of the job template."
    )


def awx_job(
    url: str,
    template: str,
    extra_vars: dict[str, Any],
    seconds: float,
    *,
    token_file: str,
    mark: str,
    again: bool = False,
    since: float = 0,
    ca_file: str | None = None,
) -> str:
    """Launch a job template of AWX, and return a sentence for the log.

    Where a launch has had no answer, AWX is asked for a job with the mark before it is told to launch again.

    :param url: where AWX or the gateway of Ansible Automation Platform is, or the API itself, ``…/v2/``.
    :param template: ID or ``NAME++ORGANIZATION``.
    :param seconds: all the time there is, tries and pauses together.
    :param mark: tells this launch from all others; the job gets it as the variable ``maintenance_launch``.
    :param again: it may have been launched before.
    :param since: when the launch with this mark was planned, by the clock of this VM.
    :raises NotifyError: AWX has started no job.
    """
    template = str(template)
    end = time.monotonic() + seconds
    service = Service(url, ca_file, shows_path=True)
    service.use_token(token_file)
    place = f"{_find_api(service, seconds)}job_templates/{_address(template)}"
    content = json.dumps({"extra_vars": {**extra_vars, _MARK: mark}}).encode("ascii")
    # A user who may not see a template gets 404.
    advice = (
        f"Check the address, the job template {one_line(template)}, the token in {one_line(token_file)}, "
        "and that its user has the role Execute of this template."
    )
    unsure, earlier = again, None

    def launch(left: float) -> tuple[Answer, str | None]:
        nonlocal unsure, earlier
        if unsure:
            answer, problem, earlier = _find_job(service, f"{place}/jobs/", mark, since, left)
            if problem is not None or earlier is not None:
                return answer, problem
            if answer.status != 200:
                raise service.refusal(answer, advice)
        answer, problem = service.send("POST", f"{place}/launch/", content, left)
        unsure = answer.may_have_been_taken()
        return answer, problem

    answer = _twice_where_not_found(template, lambda left: service.repeat(launch, left), end - time.monotonic())
    if earlier is not None:
        return f"AWX has started job {earlier} already."
    if answer.status != 201:
        raise service.refusal(answer, advice)
    if answer.json().get("ignored_fields"):
        return (
            f"AWX started {_job(answer)}, but without variables "
            f"that the job template {one_line(template)} does not ask for on launch."
        )
    return f"AWX started {_job(answer)}."


def _find_api(service: Service, seconds: float) -> str:
    """Return the address of AWX's API, ``…/v2/``, and ask for it where the address of the service does not end so.

    AWX tells its versions at ``/api/``. The gateway of Ansible Automation Platform tells there where AWX is, which
    tells its versions at ``/api/controller/``.

    :raises NotifyError: it does not tell.
    """
    parts = urlsplit(service.url)
    host, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    if re.search("/v[0-9]+$", path):
        return f"{host}{path}/"
    before, _slash, behind = f"{path}/".partition("/api/") if "/api/" in f"{path}/" else (path, "", "")
    root: str | None = f"/api/{behind}"
    end = time.monotonic() + seconds
    answer = Answer("")
    for _number in range(2):

        def ask(left: float, address: str = f"{host}{before}{root}") -> tuple[Answer, str | None]:
            return service.send("GET", address, b"", left)

        answer = service.repeat(ask, end - time.monotonic())
        told = answer.json() if answer.status == 200 else {}
        version = _path_in(told.get("available_versions"), "v2") or _path_in(told, "current_version")
        if version is not None:
            # AWX does not know of a proxy's path in front of its own.
            return f"{host}{version}" if version.startswith(f"{before}/") else f"{host}{before}{version}"
        root = _path_in(told.get("apis"), "controller")
        if root is None:
            break
    raise service.refusal(answer, "Check the address, or give that of AWX's API, https://…/v2/.")


def _path_in(told: Any, name: str) -> str | None:
    path = told.get(name) if isinstance(told, dict) else None
    return path if isinstance(path, str) and re.fullmatch(r"/[\w.~/-]+/", path, re.ASCII) else None


def _address(template: str) -> str:
    """Return how an address of AWX names this job template, a number or ``NAME++ORGANIZATION``.

    AWX decodes the names once more after the web server has decoded the address, and takes ``+`` for its separator.
    """
    names = template.rpartition("++") if "++" in template else ("", "", template)
    return quote("++".join(quote(name, safe="") for name in (names[0], names[2]) if name), safe="+")


def _twice_where_not_found(template: str, ask: Callable[[float], Answer], seconds: float) -> Answer:
    """Ask, and once more on the first 404: a process of AWX that was given a wrong name does not find the next one.

    :param ask: gets the seconds that are left.
    """
    end = time.monotonic() + seconds
    answer = ask(seconds)
    if answer.status == 404 and "++" in unquote(template):
        return ask(end - time.monotonic())
    return answer


def _find_job(
    service: Service, url: str, mark: str, since: float, seconds: float
) -> tuple[Answer, str | None, str | None]:
    """Look for the job that got the mark: AWX does not search in the variables of jobs.

    :return: the last answer, a sentence if another try may help, and the number of the job, None where there is none.
    """
    end = time.monotonic() + seconds
    earliest = format_utc(datetime.fromtimestamp(max(since - _EARLIER, 0), timezone.utc))
    size, below = _MANY_JOBS, ""
    while True:
        page = f"{url}?created__gt={earliest}&order_by=-id&page_size={size}{below}"
        answer, problem = service.send("GET", page, b"", max(end - time.monotonic(), 0.1))
        if problem is not None or answer.status != 200:
            return answer, problem, None
        if answer.is_cut() and size > _FEW_JOBS:
            size = _FEW_JOBS
            continue
        told = answer.json()
        jobs = told.get("results")
        if not isinstance(jobs, list):
            why = "lists no jobs of the template" + (", but a text that is too long" if answer.is_cut() else "")
            return answer, f"{url} {why}, so it is not launched again.", None
        for job in jobs:
            if _has_mark(job, mark):
                return answer, None, _number(job["id"])
        if not jobs or not told.get("next"):
            return answer, None, None
        # Not by the number of the page: meanwhile new jobs come, and old ones are deleted.
        below = f"&id__lt={_number(jobs[-1].get('id') if isinstance(jobs[-1], dict) else None)}"
        if time.monotonic() >= end:
            problem = f"{url} lists more jobs than could be read in time, so the template is not launched again."
            return answer, f"{problem} Give the step a longer timeout.", None


def _has_mark(job: Any, mark: str) -> bool:
    try:
        return json.loads(job["extra_vars"])[_MARK] == mark and bool(_number(job["id"]))
    except (KeyError, TypeError, ValueError, RecursionError):
        return False  # A job that somebody else has launched


def _is_job_pending(answer: Answer) -> bool:
    return answer.status == 400 and "Host callback job already pending" in answer.said()


def _job(answer: Answer) -> str:
    found = re.search(r"/jobs/([0-9]{1,18})/?$", answer.location)
    number = _number(found.group(1) if found else answer.json().get("job"))
    return f"job {number}" if number else "a job"


def _number(value: Any) -> str:
    return str(value) if isinstance(value, (int, str)) and re.fullmatch(r"[0-9]{1,18}", str(value)) else ""
