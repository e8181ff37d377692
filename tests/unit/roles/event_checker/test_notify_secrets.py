# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The secrets of webhooks and AWX: where they are read, how they are sent, and that they get nowhere else."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import html
import json
import os
import ssl
import traceback

import pytest
from ansible_collections.fleetops.azure_maintenance.roles.event_checker.files.azure_maintenance.respond import notify
from ansible_collections.fleetops.azure_maintenance.tests.certificates import make_certificate
from ansible_collections.fleetops.azure_maintenance.tests.programs import need_root
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils import conftest as scripted

pytestmark = pytest.mark.filterwarnings("error")

serve, dead_endpoint = scripted.serve, scripted.dead_endpoint

SECRET = 'p"ss\\wörd/Tøken'
TOKEN = "T0ken/=+"
PATH = "/services/T000/B000/XXXX"
OTHER_USER = 4242


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def secret_file(tmp_path):
    def write(content, mode=0o600):
        path = tmp_path / f"secret {len(list(tmp_path.iterdir()))}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return str(path)

    return write


def failure(function, *arguments, **options):
    with pytest.raises(notify.NotifyError) as caught:
        function(*arguments, **options)
    assert str(caught.value).isprintable()
    return caught.value


def refusal(*arguments, **options):
    """Return what is said where another try would not help."""
    error = failure(*arguments, **options)
    assert error.permanent is True
    return str(error)


def key_sent(server, path):
    notify.awx_callback(server.endpoint, {}, 600, key_file=path)
    return json.loads(server.requests[-1].body)["host_config_key"]


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("s3cret", "s3cret"),
        ("s3cret\n", "s3cret"),
        ("s3cret\r\n", "s3cret"),
        ("s3cret\nanother line\x00", "s3cret"),
        (" two words ", " two words "),
        (SECRET, SECRET),
        ("s" * 1000, "s" * 1000),
    ],
)
def test_the_first_line_of_the_file_is_the_secret(serve, secret_file, content, key):
    assert key_sent(serve((201,)), secret_file(content)) == key


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"\r\ns3cret", "is empty"),
        (b"s3\x00cret", "printable"),
        (b"s3\tcret", "printable"),
        (b"s3cret\rs3cret\n", "printable"),
        (b"\x1b[31ms3cret", "printable"),
        (b"s3cret\x7f", "printable"),
        ("s3\u0085cret".encode(), "printable"),
        ("\ufeffs3cret".encode(), "printable"),
        (b"s3cret\xff", "printable"),
    ],
)
def test_a_file_without_a_usable_secret(dead_endpoint, secret_file, content, said):
    path = secret_file(content)
    for told in (
        refusal(notify.webhook, dead_endpoint, {}, 600, hmac_file=path),
        refusal(notify.webhook, dead_endpoint, {}, 600, token_file=path),
        refusal(notify.awx_callback, dead_endpoint, {}, 600, key_file=path),
        refusal(notify.awx_job, dead_endpoint, "7", {}, 600, token_file=path, mark="1"),
    ):
        assert f"The secret file {path} " in told
        assert said in told
        assert "s3" not in told.replace(path, "")


@pytest.mark.parametrize("token", ["two words", " s3cret", "s3crét", "s3cret\u3000"])
def test_a_token_is_one_word_of_ascii(dead_endpoint, secret_file, token):
    path = secret_file(token)
    told = refusal(notify.webhook, dead_endpoint, {}, 600, token_file=path)
    assert path in told
    assert "s3cr" not in told


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o444, 0o666, 0o777])
def test_a_file_that_others_may_open_is_refused(dead_endpoint, secret_file, mode):
    path = secret_file("s3cret", mode)
    told = refusal(notify.awx_callback, dead_endpoint, {}, 600, key_file=path)
    assert told == f"The secret file {path} is open to others than its owner: chmod 600 it."


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_that_only_its_owner_may_open_is_read(serve, secret_file, mode):
    assert key_sent(serve((201,)), secret_file("s3cret", mode)) == "s3cret"


def test_a_file_of_another_user_is_refused(dead_endpoint, secret_file, monkeypatch):
    path = secret_file("s3cret")
    if os.geteuid() == 0:
        os.chown(path, OTHER_USER, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    told = refusal(notify.awx_callback, dead_endpoint, {}, 600, key_file=path)
    assert f"{path} belongs to another user: chown it" in told


@pytest.mark.parametrize("owner", [0, OTHER_USER])
def test_a_file_of_root_or_of_the_running_user_is_read(serve, secret_file, monkeypatch, owner):
    need_root("the test gives a file away")
    path = secret_file("s3cret")
    os.chown(path, owner, -1)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)
    assert key_sent(serve((201,)), path) == "s3cret"


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "dangling link", "device", "no path"])
def test_what_is_no_file(dead_endpoint, tmp_path, kind):
    path = str(tmp_path / "s")
    if kind == "folder":
        os.mkdir(path, 0o700)
    elif kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "dangling link":
        os.symlink("nowhere", path)
    elif kind == "device":
        path = "/dev/null"
    elif kind == "no path":
        path += "\x00"
    told = refusal(notify.awx_callback, dead_endpoint, {}, 600, key_file=path)
    assert "is not a regular file." in told or "cannot be read (" in told


def test_a_link_to_a_file_is_followed(serve, secret_file, tmp_path):
    os.symlink(secret_file("s3cret"), tmp_path / "link")
    assert key_sent(serve((201,)), str(tmp_path / "link")) == "s3cret"


def test_a_changed_secret_is_used_at_once(serve, secret_file):
    server, path = serve((201,), (201,)), secret_file("old")
    assert key_sent(server, path) == "old"
    with open(path, "w") as file:
        file.write("new")
    assert key_sent(server, path) == "new"


def test_the_signature_is_the_one_of_github_and_eda(serve, secret_file):
    server = serve((200,))
    notify.webhook(server.endpoint, {"description": "é\n"}, 600, hmac_file=secret_file(SECRET))
    (request,) = server.requests
    (signature,) = request.header("x-hub-signature-256")
    # As eda.builtin.webhook does it
    assert signature.startswith("sha256=")
    body = request.body.decode("utf-8").encode("utf-8")
    assert signature[len("sha256=") :] == hmac.new(SECRET.encode("utf-8"), body, hashlib.sha256).hexdigest()
    assert request.header("Authorization") == []


def test_signature_and_token_go_together(serve, secret_file):
    server = serve((200,))
    notify.webhook(server.endpoint, {}, 600, hmac_file=secret_file(SECRET), token_file=secret_file(TOKEN))
    (request,) = server.requests
    assert request.header("Authorization") == [f"Bearer {TOKEN}"]
    assert request.header("X-Hub-Signature-256")
    assert SECRET not in str(request)


@pytest.fixture
def calls(secret_file):
    """Calls that use each secret, the address of the webhook among them, by a name.

    What is tried again has to be given few seconds.
    """
    key, token = secret_file(SECRET), secret_file(TOKEN)
    return {
        "webhook": lambda endpoint, seconds=600, **options: notify.webhook(
            f"{endpoint}{PATH}?sig=XXXX", {}, seconds, hmac_file=key, token_file=token, **options
        ),
        "awx_callback": lambda endpoint, seconds=600, **options: notify.awx_callback(
            endpoint, {}, seconds, key_file=key, **options
        ),
        "awx_job": lambda endpoint, seconds=600, **options: notify.awx_job(
            f"{endpoint}/api/v2", "7", {}, seconds, token_file=token, mark="1", **options
        ),
    }


SECRETS = {"webhook": (SECRET, TOKEN, PATH, "sig=XXXX"), "awx_callback": (SECRET,), "awx_job": (TOKEN,)}


def forms(secret):
    """How a service may repeat a secret: as it is, in JSON, in HTML, in a header; and how Python would show it."""
    return [
        secret,
        json.dumps(secret)[1:-1],
        html.escape(secret),
        secret.encode().decode("latin-1"),
        repr(secret)[1:-1],
    ]


def assert_no_secret(error, kind):
    # Of an error, and of those it came from, all but the lines of code
    trace = traceback.format_exception(type(error), error, error.__traceback__, limit=0)
    for text in (str(error), repr(error), repr(error.args), repr(vars(error)), repr(error.__context__), "".join(trace)):
        for secret in SECRETS[kind]:
            for form in forms(secret):
                assert form not in text
                # As excerpt() would show it
                assert json.dumps(form, ensure_ascii=False)[1:-1] not in text


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("status", [302, 400, 401, 404, 500, 503])
def test_what_a_service_repeats_is_not_told(serve, calls, kind, status):
    text = "You sent " + ", ".join(form for secret in SECRETS[kind] for form in forms(secret)[:-1])
    # A page, and then what AWX makes of it
    for body in (text, json.dumps({"msg": text})):
        location = text.encode().decode("latin-1")
        error = failure(calls[kind], serve(then=(status, body.encode(), {"Location": location})).endpoint, seconds=1)
        assert '"You sent ***, ***' in str(error)
        assert_no_secret(error, kind)


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("status", [200, 201])
def test_a_good_answer_that_repeats_secrets_is_told_without(serve, calls, kind, status):
    text = ", ".join(SECRETS[kind])
    # The log has sentences of ours alone, but for the number of a job.
    try:
        said = calls[kind](serve((status, text.encode(), {"Location": "/" + TOKEN})).endpoint)
    except notify.NotifyError as error:
        said = str(error)
    assert all(secret not in said for secret in SECRETS[kind])


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize("fault", ["reset", b"", "bad status"])
def test_errors_of_the_connection_tell_no_secret(serve, calls, kind, fault):
    bad_status = f"HTTP/1.1 999999 {' '.join(SECRETS[kind])}\r\n".encode()
    error = failure(calls[kind], serve(then=[bad_status if fault == "bad status" else fault]).endpoint, seconds=1)
    assert_no_secret(error, kind)


@pytest.mark.parametrize("kind", SECRETS)
def test_a_service_that_is_down_tells_no_secret(dead_endpoint, calls, kind):
    assert_no_secret(failure(calls[kind], dead_endpoint, seconds=1), kind)


@pytest.mark.parametrize(
    "host", ["awx.example.com", "10.0.0.1", "localhost.example.com", "127.0.0.1.example.com", "[::2]", "2130706433"]
)
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_goes_over_plain_http(calls, kind, host):
    error = failure(calls[kind], f"http://{host}:8080")
    assert error.permanent is True
    assert f"is not sent to http://{host}:8080 unencrypted. Give an address https://" in str(error)
    assert_no_secret(error, kind)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8"])
def test_on_loopback_plain_http_will_do(serve, calls, host):
    server = serve(then=(201,), host="127.8.8.8" if host == "127.8.8.8" else "127.0.0.1")
    assert calls["awx_job"](f"http://{host}:{server.port}") == "AWX started a job."


def test_on_loopback_of_ipv6_plain_http_will_do(serve, calls):
    try:
        server = serve((201,), host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert calls["awx_job"](server.endpoint) == "AWX started a job."


def test_netrc_is_not_used(serve, tmp_path, monkeypatch):
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login netrc-user password netrc-password\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server, proxy = serve((200,)), serve((200,))
    notify.webhook(server.endpoint, {}, 600)
    monkeypatch.setenv("http_proxy", proxy.endpoint)
    notify.webhook("http://hooks.example.com/", {}, 600)
    assert (server.requests + proxy.requests)[0].header("Authorization") == []
    assert proxy.requests[0].header("Authorization") == []


def test_a_proxy_of_the_environment_is_used(serve, secret_file, monkeypatch):
    proxy = serve((200,))
    monkeypatch.setenv("http_proxy", proxy.endpoint)
    # The signature alone may go over plain HTTP: it gives nothing away.
    said = notify.webhook("http://hooks.example.com/hook", {}, 600, hmac_file=secret_file(SECRET))
    assert said == "http://hooks.example.com took the event (HTTP 200)."
    assert [request.target for request in proxy.requests] == ["http://hooks.example.com/hook"]


def test_a_proxy_does_not_see_the_token(serve, calls, monkeypatch):
    proxy = serve(then=(407, b"who are you?"))
    monkeypatch.setenv("https_proxy", proxy.endpoint)
    error = failure(calls["awx_job"], "https://awx.example.com", seconds=1)
    assert error.permanent is False
    launch = "https://awx.example.com/api/v2/job_templates/7/launch/"
    assert f"{launch} cannot be reached through the proxy (" in str(error)
    for request in proxy.requests:
        assert (request.method, request.target) == ("CONNECT", "awx.example.com:443")
        assert request.header("Authorization") == []
    assert proxy.requests


def test_no_proxy_is_heeded(serve, dead_endpoint, monkeypatch):
    proxy = serve()
    monkeypatch.setenv("http_proxy", proxy.endpoint)
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    failure(notify.webhook, "http://nowhere.invalid/", {}, 1)
    assert proxy.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_is_for_loopback_goes_through_no_proxy(serve, dead_endpoint, calls, monkeypatch, host):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, dead_endpoint)
    server = serve((201,))
    assert calls["awx_job"](f"http://{host}:{server.port}") == "AWX started a job."


class TlsServer(scripted.ScriptedServer):
    """The scripted server behind TLS; a client that does not trust it may go without a request."""

    def __init__(self, certificate, *answers):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        super().__init__(answers, (500,), "127.0.0.1", 0)
        self.endpoint = f"https://{self.authority}"

    def _serve(self, connection):
        with contextlib.suppress(OSError), self._context.wrap_socket(connection, server_side=True) as encrypted:
            super()._serve(encrypted)


@pytest.fixture
def serve_tls(serve):
    servers = []

    def start(*arguments):
        servers.append(TlsServer(*arguments))
        return servers[-1]

    yield start
    complaints = [complaint for server in servers for complaint in server.stop()]
    assert not complaints


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return a function that makes a certificate, with its key in the same file."""
    folder = tmp_path_factory.mktemp("certificates")

    def make(name, address):
        path = folder / f"{name}.pem"
        return str(path if path.exists() else make_certificate(path, address))

    return make


@pytest.fixture
def good(certificate):
    return certificate("good", "IP:127.0.0.1")


@pytest.mark.parametrize("kind", SECRETS)
def test_a_certificate_of_the_ca_file_is_trusted(serve_tls, calls, good, kind):
    server = serve_tls(good, (201, b"", {"Location": "/api/v2/jobs/17/"}))
    assert calls[kind](server.endpoint, ca_file=good)
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", SECRETS)
def test_a_certificate_of_an_unknown_authority_is_refused(serve_tls, calls, good, monkeypatch, kind):
    # These would otherwise take the place of the usual certificates.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", good)
    monkeypatch.setenv("CURL_CA_BUNDLE", good)
    server = serve_tls(good)
    error = failure(calls[kind], server.endpoint)
    assert error.permanent is True
    assert f"The certificate of {server.endpoint} is not trusted: " in str(error)
    assert "ca_file" in str(error)
    assert server.requests == []
    assert_no_secret(error, kind)


@pytest.mark.parametrize(
    ("name", "address"), [("another", "IP:127.0.0.1"), ("stranger", "IP:127.0.0.2"), ("named", "DNS:awx.example.com")]
)
def test_a_certificate_of_another_host_or_authority_is_refused(serve_tls, certificate, calls, good, name, address):
    used = certificate(name, address)
    server = serve_tls(used)
    assert "is not trusted" in refusal(calls["awx_job"], server.endpoint, ca_file=good if name == "another" else used)
    assert server.requests == []


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n", "folder"])
def test_a_ca_file_that_is_none(dead_endpoint, calls, tmp_path, content):
    path = tmp_path / "ca.pem"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    for call in calls.values():
        told = refusal(call, dead_endpoint, ca_file=str(path))
        assert f"ca_file {path} has no certificates that can be used (" in told
