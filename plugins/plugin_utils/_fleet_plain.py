# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""What the filters get from Ansible, as plain Python."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from ._fleet_parts import read_utc


def plain_data(value: Any) -> Any:
    """Return a value without the types of Ansible's own, and without halves of characters that no file can hold."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def read_now(text: str | None) -> datetime:
    if not text:
        return datetime.now(timezone.utc)
    moment = read_utc(text)
    if moment is None:
        raise ValueError(f"now must be a time such as 2026-11-21T10:00:00Z, not {text!r}.")
    return moment
