# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario files: events and faults, written down beforehand."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from simulator.checks import Fields, Refused, decode, list_of, map_of, text

_SHIPPED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scenarios")


@dataclass
class Scenario:
    where: str = ""
    vms: list = field(default_factory=list)
    scopes: dict = field(default_factory=dict)
    settings: dict = field(default_factory=dict)
    events: list = field(default_factory=list)
    faults: list = field(default_factory=list)


def shipped_names():
    return sorted(name[: -len(".json")] for name in os.listdir(_SHIPPED) if name.endswith(".json"))


def load(wanted):
    """A scenario by the path of its file (anything with a slash or ending in .json) or by its shipped name."""
    path = wanted
    if "/" not in wanted and not wanted.endswith(".json"):
        if wanted not in shipped_names():
            known = ", ".join(shipped_names())
            raise Refused(f"--scenario {wanted}: no scenario of this name is shipped; give a path or one of {known}.")
        path = os.path.join(_SHIPPED, wanted + ".json")
    where = f"scenario {wanted}"
    try:
        with open(path, encoding="utf-8") as file:
            content = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{where} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    fields = Fields(decode(content, where), where)
    fields.take("description", text, "")
    scenario = Scenario(
        where=where,
        vms=fields.take("vms", list_of(text), []),
        scopes=fields.take("scopes", map_of(list_of(_any)), {}),
        settings=fields.take("settings", _any, {}),
        events=fields.take("events", list_of(_any), []),
        faults=fields.take("faults", list_of(_any), []),
    )
    fields.end()
    return scenario


def _any(value, _name):
    return value
