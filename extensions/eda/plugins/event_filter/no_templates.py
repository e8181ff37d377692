# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event filter: text from outside is data, never a template."""

from __future__ import annotations

import re
from typing import Any

DOCUMENTATION = r"""
name: no_templates
short_description: Keep the text of an event from being run as a template
version_added: 1.0.0
description:
  - The action C(run_playbook) gives the whole event to the playbook as extra variables, and Ansible takes text in
    these for templates. So every client that can post to a webhook could run programs on the controller.
  - This filter puts a space into each beginning of a template, at any depth, so that Ansible shows it as text.
  - An event that is nested too deeply to be read is replaced by one with the key C(left_out), which says so.
  - The source C(fleetops.azure_maintenance.scheduled_events) does the same by itself.
options: {}
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- eda.builtin.webhook:
    host: 0.0.0.0
    port: 5000
    token: "{{ webhook_token }}"
  filters:
    - fleetops.azure_maintenance.no_templates:
"""

# Jinja's three openings, and the header line by which a text could define others
_OPENING = re.compile(r"\{(?=[{%#])|\A#(?=jinja2:)")


def main(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event with no template in it. One that is nested too deeply is left out."""
    try:
        return _plain_mapping(event)
    except RecursionError:
        # An error would end the source.
        return {"left_out": "The event is nested too deeply."}


def _plain_mapping(event: dict[str, Any]) -> dict[str, Any]:
    return {_plain(key): _plain(value) for key, value in event.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _OPENING.sub(r"\g<0> ", value)
    if isinstance(value, dict):
        return _plain_mapping(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
