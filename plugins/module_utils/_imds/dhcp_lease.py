# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see LICENSES or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection: it may change in any release, so nothing outside should import it.

"""Find the address that DHCP option 245 names, for VMs on which 169.254.169.254 does not answer.

Nothing is written and nothing goes over the network: the files of DHCP clients are read. The parsers are pure
and answer None to anything damaged; only :func:`find_endpoint_addresses` looks at the VM.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from datetime import datetime, timezone
from ipaddress import IPv4Address
from typing import Callable

MAX_FILE_SIZE = 1024 * 1024  # lease files are a few kB
NMCLI = "/usr/bin/nmcli"  # absolute: PATH must not decide which program runs as root
NMCLI_TIMEOUT = 3.0

# Client, directory, and how the names of its lease files begin and end.
_NETWORKD = (("systemd-networkd", "run/systemd/netif/leases", "", ""),)
_ON_DISK = (
    ("dhclient", "var/lib/dhcp", "dhclient.", ".leases"),
    ("dhclient", "var/lib/dhclient", "dhclient-", ".leases"),
    ("dhclient", "var/lib/dhclient", "dhclient-", ".lease"),
    ("dhclient", "var/lib/NetworkManager", "dhclient-", ".lease"),
    ("dhclient", "var/db", "dhclient.leases.", ""),
    ("dhcpcd", "var/lib/dhcpcd", "", ".lease"),
)

_COOKIE = b"\x63\x82\x53\x63"  # stands before the options of every DHCP packet (RFC 2131, section 3)
_HEX_LIST = re.compile(r"[0-9A-Fa-f]{1,2}(?::[0-9A-Fa-f]{1,2})+")
_HEX_DIGITS = re.compile(r"[0-9A-Fa-f]{8}")
_LEASE = re.compile(r"\s*lease\b[^{]*\{")
# Quotes or colons, and the semicolon, so that a value torn in the middle is never taken for a shorter spelling.
_OPTION = re.compile(r'\s*option\s+(?:unknown|option)-245\s+("(?:[^"\\]|\\.)*"|[0-9A-Fa-f]+:[0-9A-Fa-f:]+)\s*;')
_EXPIRE = re.compile(r"\s*expire\s+([^;]*);")
# dhclient puts the day of the week first, OpenBSD's the time zone last.
_DATE = re.compile(r"(?:\d\s+)?(\d{4})/(\d\d?)/(\d\d?)\s+(\d\d?):(\d\d?):(\d\d?)(?:\s+(?:UTC|GMT))?", re.ASCII)
_NETWORKD_LINE = re.compile(r"^OPTION_245=([0-9A-Fa-f]{8})[ \t\r]*$", re.MULTILINE)
_NMCLI_LINE = re.compile(r"^DHCP4\.OPTION\[[0-9]+\]: *(?:private|unknown)_245 = (.*)$", re.MULTILINE)
# For the notes: a file names the option; a file looks like a lease at all.
_MARKS = {
    "dhclient": (r"\b(?:unknown|option)-245\b", r"^[ \t]*(?:lease6?|default-duid)\b"),
    "systemd-networkd": (r"^OPTION_245=", r"^[A-Z0-9_]+="),
}


def parse_option_value(text: str) -> str | None:
    """Read one value of option 245 in any spelling: ``a8:3f:81:10``, ``4:3:2:1``, ``a83f8110``, ``"bL6 "``, ``dH\\"l``.

    dhclient prints the four bytes as text when all of them are printable; in its own files between quotes.
    """
    quoted = len(text) > 1 and text[0] == text[-1] == '"'
    plain = re.sub(r"\\(.)", r"\1", text[1:-1] if quoted else text)
    if not quoted:
        digits = plain.strip()
        if _HEX_LIST.fullmatch(digits):  # asked first: a8:3f is an option of the wrong length, not four characters
            return _usable(bytes(int(part, 16) for part in digits.split(":")))
        if _HEX_DIGITS.fullmatch(digits):
            return _usable(bytes.fromhex(digits))
    elif len(plain) == 3:
        plain += "\0"  # dhclient leaves out a zero byte at the end of a text
    return _usable(plain.encode()) if plain.isascii() else None


def _usable(packed: bytes) -> str | None:
    """Return four bytes as an address, or None where nobody could be listening there."""
    if len(packed) != 4:
        return None
    address = IPv4Address(packed)
    # Reserved is 240.0.0.0/4, and with it 255.255.255.255.
    return None if address.is_unspecified or address.is_multicast or address.is_reserved else str(address)


def parse_dhclient(text: str, now: datetime) -> str | None:
    """Return the address of the last lease in a dhclient file that is whole and still valid at ``now`` (aware)."""
    found = value = None
    inside = valid = False
    for line in text.split("\n"):
        if _LEASE.match(line):
            # Also after a lease that a crash cut off: its words must not mix with these. Expired until expiry is read.
            inside, value, valid = True, None, False
        elif line.lstrip().startswith("}"):
            found = value if valid and value else found
            inside = False
        elif inside:
            option, expire = _OPTION.match(line), _EXPIRE.match(line)
            if option:
                value = parse_option_value(option.group(1))
            if expire:
                valid = _is_ahead(expire.group(1).strip(), now)
    return found


def _is_ahead(expiry: str, now: datetime) -> bool:
    """Say whether an expiry of dhclient lies after ``now``; one that cannot be read has passed."""
    date = _DATE.fullmatch(expiry)  # not strptime, which loads two modules more and follows the locale
    if not date:
        return expiry == "never"
    year, month, day, hour, minute, second = (int(part) for part in date.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc) > now
    except ValueError:
        return False


def parse_networkd(text: str) -> str | None:
    """Return the address in a lease of systemd-networkd. It has no expiry: networkd removes expired leases."""
    values = _NETWORKD_LINE.findall(text)
    return parse_option_value(values[-1]) if values else None


def parse_dhcpcd(packet: bytes) -> str | None:
    """Return the address in a lease of dhcpcd, which is the DHCP packet as it came over the wire."""
    return _usable(_option_245(packet) or b"")


def _option_245(packet: bytes) -> bytes | None:
    """Return the bytes of option 245, b"" where a packet has none, None where it is no DHCP packet or a torn one."""
    at = 240 if packet[236:240] == _COOKIE else len(packet)
    try:
        while packet[at] != 255:
            code, length = packet[at], packet[at + 1]
            if code == 245:
                return packet[at + 2 : at + 2 + length]
            at += 2 + length if code else 1  # padding is the only option without a length
    except IndexError:
        return None
    return b""


def parse_nmcli(text: str) -> str | None:
    """Return the address in the answer of ``nmcli -t -f DHCP4 device show``, of the first device that has one."""
    addresses = (parse_option_value(value) for value in _NMCLI_LINE.findall(text))
    return next((address for address in addresses if address), None)


def ask_networkmanager() -> str:
    """Return nmcli's output about the leases of the devices, "" where there is no NetworkManager to ask.

    nmcli, because it comes with NetworkManager, needs no Python library, never starts the daemon, and shows the
    values of D-Bus as they are: terse output in several lines is not escaped.

    :raises OSError: it is there, but gives no answer.
    """
    import subprocess  # 10 to 20 ms, saved where the usual address answers

    try:
        # ansible-test asks for AnsibleModule.run_command, but the checker on the VM has no AnsibleModule.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [NMCLI, "-t", "-f", "DHCP4", "device", "show"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C"},
            timeout=NMCLI_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, f"no answer within {NMCLI_TIMEOUT:g} s") from None
    if done.returncode not in (0, 8):  # 8 is "NetworkManager is not running"
        raise OSError(errno.EIO, f"nmcli ended with status {done.returncode}")
    return done.stdout.decode("latin-1") if done.returncode == 0 else ""


def find_endpoint_addresses(
    root: str = "/", now: datetime | None = None, networkmanager: Callable[[], str] = ask_networkmanager
) -> tuple[list[tuple[str, str]], list[str]]:
    """Look through every place where a DHCP client may have left option 245.

    Current leases come first: systemd-networkd (its files are gone after a boot), then NetworkManager. Files on disk
    follow, newest first whichever client wrote them: one left over in an image may still call itself valid.

    :returns: pairs of address and source, each address once, best first; and notes on unusable leases.
    """
    now = now or datetime.now(timezone.utc)
    notes: list[str] = []
    found = _look_in(root, _NETWORKD, now, notes)
    try:
        answer = networkmanager()
    except OSError as exc:
        answer = ""
        notes.append(f"NetworkManager could not be asked: {exc.strerror or exc}")
    address = parse_nmcli(answer)
    if address:
        found.append((address, "NetworkManager"))
    elif _NMCLI_LINE.search(answer):
        notes.append("NetworkManager names option 245, but no usable address")
    sources: dict[str, str] = {}
    for address, source in found + _look_in(root, _ON_DISK, now, notes):
        sources.setdefault(address, source)
    return list(sources.items()), notes


def _look_in(
    root: str, places: tuple[tuple[str, str, str, str], ...], now: datetime, notes: list[str]
) -> list[tuple[str, str]]:
    """Return the addresses in these places with their files, newest file first; add to ``notes``."""
    dated: list[tuple[float, str, str]] = []
    for client, folder, prefix, suffix in places:
        directory = os.path.join(root, folder)
        try:
            names = sorted(os.listdir(directory))
        except FileNotFoundError:  # a client that is not installed
            continue
        except OSError as exc:
            notes.append(f"{_printable(directory)} could not be read: {exc.strerror or exc}")
            continue
        for name in names:
            # networkd writes to a hidden file first and renames it.
            if name.startswith(".") or not (name.startswith(prefix) and name.endswith(suffix)):
                continue
            path = os.path.join(directory, name)
            try:
                raw, modified = _read(path)
            except OSError as exc:
                notes.append(f"{_printable(path)} could not be read: {exc.strerror or exc}")
                continue
            address, complaint = _judge(client, raw, now)
            if address:
                dated.append((-modified, _printable(path), address))
            elif complaint and raw:  # dhclient creates its file before it has a lease
                notes.append(f"{_printable(path)} {complaint}")
    return [(address, path) for _age, path, address in sorted(dated)]


def _read(path: str) -> tuple[bytes, float]:
    """Return the contents of a file and the time of its last change."""
    # O_NONBLOCK: a FIFO in place of a lease must not hold us until somebody writes to it.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as lease:
        status = os.fstat(lease.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        raw = lease.read(MAX_FILE_SIZE + 1)
    if len(raw) > MAX_FILE_SIZE:
        raise OSError(errno.EFBIG, f"larger than {MAX_FILE_SIZE} bytes")
    return raw, status.st_mtime


def _judge(client: str, raw: bytes, now: datetime) -> tuple[str | None, str | None]:
    """Return the address in a lease file, and a note about the file where an address is missing."""
    if client == "dhcpcd":
        value = _option_245(raw)
        address, named, sound = parse_dhcpcd(raw), bool(value), value is not None
    else:
        text = raw.decode("latin-1")  # never fails
        address = parse_dhclient(text, now) if client == "dhclient" else parse_networkd(text)
        named, sound = (bool(re.search(mark, text, re.MULTILINE)) for mark in _MARKS[client])
    if named:
        return address, "names option 245, but no lease in it is whole, valid and has a usable address"
    return address, None if sound else f"could not be read: not a whole lease of {client}"


def _printable(path: str) -> str:
    """Return a path as text that fits into JSON: names of files are bytes, and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
