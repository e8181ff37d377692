# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The markup of the documentation is shown as it is meant: Ansible ends C(…) with the first closing parenthesis."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_TEXTS = re.compile(r'(?:DOCUMENTATION|RETURN) = r"""(.*?)"""', re.DOTALL)
_NESTED = re.compile(r"\b(?:[BCEILMOPUV]|RV)\([^)]*\([^)]*\)+")


def test_no_markup_has_a_parenthesis_in_it():
    plugins = [path for place in ("plugins", "extensions/eda/plugins") for path in (ROOT / place).rglob("*.py")]
    texts = [text for path in plugins for text in _TEXTS.findall(path.read_text(encoding="utf-8"))]
    texts += [path.read_text(encoding="utf-8") for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
    assert len(texts) > 30
    assert [found for text in texts for found in _NESTED.findall(text)] == []
