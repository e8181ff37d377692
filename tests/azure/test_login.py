# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log in by the real azure-identity, and ask by requests: each kind of login, and each thing that may go wrong."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import ssl
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.arm import ArmClient
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.credentials import read_login
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure.errors import AzureError
from ansible_collections.fleetops.azure_maintenance.tests.azure import stand_in
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

PRINCIPAL = {"client_id": stand_in.CLIENT_ID, "tenant": stand_in.TENANT, "secret": stand_in.SECRET}


def ask(options=None, timeout=30.0, warnings=None):
    """Log in and ask for the subscriptions."""
    login = read_login(options or {}, os.environ, Path.home())
    client = ArmClient(login, timeout, ([] if warnings is None else warnings).append)
    return client, client.send("GET", "/subscriptions", "2022-12-01")


def test_secret(azure):
    _client, answer = ask(PRINCIPAL)
    assert answer.body["value"][0]["subscriptionId"] == stand_in.SUBSCRIPTION


def test_secret_in_the_environment(principal):
    assert ask()[1].status == 200


def test_certificate(azure, tmp_path):
    """azure-identity takes none with a key of elliptic curves."""
    key, own = tmp_path / "principal.pem", tmp_path / "principal.crt"
    options = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=principal -keyout {key} -out {own}"
    subprocess.run([need_program("openssl", package="openssl"), *options.split()], check=True, capture_output=True)
    key.write_text(key.read_text() + own.read_text())
    der = ssl.PEM_cert_to_DER_cert(own.read_text())
    for digest in (hashlib.sha1(der, usedforsecurity=False), hashlib.sha256(der)):
        azure.certificates[_base64(digest.digest())] = True
    options = {**PRINCIPAL, "secret": None, "x509_certificate_path": str(key)}
    assert ask(options)[1].status == 200


def _base64(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_workload_identity(azure, tmp_path, monkeypatch):
    token = tmp_path / "token"
    token.write_text(stand_in.FEDERATED_TOKEN)
    monkeypatch.setenv("AZURE_CLIENT_ID", stand_in.CLIENT_ID)
    monkeypatch.setenv("AZURE_TENANT_ID", stand_in.TENANT)
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(token))
    assert ask()[1].status == 200


def test_managed_identity(azure, monkeypatch):
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{azure.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", stand_in.SECRET)
    assert ask({"auth_source": "msi"})[1].status == 200


@pytest.fixture
def azure_cli(azure, tmp_path, monkeypatch):
    """A program az that has a token, as the Azure CLI prints one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "az"

    def write(code):
        program.write_text(f"#!{sys.executable}\n{code}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return write


def test_azure_cli(azure, azure_cli):
    token = {"audience": stand_in.AUDIENCE, "expires": time.time() + 3600}
    azure.tokens["of-the-cli"] = token
    azure_cli(
        "import json, sys, time\n"
        f"assert sys.argv[sys.argv.index('--resource') + 1] == {stand_in.AUDIENCE!r}, sys.argv\n"
        "print(json.dumps({'accessToken': 'of-the-cli', 'expires_on': int(time.time()) + 3600}))"
    )
    assert ask({"auth_source": "cli"})[1].status == 200


def fails(options=None, timeout=30.0):
    with pytest.raises(AzureError) as told:
        ask(options, timeout)
    assert stand_in.SECRET not in str(told.value)
    return told.value


def fails_by(reason, options):
    """Return what is said of a failure for this reason."""
    failure = fails(options)
    assert failure.reason == reason
    return str(failure)


def test_azure_cli_that_is_not_logged_in(azure_cli):
    azure_cli("import sys; sys.exit('ERROR: Please run az login to setup account.')")
    assert "az login" in fails_by("login", {"auth_source": "cli"})


def test_p15_an_azure_cli_that_hangs(azure_cli):
    azure_cli("import time; time.sleep(60)")
    began = time.monotonic()
    assert fails({"auth_source": "cli"}, timeout=3).reason in ("login", "timeout")
    assert time.monotonic() - began < 20


def test_wrong_secret(azure):
    said = fails_by("login", {**PRINCIPAL, "secret": "another"})
    assert "AADSTS7000215" in said
    assert "another" not in said


def test_certificate_that_is_not_there(azure):
    options = {**PRINCIPAL, "secret": None, "x509_certificate_path": "/nowhere.pem"}
    assert "/nowhere.pem" in fails_by("login", options)


@pytest.mark.parametrize(
    "part", ["openid-configuration", "/oauth2/v2.0/token", "/metadata/endpoints", "/subscriptions"]
)
@pytest.mark.parametrize("how", ["hang", "dribble"])
def test_p15_what_hangs_ends_with_the_time_of_the_task(azure, part, how):
    azure.add_fault(part, how, times=9)
    began = time.monotonic()
    failure = fails(PRINCIPAL, timeout=2)
    assert failure.reason in ("timeout", "login")
    assert time.monotonic() - began < 20


def test_p15_a_login_endpoint_that_takes_no_connection(azure, monkeypatch):
    monkeypatch.setenv("AZURE_CLOUD_ENVIRONMENT", "https://127.0.0.1:9")
    assert fails(PRINCIPAL, timeout=3).reason == "unreachable"


def test_a_token_that_expires(azure):
    client, _answer = ask(PRINCIPAL)
    for token in azure.tokens.values():
        token["expires"] = 0
    assert client.send("GET", "/subscriptions", "2022-12-01").status == 200
    assert azure.logins == 2


def test_a_token_that_is_never_taken(azure):
    azure.token_seconds = -10
    failure = fails(PRINCIPAL)
    assert (failure.reason, failure.http_status) == ("login", 401)
    assert azure.logins == 2


@pytest.mark.parametrize(("ahead", "side"), [(3600, "behind"), (-3600, "ahead of"), (20, None)])
def test_a_clock_that_is_wrong(azure, ahead, side):
    azure.clock_ahead = ahead
    warnings = []
    client, _answer = ask(PRINCIPAL, warnings=warnings)
    told = [(int(seconds), which) for seconds, which in re.findall(r"(\d+) s (behind|ahead of)", " ".join(warnings))]
    # A busy machine, and a date in whole seconds, take some.
    assert [which for seconds, which in told if abs(seconds - 3600) < 60] == ([side] if side else [])
    assert len(warnings) == len(told)
    assert abs(client.now().timestamp() - time.time() - (ahead if side else 0)) < 60


@pytest.mark.parametrize("status", [429, 500, 503, "reset"])
def test_asks_again(azure, status):
    azure.add_fault("/subscriptions", status, times=2, Retry_After=0)
    assert ask(PRINCIPAL)[1].status == 200
    assert len(azure.requests("/subscriptions")) == 3


@pytest.mark.parametrize(
    ("status", "body", "reason", "said"),
    [
        (403, {"error": {"code": "AuthorizationFailed", "message": "No role."}}, "forbidden", "AuthorizationFailed"),
        (400, {"Error": {"Code": "Bad", "Message": "Do\x1b[31m not."}}, "http_status", r"Bad: Do\u001b[31m not."),
        (302, None, "http_status", "302"),
        (200, "<html>portal</html>", "malformed", "proxy or portal"),
        (404, "<html>portal</html>", "http_status", "404"),
    ],
)
def test_answers_that_do_not_pass(azure, status, body, reason, said):
    azure.add_fault("/subscriptions", status, body=body, Location=f"{azure.url}/elsewhere")
    assert said in fails_by(reason, PRINCIPAL)
    assert len(azure.requests("/subscriptions")) == 1


def test_a_certificate_that_nobody_trusts(azure, monkeypatch):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    assert "REQUESTS_CA_BUNDLE" in fails_by("certificate", PRINCIPAL)


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    "proxy",
    [
        "http://alice:hunter2#x@127.0.0.1:3128",
        "http://alice:hun[ter2@127.0.0.1:3128",
        "http://alice:hunter2/@h:1",
        ":hunter2",
    ],
)
def test_p12_a_proxy_that_cannot_be_used_is_refused_without_its_password(azure, monkeypatch, variable, proxy):
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ValueError, match=f"{variable.upper()} is no address of a proxy") as refused:
        ask(PRINCIPAL)
    assert "hun" not in str(refused.value)
    assert azure.journal == []


def test_a_missing_file_of_certificates_is_told_at_once(azure, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent/ca.pem")
    assert "/nonexistent/ca.pem. Check the variable REQUESTS_CA_BUNDLE." in fails_by("certificate", PRINCIPAL)


def test_the_token_goes_nowhere_else(azure):
    client, _answer = ask(PRINCIPAL)
    with pytest.raises(AzureError, match="is not https://"):
        client.follow("https://localhost:1/subscriptions?api-version=2022-12-01")


def test_a_file_netrc_takes_not_the_place_of_the_token(azure):
    (Path.home() / ".netrc").write_text("machine 127.0.0.1 login anna password word\n")
    assert ask(PRINCIPAL)[1].status == 200
