# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM this is: the name that Resources uses, with the vmId that shows that Azure gave it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._errors import (
    HttpStatusError,
    MalformedError,
    NoAnswerError,
    NoIdentityError,
    NotImdsError,
)
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds.client import Identity
from ansible_collections.fleetops.azure_maintenance.tests import samples
from ansible_collections.fleetops.azure_maintenance.tests.instance import TARGET, compute, resource_id_of, vm_id_of

pytestmark = pytest.mark.filterwarnings("error")

WEB_1 = Identity("web-1", vm_id_of("web-1"), resource_id_of("web-1"))
GOOD = (200, compute("web-1"))
NOT_FOUND = (404, b'{ "error": "Not found" }')
# 404 and then 0.5, 1 and 2 seconds; the next pause, of 4 seconds, would be too long.
UNKNOWN = [0.5, 1, 2]


def test_the_request(serve):
    server = serve(GOOD)
    assert server.client().get_identity() == WEB_1
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("GET", TARGET, b"")
    assert request.header("Metadata") == ["true"]


@pytest.mark.parametrize(
    "name",
    [
        "aks-default-36328368-vmss_18",
        "größe-1",
        "n" * 128,
        "FrontEnd_IN_0",
        "_worker.local-1",
        "サーバー１",
        "Unavailable",
    ],
)
def test_a_name_of_a_vm(serve, name):
    assert serve((200, compute(name))).client().get_identity().name == name


@pytest.mark.parametrize("members", [{"name": ...}, {"name": None}, {"name": ""}])
def test_a_vm_without_a_name(serve, members):
    server = serve((200, compute("web-1", **members)))
    assert server.client().get_identity() == WEB_1._replace(name=None)


@pytest.mark.parametrize("told", [..., None, "", 7, ["/subscriptions"], "/a\nb", "/a\ud800b", "/" + "a" * 2048])
def test_a_resource_id_that_is_none(serve, told):
    server = serve((200, compute("web-1", resourceId=told)))
    assert server.client().get_identity() == WEB_1._replace(resource_id=None)


def test_a_vm_id_is_as_azure_spells_it(serve):
    told = "02AAB8A4-74EF-476E-8182-F6D2BA4166A6"
    assert serve((200, compute("web-1", vmId=told))).client().get_identity().vm_id == told


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf\r\n " + compute("web-1") + b"\n",
        # A control character inside a string, and a byte that is not UTF-8
        compute("web-1", tags="TAGS").replace(b"TAGS", b"a\x01\tb"),
        compute("web-1", tags="TAGS").replace(b"TAGS", b"gr\xf6sse"),
        compute("web-1", userData="QUJD" * 20000),
    ],
    ids=["with white space", "control character", "not UTF-8", "long"],
)
def test_what_is_odd_and_can_be_read(serve, body):
    assert serve((200, body)).client().get_identity() == WEB_1


def test_a_real_answer(serve):
    path = samples.FOLDER / "imds-instance-aks-spot-2021-02-01.json"
    if not path.exists():
        pytest.skip(samples.NO_FOLDER)
    members = json.loads(path.read_bytes())["compute"]
    server = serve((200, json.dumps(members).encode()))
    group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/MC_some-group_westeurope"
    provider = "providers/Microsoft.Compute/virtualMachineScaleSets/aks-spottest-41185300-vmss/virtualMachines/2"
    assert server.client().get_identity() == Identity(
        "aks-spottest-41185300-vmss_2", "00000000-0000-0000-0000-000000000001", f"{group}/{provider}"
    )


# What comes in the place of Azure's answer, and could be it for a reader who is less strict.
NONE = {
    "a word": b"Unavailable",
    "the name alone": b"web-1",
    "nothing": b"",
    "a page": b"<html><body>Log in</body></html>",
    "no whole JSON": compute("web-1")[:-1],
    "a string": b'"web-1"',
    "a list": b"[" + compute("web-1") + b"]",
    "null": b"null",
    "an error": b'{"error": "Bad request"}',
    "the whole instance": b'{"compute": ' + compute("web-1") + b"}",
    "no vmId": compute("web-1", vmId=...),
    "no vmId, but null": compute("web-1", vmId=None),
    "a vmId that is a number": compute("web-1", vmId=7),
    "a vmId that is a word": compute("web-1", vmId="unknown"),
    "a vmId in braces": compute("web-1", vmId="{02aab8a4-74ef-476e-8182-f6d2ba4166a6}"),
    "a vmId with a line feed": compute("web-1", vmId="02aab8a4-74ef-476e-8182-f6d2ba4166a6\n"),
    "a vmId with other digits": compute("web-1", vmId="\u06602aab8a4-74ef-476e-8182-f6d2ba4166a6"),
    "JSON that goes too deep": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "JSON that would fill the memory": compute("web-1", tags=[{} for _number in range(10001)]),
}
NO_NAME = {
    "a long name": "n" * 129,
    "a sentence": "Service Unavailable",
    "an address": "http://portal/login",
    "two lines": "web-1\nweb-2",
    "a NUL": "web\x00",
    "a terminal's colour": "\x1b[31mweb-1",
    "half a pair": "web\ud800",
    "a number": 7,
    "false": False,
    "a list": ["web-1"],
    "an object": {"name": "web-1"},
}
REFUSED = [
    *[pytest.param(body, "a JSON object with the vmId of a VM", id=case) for case, body in NONE.items()],
    *[pytest.param(compute("web-1", name=name), "a VM name", id=f"name: {case}") for case, name in NO_NAME.items()],
]


@pytest.mark.parametrize(("body", "wanted"), REFUSED)
def test_p4_what_is_no_answer_of_azure(serve, one_try, body, wanted):
    server = serve((200, body))
    with pytest.raises(NoIdentityError) as caught:
        server.client().get_identity()
    error = caught.value
    assert (error.reason, error.http_status, error.imds_reachable) == ("not_imds", 200, False)
    assert f"which is not {wanted}. Check for a proxy" in str(error)
    assert "or set resource_name" in str(error)
    assert len(str(error)) < 500
    assert str(error).isprintable()


@pytest.mark.parametrize(
    "fault",
    [NOT_FOUND, (200, b"Unavailable"), (200, b"<html>"), (200, compute("web-1", name="a b")), (410, b""), ["reset"]],
    ids=["404", "word", "page", "no name", "410", "reset"],
)
def test_p4_what_comes_in_the_place_of_the_answer_may_pass(serve, clock, fault):
    server = serve(fault, fault, GOOD)
    assert server.client().get_identity() == WEB_1
    assert clock.pauses == [0.5, 1]


def test_p4_a_word_is_asked_again_within_the_time_and_is_never_the_name(serve, clock):
    server = serve(then=(200, b"Unavailable"))
    with pytest.raises(NoIdentityError):
        server.client(timeout=60).get_identity()
    assert clock.pauses == [0.5, 1, 2, 4, 8, 16]


def test_a_404_that_stays_means_that_imds_knows_nothing_of_this_vm_and_costs_a_few_seconds(serve, clock):
    server = serve(then=NOT_FOUND)
    assert server.client().get_identity() == Identity()
    assert clock.pauses == UNKNOWN


def test_a_404_that_stays_after_other_faults(serve, clock):
    server = serve((200, b"Unavailable"), (500, b""), (410, b""), then=NOT_FOUND)
    assert server.client().get_identity() == Identity()
    assert clock.pauses == [0.5, 1, 2]


@pytest.mark.parametrize("timeout", [0.4, 1.2])
def test_a_404_is_not_asked_again_beyond_the_limit(serve, clock, timeout):
    server = serve(then=NOT_FOUND)
    client = server.client()
    assert client.get_identity(client.deadline(timeout)) == Identity()
    assert sum(clock.pauses) < timeout


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((404, NOT_FOUND[1], {"Retry-After": "60"}), id="it asks for a longer pause"),
        # The document, which is asked for next, says what is wrong.
        pytest.param((404, b"404 page not found"), id="of another cloud"),
    ],
)
def test_a_404_that_is_not_asked_again(serve, clock, answer):
    assert serve(answer).client().get_identity() == Identity()
    assert clock.pauses == []


@pytest.mark.parametrize("answer", [NOT_FOUND, (200, b"Unavailable")])
def test_a_client_that_does_not_retry_asks_once(serve, clock, answer):
    client = serve(answer).client(retries=False)
    if answer == NOT_FOUND:
        assert client.get_identity() == Identity()
    else:
        with pytest.raises(NoIdentityError):
            client.get_identity()
    assert clock.pauses == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((403, b"no"), HttpStatusError),
        ((400, b"{}"), HttpStatusError),
        ((302, b"", {"Location": "http://portal"}), NotImdsError),
        (b"SSH-2.0-OpenSSH\r\n", NotImdsError),
        ((200, b" " * (1024 * 1024 + 1)), MalformedError),
    ],
    ids=["403", "400", "redirect", "no HTTP", "more than 1 MiB"],
)
def test_what_asking_again_cannot_mend_fails_at_once(serve, clock, answer, error):
    server = serve(answer)
    with pytest.raises(error):
        server.client().get_identity()
    assert clock.pauses == []


def test_a_held_answer_ends_at_the_limit(serve):
    client = serve(["hold"]).client()
    with pytest.raises(NoAnswerError):
        client.get_identity(client.deadline(0.5))
