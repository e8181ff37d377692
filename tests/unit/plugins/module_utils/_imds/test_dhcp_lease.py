# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSES or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What DHCP clients write down about option 245, in every spelling and every kind of damage.

No test asks the NetworkManager of the machine it runs on: nmcli is a function or a script of the test.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.module_utils._imds import dhcp_lease

NOW = datetime(2026, 11, 21, 10, 0, 0, tzinfo=timezone.utc)
AHEAD = "6 2026/11/21 10:00:01"
PASSED = "6 2026/11/21 09:59:59"
WIRE_SERVER = "168.63.129.16"

COOKIE = b"\x63\x82\x53\x63"


def lease(value: str = "a8:3f:81:10", expire: str | None = "never", option: str = "unknown-245") -> str:
    """Write one lease as dhclient does; the parts that matter can be changed."""
    lines = [
        "lease {",
        '  interface "eth0";',
        "  fixed-address 10.0.0.4;",
        '  server-name "RD0003FF{}";',
        "  option subnet-mask 255.255.255.0;",
        "  option dhcp-lease-time 4294967295;",
        f"  option {option} {value};",
        '  option domain-name "web-1.internal.cloudapp.net";',
        f"  renew {AHEAD};",
    ]
    if expire is not None:
        lines.append(f"  expire {expire};")
    return "\n".join(lines) + "\n}\n"


NETWORKD = """# This is private data. Do not parse.
ADDRESS=10.0.0.4
NETMASK=255.255.255.0
ROUTER=10.0.0.1
OPTION_245=a83f8110
LIFETIME=4294967295
"""

NMCLI = """DHCP4.OPTION[1]:dhcp_lease_time = 4294967295
DHCP4.OPTION[2]:ip_address = 10.0.0.4
DHCP4.OPTION[3]:private_245 = a8:3f:81:10
DHCP4.OPTION[4]:requested_routers = 1

"""


def packet(*options: tuple[int, bytes], end: bytes = b"\xff", cookie: bytes = COOKIE) -> bytes:
    """Build the packet of a DHCP server: a BOOTP header of 236 bytes, the cookie, the options."""
    body = b"".join(bytes([code]) + (bytes([len(data)]) + data if code else b"") for code, data in options)
    return b"\x02\x01\x06\x00".ljust(236, b"\0") + cookie + body + end


PACKET = packet((53, b"\x05"), (1, b"\xff\xff\xff\0"), (0, b""), (245, b"\xa8\x3f\x81\x10"), (3, b"\x0a\0\0\x01"))


def put(root: Path, name: str, content: Any, age: float = 0) -> str:
    """Write a file below ``root``, changed ``age`` seconds ago, and return its path."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
    stamp = 1_700_000_000 - age
    os.utime(path, (stamp, stamp))
    return str(path)


def look(root: Path, answer: str = "") -> tuple[list[tuple[str, str]], list[str]]:
    return dhcp_lease.find_endpoint_addresses(str(root), NOW, lambda: answer)


# One value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a8:3f:81:10", WIRE_SERVER, id="numbers as the Azure agent reads them"),
        pytest.param("A8:3F:81:10", WIRE_SERVER, id="upper case"),
        pytest.param("4:3:2:1", "4.3.2.1", id="single digits"),
        pytest.param("a:0:0:f", "10.0.0.15", id="single letters"),
        pytest.param(" a8:3f:81:10 ", WIRE_SERVER, id="spaces around numbers"),
        pytest.param(r"a8\:3f\:81\:10", WIRE_SERVER, id="colons escaped, as nmcli does in tables"),
        pytest.param("a83f8110", WIRE_SERVER, id="eight digits of networkd"),
        pytest.param("bL6 ", "98.76.54.32", id="text with a space at its end"),
        pytest.param('"bL6 "', "98.76.54.32", id="text in quotes"),
        pytest.param('dH\\"l', "100.72.34.108", id="text with an escaped quote"),
        pytest.param('"dH\\"l"', "100.72.34.108", id="text with an escaped quote in quotes"),
        pytest.param('"dH\\\\l"', "100.72.92.108", id="text with a backslash of its own"),
        pytest.param("dH:l", "100.72.58.108", id="text with a colon"),
        pytest.param('"a8:3"', "97.56.58.51", id="quotes make text of what looks like numbers"),
        pytest.param('"bL6"', "98.76.54.0", id="dhclient leaves out a last zero byte"),
        pytest.param("a8:3", None, id="two numbers are no text"),
        pytest.param("bL6", None, id="three characters without quotes"),
        pytest.param("a8:3f:81", None, id="three numbers"),
        pytest.param("a8:3f:81:10:00", None, id="five numbers"),
        pytest.param("a8:3f:81:g0", None, id="not hexadecimal"),
        pytest.param("a83f811", None, id="seven digits"),
        pytest.param("a83f81100", None, id="nine digits"),
        pytest.param('"bL6 x"', None, id="five characters of text"),
        pytest.param('"', None, id="one quote"),
        pytest.param('""', None, id="empty quotes"),
        pytest.param("", None, id="nothing"),
        pytest.param("\\", None, id="one backslash"),
        pytest.param("bL6\xe9", None, id="a byte dhclient would not print"),
        pytest.param("\u2603\udc80ab", None, id="no bytes at all"),
        pytest.param("0:0:0:0", None, id="no address"),
        pytest.param("ff:ff:ff:ff", None, id="broadcast"),
        pytest.param("e0:0:0:1", None, id="first multicast"),
        pytest.param("ef:ff:ff:ff", None, id="last multicast"),
        pytest.param("f0:0:0:1", None, id="reserved"),
        pytest.param("df:ff:ff:fe", "223.255.255.254", id="last before multicast"),
        pytest.param("a9:fe:a9:fe", "169.254.169.254", id="the usual address"),
    ],
)
def test_a_value(text: str, expected: str | None) -> None:
    assert dhcp_lease.parse_option_value(text) == expected


# dhclient


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(lease(), WIRE_SERVER, id="never expires"),
        pytest.param(lease(expire=AHEAD), WIRE_SERVER, id="a second left"),
        pytest.param(lease(expire=PASSED), None, id="a second too late"),
        pytest.param(lease(expire="6 2026/11/21 10:00:00"), None, id="expires now"),
        pytest.param(lease(expire=None), None, id="no expiry"),
        pytest.param(lease(expire="6 2152/02/30 10:00:00"), None, id="30 February"),
        pytest.param(lease(expire="6 2152/11/21"), None, id="date without a time"),
        pytest.param(lease(expire="soon"), None, id="expiry in prose"),
        pytest.param(lease(expire="nevermore"), None, id="not quite never"),
        pytest.param(lease(expire="6 2152/11/21 10:00:00 CEST"), None, id="foreign time zone"),
        pytest.param(lease(option="option-245", expire="6 2152/11/21 10:00:00 UTC"), WIRE_SERVER, id="OpenBSD"),
        pytest.param(lease(value='"bL6 "'), "98.76.54.32", id="quoted text"),
        pytest.param(lease(value='"d};l"'), "100.125.59.108", id="quoted text with a brace and a semicolon"),
        pytest.param(lease(value='"d};"'), "100.125.59.0", id="quoted text without its last zero byte"),
        pytest.param(lease(value="a83f8110"), None, id="no spelling of dhclient"),
        pytest.param(lease(value="0:0:0:0"), None, id="no address"),
        pytest.param(lease(option="unknown-246"), None, id="another option"),
        pytest.param(lease("5:4:3:2") + lease("4:3:2:1"), "4.3.2.1", id="the last lease wins"),
        pytest.param(
            lease("5:4:3:2") + lease("4:3:2:1", AHEAD) + lease("3:2:1:0", PASSED),
            "4.3.2.1",
            id="the last valid lease wins",
        ),
        pytest.param(lease("4:3:2:1") + lease(option="routers"), "4.3.2.1", id="a later lease without the option"),
        pytest.param(lease("4:3:2:1") + lease("0:0:0:0"), "4.3.2.1", id="a later lease with an unusable address"),
        pytest.param(lease() + lease("4:3:2:1", None)[:-2], WIRE_SERVER, id="the last lease was never finished"),
        pytest.param(
            lease("5:4:3:2", None)[:-2] + lease(option="routers"), None, id="a torn lease lends nothing to the next"
        ),
        pytest.param(
            lease()[:-2] + lease("4:3:2:1", None), None, id="the expiry of a torn lease does not cover the next"
        ),
        pytest.param(lease().split("{\n", 1)[1], None, id="its beginning is lost"),
        pytest.param(lease(option="routers") + lease().split("{\n", 1)[1], None, id="words between two leases"),
        pytest.param(lease().replace("\n", "\r\n"), WIRE_SERVER, id="line ends of Windows"),
        pytest.param(lease().replace("lease {", "lease6 {"), None, id="DHCPv6"),
        pytest.param('default-duid "\\000\\001";\n' + lease(), WIRE_SERVER, id="a DUID before the leases"),
        pytest.param("", None, id="empty"),
        pytest.param("}\n}\nlease {\nlease {\n", None, id="only braces"),
    ],
)
def test_dhclient(text: str, expected: str | None) -> None:
    assert dhcp_lease.parse_dhclient(text, NOW) == expected


def test_dhclient_dates_are_utc_whatever_zone_now_is_in() -> None:
    here = NOW.astimezone(timezone(timedelta(hours=-7)))
    assert dhcp_lease.parse_dhclient(lease(expire=AHEAD), here) == WIRE_SERVER
    assert dhcp_lease.parse_dhclient(lease(expire=PASSED), here) is None


# The other clients


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(NETWORKD, WIRE_SERVER, id="a whole lease"),
        pytest.param("OPTION_245=a83f8110", WIRE_SERVER, id="no line end"),
        pytest.param("OPTION_245=a83f8110\r\nX=1\r\n", WIRE_SERVER, id="line ends of Windows"),
        pytest.param("OPTION_245=01020304\nOPTION_245=a83f8110\n", WIRE_SERVER, id="the last line wins"),
        pytest.param("OPTION_245=a83f\n", None, id="torn to four digits, which are no text"),
        pytest.param("OPTION_245=a83f811000\n", None, id="five bytes"),
        pytest.param("OPTION_245=\n", None, id="no value"),
        pytest.param("OPTION_245=00000000\n", None, id="no address"),
        pytest.param("X_OPTION_245=a83f8110\nOPTION_2450=a83f8110\n", None, id="other names"),
        pytest.param("", None, id="empty"),
    ],
)
def test_networkd(text: str, expected: str | None) -> None:
    assert dhcp_lease.parse_networkd(text) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(PACKET, WIRE_SERVER, id="a whole packet"),
        pytest.param(PACKET + bytes(60), WIRE_SERVER, id="filled up with zeros"),
        pytest.param(packet((245, b"\x0a\x3e\x90\x8c")), "10.62.144.140", id="alone"),
        pytest.param(packet((245, b"\x0a\x3e\x90\x8c"), end=b""), "10.62.144.140", id="no end mark"),
        pytest.param(packet((53, b"\x05")), None, id="without the option"),
        pytest.param(packet((245, b"\x0a\x3e\x90")), None, id="three bytes"),
        pytest.param(packet((245, b"\x0a\x3e\x90\x8c\x01")), None, id="five bytes"),
        pytest.param(packet((245, b"\x0a\x3e\x90\x8c"), end=b"")[:-1], None, id="torn within the value"),
        pytest.param(packet((255, b""), (245, b"\x0a\x3e\x90\x8c")), None, id="after the end mark"),
        pytest.param(packet((43, b"\xf5\x04\x01\x02\x03\x04")), None, id="its code within another option"),
        pytest.param(packet((245, b"\0\0\0\0")), None, id="no address"),
        pytest.param(packet((245, b"\x0a\x3e\x90\x8c"), cookie=b"\0\0\0\0"), None, id="not DHCP"),
        pytest.param(b"", None, id="empty"),
    ],
)
def test_dhcpcd(raw: bytes, expected: str | None) -> None:
    assert dhcp_lease.parse_dhcpcd(raw) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(NMCLI, WIRE_SERVER, id="its own client"),
        pytest.param("DHCP4.OPTION[12]:unknown_245 = 4:3:2:1\n", "4.3.2.1", id="its dhclient"),
        pytest.param("DHCP4.OPTION[1]:unknown_245 = bL6 \n", "98.76.54.32", id="its dhclient, as text"),
        pytest.param("DHCP4.OPTION[1]:private_245 = a8\\:3f\\:81\\:10\n", WIRE_SERVER, id="escaped"),
        pytest.param("DHCP4.OPTION[1]:     private_245 = a8:3f:81:10\n", WIRE_SERVER, id="aligned"),
        pytest.param("DHCP4.OPTION[1]:private_245 = 0:0:0:0\n" + NMCLI, WIRE_SERVER, id="the first usable one"),
        pytest.param("DHCP4.OPTION[1]:private_245 = 4:3:2:1\n\n" + NMCLI, "4.3.2.1", id="two devices"),
        pytest.param("DHCP4.OPTION[1]:requested_private_245 = 1\n", None, id="asked for, not given"),
        pytest.param("IP4.DNS[1]:168.63.129.16\n", None, id="other fields"),
        pytest.param("", None, id="empty"),
    ],
)
def test_nmcli(text: str, expected: str | None) -> None:
    assert dhcp_lease.parse_nmcli(text) == expected


# Looking through a VM

DISTRIBUTIONS: dict[str, tuple[str, Any]] = {
    "Debian": ("var/lib/dhcp/dhclient.eth0.leases", lease()),
    "Debian without ifupdown": ("var/lib/dhcp/dhclient.leases", lease()),
    "RHEL 6": ("var/lib/dhclient/dhclient-eth0.leases", lease()),
    "RHEL 7": ("var/lib/dhclient/dhclient-eth0.lease", lease()),
    "NetworkManager with dhclient": ("var/lib/NetworkManager/dhclient-5fb06bd0-eth0.lease", lease()),
    "OpenBSD": ("var/db/dhclient.leases.hvn0", lease(option="option-245")),
    "systemd-networkd": ("run/systemd/netif/leases/2", NETWORKD),
    "dhcpcd": ("var/lib/dhcpcd/eth0.lease", PACKET),
}
every_distribution = pytest.mark.parametrize("name", sorted(DISTRIBUTIONS))


@every_distribution
def test_a_distribution(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, *DISTRIBUTIONS[name])
    assert look(tmp_path) == ([(WIRE_SERVER, path)], [])


def test_networkmanager(tmp_path: Path) -> None:
    assert look(tmp_path, NMCLI) == ([(WIRE_SERVER, "NetworkManager")], [])


def test_nothing_installed(tmp_path: Path) -> None:
    assert look(tmp_path) == ([], [])
    assert look(tmp_path / "missing") == ([], [])


@pytest.mark.parametrize(
    "name",
    [
        "var/lib/dhcp/dhclient6.eth0.leases",
        "var/lib/dhcp/dhclient.eth0.leases~",
        "var/lib/dhclient/eth0.lease",
        "var/lib/NetworkManager/internal-5fb06bd0-eth0.lease",
        "var/lib/dhcpcd/.eth0.lease",
        "var/lib/dhcpcd/eth0.lease6",
        "run/systemd/netif/leases/.#2k3j4",
    ],
)
def test_other_files_are_left_alone(name: str, tmp_path: Path) -> None:
    put(tmp_path, name, b"\0 rubbish that would be noted")
    assert look(tmp_path) == ([], [])


def test_what_is_true_now_goes_before_newer_files_on_disk(tmp_path: Path) -> None:
    old = put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", lease("1:1:1:3"), age=60)
    new = put(tmp_path, "var/lib/dhcpcd/eth0.lease", packet((245, b"\1\1\1\2")), age=30)
    link = put(tmp_path, "run/systemd/netif/leases/2", "OPTION_245=01010101\n", age=90)
    found, notes = look(tmp_path, NMCLI)
    assert found == [("1.1.1.1", link), (WIRE_SERVER, "NetworkManager"), ("1.1.1.2", new), ("1.1.1.3", old)]
    assert notes == []


def test_the_newest_of_several_files_goes_first(tmp_path: Path) -> None:
    paths = {
        name: put(tmp_path, f"var/lib/dhcp/dhclient.{name}.leases", lease(value), age)
        for name, value, age in [("eth0", "1:1:1:1", 20), ("eth1", "1:1:1:2", 10), ("eth2", "1:1:1:3", 30)]
    }
    assert look(tmp_path)[0] == [("1.1.1.2", paths["eth1"]), ("1.1.1.1", paths["eth0"]), ("1.1.1.3", paths["eth2"])]


def test_files_of_one_age_keep_the_order_of_their_names(tmp_path: Path) -> None:
    second = put(tmp_path, "var/lib/dhcp/dhclient.eth1.leases", lease("1:1:1:1"))
    first = put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", lease("1:1:1:2"))
    assert look(tmp_path)[0] == [("1.1.1.2", first), ("1.1.1.1", second)]


def test_an_address_is_named_once_with_its_best_source(tmp_path: Path) -> None:
    put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", lease(), age=9)
    put(tmp_path, "var/lib/dhcp/dhclient.eth1.leases", lease(), age=1)
    assert look(tmp_path, NMCLI)[0] == [(WIRE_SERVER, "NetworkManager")]


def test_without_a_time_it_is_now(tmp_path: Path) -> None:
    year = datetime.now(timezone.utc).year
    put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", lease("1:1:1:1", f"1 {year + 1}/12/31 00:00:00"))
    put(tmp_path, "var/lib/dhcp/dhclient.eth1.leases", lease("1:1:1:2", f"1 {year - 1}/01/01 00:00:00"))
    found, _notes = dhcp_lease.find_endpoint_addresses(str(tmp_path), networkmanager=lambda: "")
    assert [address for address, _source in found] == ["1.1.1.1"]


# Damage: skipped, and said

DHCLIENT_FILE = "var/lib/dhcp/dhclient.eth0.leases"
NETWORKD_FILE = "run/systemd/netif/leases/2"
DHCPCD_FILE = "var/lib/dhcpcd/eth0.lease"
NOT_WHOLE, TOO_LARGE = "could not be read: not a whole lease of", "could not be read: larger than 1048576 bytes"
UNUSABLE = "names option 245, but no lease in it is whole, valid and has a usable address"


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        pytest.param(DHCLIENT_FILE, bytes(512), f"{NOT_WHOLE} dhclient", id="zeros"),
        pytest.param(DHCLIENT_FILE, bytes(range(256)), f"{NOT_WHOLE} dhclient", id="rubbish"),
        pytest.param(DHCLIENT_FILE, lease(expire=PASSED), UNUSABLE, id="expired"),
        pytest.param(DHCLIENT_FILE, lease()[:-2], UNUSABLE, id="torn"),
        pytest.param(DHCLIENT_FILE, lease("ff:ff:ff:ff"), UNUSABLE, id="broadcast"),
        pytest.param(NETWORKD_FILE, b"\xff\xfe\0", f"{NOT_WHOLE} systemd-networkd", id="networkd rubbish"),
        pytest.param(NETWORKD_FILE, "OPTION_245=a83f", UNUSABLE, id="networkd torn"),
        pytest.param(DHCPCD_FILE, b"lease {}\n", f"{NOT_WHOLE} dhcpcd", id="dhcpcd rubbish"),
        pytest.param(DHCPCD_FILE, PACKET[:249], f"{NOT_WHOLE} dhcpcd", id="dhcpcd torn"),
        pytest.param(DHCPCD_FILE, packet((245, b"\0\0\0\0")), UNUSABLE, id="dhcpcd no address"),
        pytest.param(DHCPCD_FILE, PACKET + bytes(1024 * 1024), TOO_LARGE, id="too large"),
    ],
)
def test_a_damaged_file_is_noted_and_the_others_still_count(name: str, content: Any, note: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, content)
    good = put(tmp_path, "var/lib/dhclient/dhclient-eth0.leases", lease("4:3:2:1"))
    found, notes = look(tmp_path)
    assert found == [("4.3.2.1", good)]
    assert notes == [f"{path} {note}"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param(DHCLIENT_FILE, "", id="just created"),
        pytest.param(DHCLIENT_FILE, 'default-duid "\\000";\n', id="before the first lease"),
        pytest.param(DHCLIENT_FILE, lease(option="host-name", value='"vm-245"'), id="245 in a name"),
        pytest.param(NETWORKD_FILE, "ADDRESS=10.0.0.4\n", id="networkd"),
        pytest.param(DHCPCD_FILE, packet((53, b"\x05")), id="dhcpcd"),
    ],
)
def test_a_sound_file_without_the_option_is_no_news(name: str, content: Any, tmp_path: Path) -> None:
    put(tmp_path, name, content)
    assert look(tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(Path.mkdir, "Is a directory", id="a directory"),
        pytest.param(os.mkfifo, "not a regular file", id="a FIFO, which does not hold us"),
        pytest.param(lambda path: path.symlink_to("gone"), "No such file or directory", id="a link to nowhere"),
    ],
)
def test_what_stands_in_place_of_a_file(make: Any, why: str, tmp_path: Path) -> None:
    path = tmp_path / "var/lib/dhcp/dhclient.eth0.leases"
    path.parent.mkdir(parents=True)
    make(path)
    assert look(tmp_path) == ([], [f"{path} could not be read: {why}"])


def test_a_file_in_place_of_a_directory(tmp_path: Path) -> None:
    path = put(tmp_path, "var/lib/dhcp", "")
    assert look(tmp_path) == ([], [f"{path} could not be read: Not a directory"])


@pytest.mark.parametrize("function", ["open", "listdir"])
def test_no_permission(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", lease())
    denied = path if function == "open" else os.path.dirname(path)
    real = getattr(os, function)

    def refuse(name: Any, *args: Any) -> Any:  # root, who runs the tests in CI, may read whatever its mode is
        if name == denied:
            raise PermissionError(13, "Permission denied", name)
        return real(name, *args)

    monkeypatch.setattr(os, function, refuse)
    assert look(tmp_path) == ([], [f"{denied} could not be read: Permission denied"])


def test_a_name_that_is_not_utf_8_can_go_into_json(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "var/lib/dhcpcd")
    os.makedirs(folder)
    for name, content in [(b"eth\xff.lease", b"rubbish"), (b"eth\xfe.lease", PACKET)]:
        try:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        except OSError:
            pytest.skip("this file system wants UTF-8")
    found, notes = look(tmp_path)
    json.dumps([found, notes]).encode("utf-8")
    assert found[0][1].endswith("/eth\\xfe.lease")
    assert "/eth\\xff.lease could not be read" in notes[0]
    notes[0].encode("utf-8")


def test_a_file_of_the_largest_size_is_still_read(tmp_path: Path) -> None:
    text = lease()
    put(tmp_path, "var/lib/dhcp/dhclient.eth0.leases", "#" * (dhcp_lease.MAX_FILE_SIZE - len(text) - 1) + "\n" + text)
    assert [address for address, _source in look(tmp_path)[0]] == [WIRE_SERVER]


@pytest.mark.parametrize("filler", ["\n", " ", "lease ", "}", "option unknown-245 ", '\\"', "a:", "0", "\0"])
@pytest.mark.parametrize("start", ["", "lease {\noption unknown-245 ", 'lease {\noption unknown-245 "', "OPTION_245="])
def test_no_file_takes_long(start: str, filler: str, tmp_path: Path) -> None:
    content = (start + filler * 200_000)[:200_000]
    for name in (DHCLIENT_FILE, NETWORKD_FILE, DHCPCD_FILE):
        put(tmp_path, name, content)
    began = time.process_time()
    assert look(tmp_path)[0] == []
    assert time.process_time() - began < 60  # it takes tenths; a search that grows with the square takes minutes


@every_distribution
def test_a_file_torn_at_any_byte(name: str, tmp_path: Path) -> None:
    """Also what a torn file gives is right: nothing, or the whole address."""
    path, content = DISTRIBUTIONS[name]
    whole = content if isinstance(content, bytes) else content.encode("latin-1")
    for end in range(len(whole)):
        put(tmp_path, path, whole[:end])
        found, _notes = look(tmp_path)
        assert [address for address, _source in found] in ([], [WIRE_SERVER]), end


def test_an_answer_of_nmcli_torn_at_any_byte() -> None:
    # The last number torn to one digit cannot be told from a single digit; nmcli's answer is a pipe, read to its end.
    torn = {dhcp_lease.parse_nmcli(NMCLI[:end]) for end in range(len(NMCLI))}
    assert torn == {None, WIRE_SERVER, "168.63.129.1"}


@every_distribution
def test_a_file_with_any_byte_changed(name: str, tmp_path: Path) -> None:
    path, content = DISTRIBUTIONS[name]
    whole = content if isinstance(content, bytes) else content.encode("latin-1")
    chance = random.Random(245)
    for at in range(len(whole)):
        put(tmp_path, path, whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :])
        look(tmp_path)


# Asking NetworkManager


@pytest.fixture(name="nmcli")
def fake_nmcli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path where the code expects nmcli; a test writes a script there, or nothing."""
    path = tmp_path / "nmcli"
    monkeypatch.setattr(dhcp_lease, "NMCLI", str(path))
    return path


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)


def test_nmcli_is_asked_in_plain_english_and_for_the_leases_only(nmcli: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "elsewhere")
    script(nmcli, 'echo "$LC_ALL|$DBUS_SYSTEM_BUS_ADDRESS|$*"\n')
    assert dhcp_lease.ask_networkmanager() == "C||-t -f DHCP4 device show\n"


def test_the_answer_of_nmcli_is_found(nmcli: Path, tmp_path: Path) -> None:
    script(nmcli, f"cat <<'END'\n{NMCLI}END\n")
    found = dhcp_lease.find_endpoint_addresses(str(tmp_path), NOW, dhcp_lease.ask_networkmanager)
    assert found == ([(WIRE_SERVER, "NetworkManager")], [])


NOT_ASKED = "NetworkManager could not be asked: "


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        pytest.param(None, [], id="not installed"),
        pytest.param("echo 'Error: NetworkManager is not running.' >&2; exit 8", [], id="not running"),
        pytest.param("printf '\\377\\376\\0'", [], id="rubbish"),
        pytest.param("exit 1", [f"{NOT_ASKED}nmcli ended with status 1"], id="fails"),
        pytest.param("kill -9 $$", [f"{NOT_ASKED}nmcli ended with status -9"], id="killed"),
        pytest.param("exec sleep 600", [f"{NOT_ASKED}no answer within 0.2 s"], id="hangs"),
        pytest.param('sleep 600 & echo $! >"$0.child"; wait', [f"{NOT_ASKED}no answer within 0.2 s"], id="child hangs"),
        pytest.param(
            "echo 'DHCP4.OPTION[1]:private_245 = 0:0:0:0'",
            ["NetworkManager names option 245, but no usable address"],
            id="no address",
        ),
    ],
)
def test_nmcli_without_an_answer(
    text: str | None, notes: list[str], nmcli: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        script(nmcli, text + "\n")
    if "sleep" in (text or ""):
        monkeypatch.setattr(dhcp_lease, "NMCLI_TIMEOUT", 0.2)
    assert dhcp_lease.find_endpoint_addresses(str(tmp_path), NOW, dhcp_lease.ask_networkmanager) == ([], notes)
    child = Path(f"{nmcli}.child")
    if child.exists() and child.read_text(encoding="ascii"):
        # It was not waited for: it still runs.
        os.kill(int(child.read_text(encoding="ascii")), signal.SIGKILL)


def test_nmcli_that_may_not_be_run(nmcli: Path, tmp_path: Path) -> None:
    nmcli.write_text("", encoding="utf-8")
    nmcli.chmod(0o644)
    found = dhcp_lease.find_endpoint_addresses(str(tmp_path), NOW, dhcp_lease.ask_networkmanager)
    assert found == ([], [f"{NOT_ASKED}Permission denied"])


def test_importing_does_not_load_subprocess() -> None:
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('dhcp_lease', sys.argv[1])\n"
        "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "print('subprocess' in sys.modules)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(dhcp_lease.__file__)]
    assert subprocess.check_output(command, timeout=60).decode().strip() == "False"
