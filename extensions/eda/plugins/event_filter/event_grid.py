# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event filter: Event Grid's messages about maintenance in the form of the source scheduled_events."""

from __future__ import annotations

import importlib
import json
import logging
import runpy
import sys
import types
import uuid
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

DOCUMENTATION = r"""
name: event_grid
short_description: Read Azure Event Grid's messages about maintenance
version_added: 1.1.0
description:
  - Turns the messages of Azure Event Grid about Scheduled Events into the form of the event source
    C(fleetops.azure_maintenance.scheduled_events), so that the same rules work for both. It has C(maintenance_event),
    C(maintenance_phase), V(announced), V(started) or V(ended), and C(maintenance_outcome), V(completed) or V(withdrawn)
    of an event that has ended. C(meta.hosts) names the VMs of the event.
  - Event Grid sends to a queue of Service Bus or an Event Hub, from where the sources
    C(azure.azcollection.azure_service_bus) and C(azure.azcollection.azure_event_hub) take it.
  - Event Grid's own schema and that of CloudEvents are understood, one message or a list of them, in C(body) or
    C(payload) of what the source delivers.
  - A message that comes twice is left out, and one that says less of an event than is known already, such as that it
    is announced after it has started. An event that is announced after its end, by the times in the messages, is
    another one with the same id.
  - A message about something else is passed on, also one that came in one list with others. So is, with a warning in
    the log, an event that cannot be read or lists something that is no name of a VM.
  - Text is kept from being run as a template, as by C(fleetops.azure_maintenance.no_templates).
  - C(affects_this_vm) and C(is_leader) are null, because there is no VM whose view this is.
options: {}
notes:
  - Publishing to Event Grid is in preview at Azure. This filter was tested with messages as Microsoft's pages and users
    show them.
author:
  - fleetops contributors (@fleetops)
"""

EXAMPLES = r"""
- azure.azcollection.azure_service_bus:
    conn_str: "{{ service_bus }}"
    queue_name: maintenance
  filters:
    - fleetops.azure_maintenance.event_grid:
"""

# ansible-rulebook runs this file by its path, where no collection can be imported. So the modules that it needs get a
# package of their own, whatever other copy of the collection Python would find.
_HERE = Path(__file__).resolve()
if TYPE_CHECKING:
    from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._azure import messages as _messages
else:
    _PACKAGE = f"fleetops_azure_maintenance_{uuid.uuid5(uuid.NAMESPACE_URL, str(_HERE)).hex}"
    if _PACKAGE not in sys.modules:
        sys.modules[_PACKAGE] = types.ModuleType(_PACKAGE)
        sys.modules[_PACKAGE].__path__ = [str(_HERE.parents[4] / "plugins")]
    _messages = importlib.import_module(f"{_PACKAGE}.plugin_utils._azure.messages")
_no_templates = runpy.run_path(str(_HERE.parent / "no_templates.py"))["main"]

_logger = logging.getLogger(__name__)
_latest = _messages.Latest()


def main(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events in the messages of a delivery, and the delivery with the messages that have none."""
    name = next((name for name in ("body", "payload") if event.get(name)), None)
    content = event[name] if name else event
    if isinstance(content, (str, bytes)):
        content = _decode(content)
    found, others = [], []
    for message in content if isinstance(content, list) else [content]:
        read = _messages.read_messages(message, _warn)
        found += read or []
        others += [message] if read is None else []
    if not found:
        return [_no_templates(event)]
    now = datetime.now(timezone.utc)
    news = [message.to_dict(now) for message in found if _latest.is_news(message)]
    for each in news:
        each["meta"] = {**_meta(event), **each["meta"]}
    rest = [{**event, name: others}] if name and others else []
    return [_no_templates(each) for each in (*news, *rest)]


def _meta(event: dict[str, Any]) -> dict[str, Any]:
    meta = event.get("meta")
    return meta if isinstance(meta, dict) else {}


def _decode(text: str | bytes) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _warn(*parts: Any) -> None:
    _logger.warning("%s", "".join(part if isinstance(part, str) else repr(part)[:200] for part in parts))
