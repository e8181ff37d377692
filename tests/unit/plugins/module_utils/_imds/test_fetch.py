# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asking for the name and the document, and asking elsewhere, of a server that answers as a test writes it down."""

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils import _errors
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import client as imds
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import fetch
from ansible_collections.fleetops.azure_maintenance.tests.instance import PATH, compute, resource_id_of, vm_id_of
from ansible_collections.fleetops.azure_maintenance.tests.unit.plugins.module_utils.conftest import document, event

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.usefixtures("one_try")]

NAME = (200, compute("web-1"))


def ids(found):
    return [event.event_id for event in found.document.events]


def test_p1_the_name_is_known_before_the_document_is_read(serve):
    server = serve(NAME, document(event("A"), event("B", Resources=[])))
    client = server.client()
    found = fetch.fetch(client, None)
    assert ids(found) == ["A", "B"]
    assert found.identity == ("web-1", vm_id_of("web-1"), resource_id_of("web-1"))
    assert found.client is client
    assert 0 < found.deadline.remaining() < client.timeout
    assert len(found.warnings) == 1
    assert "Event B" in found.warnings[0]
    assert [request.target.split("?")[0] for request in server.requests] == [PATH, "/metadata/scheduledevents"]


def test_a_name_that_is_given_is_not_asked_for(serve):
    server = serve(document())
    assert fetch.fetch(server.client(), "db-1").identity == ("db-1", None, None)
    assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [(404, b'{ "error": "Not found" }'), (200, compute("web-1", name=...))])
@pytest.mark.parametrize("given", [None, ""])
def test_where_imds_has_no_name_there_is_a_document_all_the_same(serve, answer, given):
    server = serve(answer, document(event("A")))
    found = fetch.fetch(server.client(), given)
    assert found.identity.name is None
    assert ids(found) == ["A"]


@pytest.mark.parametrize("answer", [(404, b'{ "error": "Not found" }'), (200, compute("web-1", name=...))])
def test_g4_one_question_alone_advises_no_resource_name_for_what_passes_after_a_boot(serve, answer):
    client = serve(answer).client(retries=False)
    with pytest.raises(
        _errors.NotImdsError, match=r"Right after a boot this passes[.] Set resource_name to .* if it stays"
    ):
        fetch.fetch_name(client, client.deadline())


def test_s7_an_empty_body_is_no_document(serve):
    found = fetch.fetch(serve(NAME, (200, b"")).client(), None)
    assert (found.document, found.identity.name, found.warnings) == (None, "web-1", ())


@pytest.mark.parametrize("answer", [(500, b""), (200, b'{"error": "Bad request"}'), (200, b"Unavailable"), (200, b"")])
def test_without_a_sound_name_the_document_is_not_asked_for(serve, answer):
    server = serve(answer)
    with pytest.raises(_errors.ImdsError):
        fetch.fetch(server.client(), None)
    assert len(server.requests) == 1


def test_names_are_read_as_the_api_version_writes_them(serve):
    server = serve(document(event("A", Resources=["_web-1"])))
    found = fetch.fetch(server.client(api_version="2017-03-01"), "web-1")
    assert found.document.events[0].resources == ("web-1",)


def test_the_name_and_the_document_share_one_limit(serve, clock):
    server = serve([lambda: clock.skip(5999.5), NAME], then=["hold"])
    # The server gives up, and complains, long before a second limit of so many seconds would end.
    with pytest.raises(_errors.NoAnswerError):
        fetch.fetch(server.client(timeout=6000), None)


def addresses(*servers, notes=()):
    # An address may carry a port here; those of leases do not, and port 80 is what they mean.
    return lambda: ([(server.authority, f"lease {number}") for number, server in enumerate(servers, 1)], list(notes))


def test_look_elsewhere(serve, dead_endpoint):
    server = serve(NAME, document(event("A")))
    client = imds.ImdsClient(dead_endpoint, "2019-08-01")
    look = fetch.fetch(client, None, addresses(server, notes=["lease 0 cannot be read."]))
    assert ids(look) == ["A"]
    assert look.client.endpoint == server.endpoint
    assert look.identity.name == "web-1"
    assert look.warnings == ("lease 0 cannot be read.",)
    assert all(request.target for request in server.requests)
    assert server.requests[1].target.endswith("=2019-08-01")


def test_look_elsewhere_until_one_answers(serve, dead_endpoint):
    stranger, good, spare = serve((404, b"404 page not found")), serve(document(event("A"))), serve()
    client = imds.ImdsClient(dead_endpoint)
    look = fetch.fetch(client, "web-1", addresses(stranger, good, spare))
    assert look.client.endpoint == good.endpoint
    assert not spare.requests


def test_look_elsewhere_in_vain(serve, dead_endpoint):
    stranger, broken = serve((200, b"<html>")), serve(["reset"])
    client = imds.ImdsClient(dead_endpoint)
    with pytest.raises(_errors.UnreachableError) as caught:
        fetch.fetch(client, "web-1", addresses(stranger, broken, notes=["lease 0 cannot be read."]))
    message = str(caught.value)
    for part in (
        dead_endpoint,
        "lease 0 cannot be read.",
        "From lease 1: The endpoint ",
        f"From lease 2: {broken.endpoint} ",
    ):
        assert part in message
    assert (caught.value.reason, caught.value.http_status) == ("unreachable", None)
    assert "No DHCP lease" not in message


def test_look_elsewhere_where_no_lease_names_an_address(dead_endpoint):
    with pytest.raises(_errors.UnreachableError, match=r"Nothing answers at .* No DHCP lease of this machine names"):
        fetch.fetch(imds.ImdsClient(dead_endpoint), None, addresses())


def test_look_does_not_look_elsewhere_unless_told(dead_endpoint):
    with pytest.raises(_errors.UnreachableError) as caught:
        fetch.fetch(imds.ImdsClient(dead_endpoint), None)
    assert "lease" not in str(caught.value)


@pytest.mark.parametrize("answer", [(500, b""), (404, b"no"), (200, b"<html>"), (200, b"[]"), (200, b""), ["reset"]])
def test_look_does_not_look_elsewhere_where_something_answers(serve, answer):
    def find_addresses():
        raise AssertionError("looked elsewhere")

    client = serve(answer).client()
    if answer == (200, b""):
        assert fetch.fetch(client, "web-1", find_addresses).document is None
    else:
        with pytest.raises(_errors.ImdsError):
            fetch.fetch(client, "web-1", find_addresses)
