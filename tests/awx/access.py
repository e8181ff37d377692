# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may do what in AWX 24: what the scope of a token lets pass, and of that what the roles of its user allow."""

from __future__ import annotations

READ, START, CHANGE = "read", "start", "change"
# What a role of an item, or the same role of its organization, allows
ALLOWS = {
    "admin_role": (READ, START, CHANGE),
    "execute_role": (READ, START),
    "read_role": (READ,),
}
NAMES = {"admin_role": "Admin", "execute_role": "Execute", "read_role": "Read"}
FORBIDDEN = {"detail": "You do not have permission to perform this action."}


class Token:
    """Of a superuser, if no roles are given; else of somebody with these roles, each with the id of what it is for."""

    def __init__(self, scope="write", roles=None):
        self.scope = scope
        self.roles = roles

    def may(self, action, number, organization):
        """Tell whether it may do this to what has this id and belongs to this organization."""
        if self.scope == READ and action != READ:
            return False
        if self.roles is None:
            return True
        return any(action in ALLOWS[role] and one in (number, organization) for role, one in self.roles)


def action(method, parts):
    """Return what a request for an item, or for a part of it, does."""
    if method == "GET":
        return READ
    return START if parts[:1] == ["launch"] else CHANGE


def roles_of(item):
    """Return the roles that people can be given for an item."""
    return [{"name": name, "summary_fields": {"resource_id": item["id"]}} for name in NAMES.values()]
