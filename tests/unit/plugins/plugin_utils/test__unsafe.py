# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Marking what plugins return. What Ansible makes of the marks is shown by tests/end_to_end/test_hostile_text.py."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils import _unsafe

pytestmark = pytest.mark.hostile_text

FILTERS = Path(__file__).resolve().parents[4] / "plugins" / "filter"
VALUE = {"text": "{{ x }}", "list": ["a", "", None, True, 5, 1.5, {"in": ("b",)}], "none": None}


def is_marked(value: Any) -> bool:
    """Whether Ansible takes a text for data."""
    return _unsafe._trust is not None or getattr(value, "__UNSAFE__", False)


def test_each_text_is_marked_and_nothing_else_changes() -> None:
    marked = _unsafe.mark_unsafe(VALUE)
    assert marked == VALUE
    assert json.dumps(marked) == json.dumps(VALUE)
    assert [type(each) for each in marked["list"][2:6]] == [type(each) for each in VALUE["list"][2:6]]
    assert all(map(is_marked, (marked["text"], *marked["list"][:2], marked["list"][6]["in"][0], *marked)))


class Context:
    """Jinja's, as far as it is used."""

    unsafe = False


@pytest.mark.skipif(
    _unsafe._trust is not None, reason="this ansible-core takes nothing that a filter returns for a template"
)
def test_a_filter_marks_its_result_and_the_template_around_it() -> None:
    def close(text: str, end: str) -> str:
        return text + end

    context = Context()
    result = _unsafe.unsafe_filter(close)(context, "{{ x ", end="}}")
    assert result == "{{ x }}"
    assert is_marked(result)
    assert context.unsafe


@pytest.mark.parametrize("path", sorted(FILTERS.glob("*.py")), ids=lambda path: path.stem)
def test_every_filter_is_marked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that is new must not be forgotten."""
    wrapped: list[Any] = []

    def note(function: Any) -> str:
        wrapped.append(function)
        return "wrapped"

    module = import_module(f"ansible_collections.fleetops.azure_maintenance.plugins.filter.{path.stem}")
    monkeypatch.setattr(module, "unsafe_filter", note)
    assert set(module.FilterModule().filters().values()) == {"wrapped"}
