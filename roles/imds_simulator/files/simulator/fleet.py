# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs there are, which of them share a document, and how a request tells which VM it comes from."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import quote, unquote

from simulator.checks import Refused, show
from simulator.world import choose_vm, find_vm

DEFAULT_SCOPE = "default"
_PREFIX = re.compile(r"/vm/([^/]+)(/.*)?\Z", re.DOTALL)


def check_vms(vms):
    """Names that can stand in a URL and in a list separated by commas."""
    if not vms:
        raise Refused("there are no VMs; name them with --vms web-1,web-2 or in the scenario.")
    for number, name in enumerate(vms):
        if not name or not name.isprintable() or any(character in "/,= " for character in name):
            raise Refused(f"{show(name)} cannot be the name of a VM; use letters, digits, '-', '_' and '.'.")
        if find_vm(vms[:number], name):
            raise Refused(f"the VM {name} is named twice (names are compared without regard to case).")
    return vms


def share_scopes(vms, asked, where):
    """Scope names and their VMs; a VM that stands in none joins the scope "default"."""
    scopes = {}
    home = {}
    for scope, members in asked.items():
        if not scope:
            raise Refused(f"{where}: a scope has no name; write NAME=vm,vm.")
        scopes[scope] = []
        for item in members:
            if isinstance(item, bool) or not isinstance(item, (str, int)):
                raise Refused(f"{where}: scope {scope} holds {show(item)}, which is not the name or number of a VM.")
            vm = choose_vm(vms, item, f"{where}: scope {scope}")
            if vm in home:
                raise Refused(f"{where}: the VM {vm} stands in scope {home[vm]} and again in {scope}; it has one.")
            home[vm] = scope
            scopes[scope].append(vm)
    alone = [vm for vm in vms if vm not in home]
    if alone:
        scopes.setdefault(DEFAULT_SCOPE, []).extend(alone)
    return scopes


def endpoint_path(vm):
    return "/vm/" + quote(vm, safe="")


class Addresses:
    def __init__(self, vms, by_address):
        self._vms = vms
        self._by_address = {}
        for address, name in by_address.items():
            self._by_address[_address(address)] = choose_vm(vms, name, f"--by-address {address}")

    def find(self, path, client):
        """The VM that a request comes from (None if unknown) and the path that it asks for."""
        prefixed = _PREFIX.match(path)
        if prefixed:
            return find_vm(self._vms, unquote(prefixed.group(1))), prefixed.group(2) or "/"
        if self._by_address:
            return self._by_address.get(_plain(ipaddress.ip_address(client))), path
        return self._vms[0] if len(self._vms) == 1 else None, path

    def help(self, client):
        return (
            f"The simulator cannot tell which VM asks. Use the prefix /vm/NAME (NAME is one of {', '.join(self._vms)})"
            f" or start it with --by-address {client}=NAME."
        )


def _address(written):
    try:
        return _plain(ipaddress.ip_address(written))
    except ValueError as error:
        raise Refused(f"--by-address: {show(written)} is not an IP address; write ADDRESS=VM.") from error


def _plain(address):
    # A socket that listens on IPv6 shows an IPv4 client as ::ffff:10.0.0.2.
    return getattr(address, "ipv4_mapped", None) or address
