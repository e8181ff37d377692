# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells other services of an event: a webhook, and AWX by provisioning callback or by launching a job template.

What may pass is tried again, so that a service may hear of an event more than once.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any
from urllib.parse import quote, urlsplit

from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import one_line

from .http_client import Answer, NotifyError, Service

__all__ = ["NotifyError", "awx_callback", "awx_job", "webhook"]


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
    :raises NotifyError: there was no answer 2xx.
    """
    service = Service(url, ca_file)
    # With many services whoever knows the address may post to it.
    service.hide(urlsplit(url).path.rstrip("/"))
    service.hide(urlsplit(url).query)
    content = json.dumps(payload).encode("ascii")
    if hmac_file is not None:
        digest = hmac.new(service.read_secret(hmac_file).encode(), content, hashlib.sha256).hexdigest()
        service.headers["X-Hub-Signature-256"] = f"sha256={digest}"
    if token_file is not None:
        service.use_token(token_file)
    answer = service.post(content, seconds)
    if 200 <= answer.status < 300:
        return f"{service.name} took the event (HTTP {answer.status})."
    raise service.refusal(answer, "Check the address of the webhook, and the files with its secrets.")


def awx_callback(
    url: str, extra_vars: dict[str, Any], seconds: float, *, key_file: str, ca_file: str | None = None
) -> str:
    """Ask AWX by provisioning callback to run a job template for this VM, and return a sentence for the log.

    :param url: ``…/api/v2/job_templates/N/callback/``.
    :param seconds: all the time there is, tries and pauses together.
    :raises NotifyError: AWX has started no job.
    """
    service = Service(url, ca_file)
    key = service.read_sent_secret(key_file)
    content = json.dumps({"host_config_key": key, "extra_vars": extra_vars}).encode("ascii")
    answer = service.post(content, seconds)
    # Up to Tower 3.2 it was 202.
    if answer.status in (201, 202):
        return f"AWX started {_job(answer)}."
    if answer.status == 400 and "Host callback job already pending" in answer.said():
        return "AWX already has a job for this VM that is pending or running."
    raise service.refusal(
        answer, f"Check the address, the key in {one_line(key_file)}, and the inventory of the job template."
    )


def awx_job(
    url: str, template: str, extra_vars: dict[str, Any], seconds: float, *, token_file: str, ca_file: str | None = None
) -> str:
    """Launch a job template of AWX, and return a sentence for the log.

    :param url: where AWX is, such as ``https://awx.example.com``.
    :param template: ID or ``NAME++ORGANIZATION``.
    :param seconds: all the time there is, tries and pauses together.
    :raises NotifyError: AWX has started no job.
    """
    service = Service(f"{url.rstrip('/')}/api/v2/job_templates/{quote(str(template), safe='')}/launch/", ca_file)
    service.use_token(token_file)
    answer = service.post(json.dumps({"extra_vars": extra_vars}).encode("ascii"), seconds)
    if answer.status != 201:
        raise service.refusal(
            answer,
            f"Check the address, the job template {one_line(str(template))}, and the token in {one_line(token_file)}.",
        )
    if answer.json().get("ignored_fields"):
        return (
            f"AWX started {_job(answer)}, but ignored variables: "
            f"let the job template {one_line(str(template))} prompt for variables on launch."
        )
    return f"AWX started {_job(answer)}."


def _job(answer: Answer) -> str:
    found = re.search(r"/jobs/([0-9]{1,18})/?$", answer.location)
    number = found.group(1) if found else answer.json().get("job")
    return f"job {number}" if isinstance(number, (int, str)) and re.fullmatch(r"[0-9]{1,18}", str(number)) else "a job"
