# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether what the configuration names is there: playbooks, programs, files with secrets, libraries."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config import (
    requirements as validate,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.config import (
    parse_config,
)
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.config.requirements import (  # noqa: E501
    find_missing,
)
from ansible_collections.fleetops.azure_maintenance.tests.certificates import make_certificate

pytestmark = pytest.mark.filterwarnings("error")

URL, PLAIN = "https://example.com/", "http://example.com/"
UNENCRYPTED = "The secret in FILES/secret is not sent to http://example.com unencrypted. Give an address https://…."


@pytest.fixture
def files(tmp_path):
    """A folder with everything that a step may name."""
    modes = {"secret": 0o600, "open": 0o644, "empty": 0o600, "words": 0o600, "ca.pem": 0o644, "program": 0o755}
    for name, mode in modes.items():
        (tmp_path / name).write_text({"empty": "", "words": "two words\n"}.get(name, "s3cret\n"))
        (tmp_path / name).chmod(mode)
    make_certificate(tmp_path / "tls.pem", "DNS:example.com")
    return tmp_path


@pytest.fixture
def missing(folders, files, monkeypatch):
    """What is missing for steps in which FILES stands for the folder, on a VM that has requests."""
    monkeypatch.setattr(validate.importlib.util, "find_spec", lambda name: name)
    # What a playbook needs to run is in test_checker_playbooks.
    monkeypatch.setattr(validate, "why_no_playbook_runs", lambda program: [])

    def find(*steps, **settings):
        given = [
            {
                key: value.replace("FILES", str(files)) if isinstance(value, str) else value
                for key, value in step.items()
            }
            for step in steps
        ]
        content = {
            "ansible_playbook": str(files / "program"),
            "rules": [{"name": "Drain", "on_ended": given}],
            **settings,
        }
        found = [sentence.replace(str(files), "FILES") for sentence in find_missing(parse_config(content), folders)]
        # What may be wrong with a secret is told in test_notify_secrets.
        found = [re.sub(r"The secret file (\S+) .*", r"secret \1", sentence) for sentence in found]
        return [re.sub(r"used \(.*", "used.", sentence) for sentence in found]

    return find


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param({"playbook": "drain.yml"}, [], id="a playbook"),
        pytest.param({"playbook": "FILES/playbooks/drain.yml"}, [], id="a playbook by its path"),
        pytest.param(
            {"playbook": "nosuch.yml"}, ["there is no playbook FILES/playbooks/nosuch.yml."], id="no such playbook"
        ),
        pytest.param({"playbook": "/nosuch.yml"}, ["there is no playbook /nosuch.yml."], id="no such path"),
        pytest.param({"playbook": "."}, ["there is no playbook FILES/playbooks/.."], id="a folder"),
        pytest.param({"command": ["sh", "-c", "true"]}, [], id="a program on PATH"),
        pytest.param({"command": ["/bin/sh"]}, [], id="a program by its path"),
        pytest.param({"command": ["nosuch-program"]}, ["there is no program nosuch-program."], id="no such program"),
        pytest.param({"command": ["/etc/passwd"]}, ["there is no program /etc/passwd."], id="no program at all"),
        pytest.param({"webhook": URL}, [], id="a webhook"),
        pytest.param(
            {"webhook": URL, "ca_file": "FILES/tls.crt", "hmac_file": "FILES/secret", "token_file": "FILES/secret"},
            [],
            id="a webhook with files",
        ),
        pytest.param(
            {"webhook": URL, "ca_file": "FILES/ca.pem", "token_file": "FILES/nosuch"},
            ["ca_file FILES/ca.pem has no certificates that can be used."],
            id="a ca_file without a certificate",
        ),
        pytest.param(
            {"webhook": PLAIN, "token_file": "FILES/secret", "hmac_file": "FILES/secret"},
            [UNENCRYPTED],
            id="a token without TLS",
        ),
        pytest.param(
            {"awx_job": PLAIN, "template": 7, "token_file": "FILES/secret"},
            [UNENCRYPTED],
            id="a job of AWX without TLS",
        ),
        pytest.param(
            {"webhook": URL, "token_file": "FILES/words"},
            ["The token in FILES/words must be one word of ASCII characters."],
            id="a token of two words",
        ),
        pytest.param(
            {"webhook": URL, "ca_file": "FILES/nosuch"}, ["there is no ca_file FILES/nosuch."], id="no such ca_file"
        ),
        pytest.param(
            {"webhook": URL, "token_file": "FILES/nosuch"},
            ["secret FILES/nosuch"],
            id="no such token_file",
        ),
        pytest.param(
            {"webhook": URL, "hmac_file": "FILES/open"},
            ["secret FILES/open"],
            id="a secret that is open to others",
        ),
        pytest.param(
            {"awx_callback": URL + "api/v2/job_templates/7/callback/", "key_file": "FILES/empty"},
            ["secret FILES/empty"],
            id="an empty secret",
        ),
        pytest.param({"awx_job": URL, "template": 7, "token_file": "FILES/secret"}, [], id="a job of AWX"),
        pytest.param(
            {"awx_job": URL, "template": 7, "token_file": "FILES/program"},
            ["secret FILES/program"],
            id="a token that is open to others",
        ),
    ],
)
def test_what_a_step_names(missing, folders, step, expected):
    Path(folders.playbooks, "drain.yml").touch()
    assert missing(step) == [f"rule Drain: {sentence}" for sentence in expected]


def test_everything_that_is_missing_is_told_in_order(missing):
    steps = [{"command": ["/nosuch/a"]}, {"webhook": URL, "ca_file": "/nosuch/b", "token_file": "/nosuch/c"}]
    assert missing(*steps, metrics_dir="/nosuch/d") == [
        "rule Drain: there is no program /nosuch/a.",
        "rule Drain: there is no ca_file /nosuch/b.",
        "rule Drain: secret /nosuch/c",
        "metrics_dir: there is no folder /nosuch/d.",
    ]


def test_the_secret_itself_is_never_told(missing):
    assert "s3cret" not in str(missing({"webhook": URL, "token_file": "FILES/open"}))


def test_the_folder_of_the_metrics(missing, files):
    assert missing(metrics_dir=str(files)) == []
    assert missing(metrics_dir=str(files / "secret")) == ["metrics_dir: there is no folder FILES/secret."]


@pytest.mark.parametrize("given", [None, "/nosuch/ansible-playbook"])
def test_ansible_is_asked_for_where_there_are_playbooks(missing, folders, monkeypatch, given):
    monkeypatch.setenv("PATH", "/nosuch")
    Path(folders.playbooks, "drain.yml").touch()
    assert missing({"webhook": URL}, ansible_playbook=given) == []
    (sentence,) = missing({"playbook": "drain.yml"}, ansible_playbook=given)
    assert sentence.startswith(f"{given or 'ansible-playbook'} was not found. Install ansible-core")


@pytest.mark.parametrize(
    "step",
    [
        {"webhook": URL},
        {"awx_callback": URL + "api/v2/job_templates/7/callback/", "key_file": "FILES/secret"},
        {"awx_job": URL, "template": 1, "token_file": "FILES/secret"},
    ],
)
def test_requests_is_asked_for_where_another_system_is_told(missing, monkeypatch, step):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert missing(step) == ["The Python library requests is missing. Install python3-requests."]
    assert missing({"command": ["/bin/sh"]}) == []
