# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the page of the playbooks and their variables, which ansible-doc cannot show: guide_playbooks.rst.

    python tests/playbooks_page.py

What it says comes from the heads of the playbooks and the argument specifications of the roles. A test compares it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import yaml

TREE = Path(__file__).resolve().parents[1]
PAGE = TREE / "docs" / "docsite" / "rst" / "guide_playbooks.rst"
NAMESPACE = "fleetops.azure_maintenance"
# The roles whose variables a playbook passes on. The others are called with variables of the playbook's own.
ROLE_OF = {
    "install_checker": "event_checker",
    "rehearse_checker": "event_checker",
    "respond": "event_response",
    "restore": "event_response",
}
ORDER = (
    *("fleet_report", "respond", "approve", "restore", "install_checker"),
    *("fleet_history", "rehearse", "rehearse_checker", "new_runbook"),
)
HEAD = """..
  Copyright: (c) 2026, fleetops contributors
  GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
  SPDX-License-Identifier: GPL-3.0-or-later

  Made by tests/playbooks_page.py from the heads of the playbooks and the argument specifications of the roles.

.. _ansible_collections.fleetops.azure_maintenance.docsite.guide_playbooks:

The playbooks and their variables
=================================

A playbook runs by its full name, such as ``ansible-playbook -i inventory fleetops.azure_maintenance.fleet_report``. Its
variables are set in the inventory, or by ``-e``. ``ansible-doc`` shows modules, plugins and roles, and no variables of
playbooks: they are here.

.. contents::
   :local:
   :depth: 1
"""
_VARIABLE = re.compile(r"#   (\w+) \(([^;]+); ([^)]+)\): (.+)")


class Variable(NamedTuple):
    name: str
    type: str
    default: str
    meaning: str


class Playbook(NamedTuple):
    name: str
    about: list[str]
    commands: list[str]
    variables: list[Variable]
    plays: str


def read_playbook(path: Path) -> Playbook:
    """Return what the head of a playbook says, and its plays without comments."""
    text = path.read_text(encoding="utf-8")
    head, plays = text.split("\n- name:", 1)
    about, commands, variables = [""], [], []
    for line in head.split("SPDX-License-Identifier: GPL-3.0-or-later\n", 1)[1].splitlines():
        found = _VARIABLE.fullmatch(line)
        if found:
            variables.append(Variable(*found.groups()))
        elif line.startswith("#     ") and variables:
            variables[-1] = variables[-1]._replace(meaning=f"{variables[-1].meaning} {line[6:].strip()}")
        elif line.startswith("#     -") and commands:
            commands[-1] += f" \\\n    {line[6:].strip()}"
        elif line.startswith("#   "):
            commands.append(line[4:].strip())
        elif line.startswith("# Variables (type; default)") or not line:
            pass
        elif line == "#":
            about.append("")
        else:
            about[-1] = f"{about[-1]} {line[2:]}".strip()
    plays = re.sub(r"^ *#.*$", "", plays, flags=re.MULTILINE)
    return Playbook(path.stem, [part for part in about if part], commands, variables, plays)


def read_role(role: str) -> list[Variable]:
    """Return the variables of a role as its argument specification has them."""
    path = TREE / "roles" / role / "meta" / "argument_specs.yml"
    options = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"]
    return [
        Variable(name, _type(option), _default(option.get("default")), " ".join(_paragraphs(option["description"])))
        for name, option in options.items()
    ]


def target(playbook: Playbook) -> list[Variable]:
    lookup = f"query('{NAMESPACE}.target'"
    plays = playbook.plays.replace(f"{lookup}, 'localhost')", "")
    if lookup not in plays:
        return []
    defaults = {f"{lookup}, target | default('')": "must be given", f"{lookup}, target)": "not given"}
    default = next((word for call, word in defaults.items() if call in plays), "all")
    meaning = "The hosts. An empty pattern is refused, and one that matches no host."
    return [Variable("target", "pattern of hosts", default, meaning)]


def make_page() -> str:
    return HEAD + "".join(_section(read_playbook(TREE / "playbooks" / f"{name}.yml")) for name in ORDER)


def _section(playbook: Playbook) -> str:
    parts = [f"\n{playbook.name}\n{'-' * len(playbook.name)}\n"]
    parts += [f"{_rst(paragraph)}\n" for paragraph in playbook.about]
    if playbook.commands:
        lines = "\n".join(f"$ {command}" for command in playbook.commands)
        parts.append(".. code-block:: shell-session\n\n" + "".join(f"   {line}\n" for line in lines.splitlines()))
    parts.append(_table([*target(playbook), *playbook.variables]))
    role = ROLE_OF.get(playbook.name)
    if role:
        first = next(name for name in ORDER if ROLE_OF.get(name) == role)
        name = f"{NAMESPACE}.{role}"
        if playbook.name == first:
            parts.append(
                f"And the variables of the role :ansplugin:`{name}#role`. ``ansible-doc -t role {name}`` says more.\n"
            )
            parts.append(_table(read_role(role)))
        else:
            parts.append(f"And the variables of the role :ansplugin:`{name}#role`, as for `{first}`_.\n")
    return "\n".join(parts)


def _table(variables: list[Variable]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 28 14 14 44", ""]
    for row in [("Variable", "Type", "Default", "Meaning"), *variables]:
        name, *others = row
        cells = [name if row[0] == "Variable" else f"``{name}``", *map(_rst, others)]
        lines += [f"   {'* ' if number == 0 else '  '}- {cell}" for number, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def _type(option: dict[str, Any]) -> str:
    if "choices" in option:
        words = [str(choice) for choice in option["choices"]]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    names = {"str": "text", "bool": "true or false", "int": "whole number", "float": "number", "dict": "dictionary"}
    kind = option.get("type", "str")
    if kind == "list":
        elements = option.get("elements", "str")
        return f"list of {'dictionaries' if elements == 'dict' else names.get(elements, elements)}"
    return names.get(kind, kind)


def _default(value: Any) -> str:
    if value is None or value == "":
        return "not given"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _paragraphs(description: str | list[str]) -> list[str]:
    return [description] if isinstance(description, str) else description


def _rst(text: str) -> str:
    """Return the text of a comment or of Ansible's documentation as reStructuredText."""
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    # Ansible's C(...) and its like, the words between ` of a comment, and addresses, which are not meant as links
    for piece in re.split(r"([CVOEPM]\((?:[^()]|\([^()]*\))*\)|`[^`]+`|http://[\w./:{} ]*[\w}])", text):
        if re.fullmatch(r"[CVOEPM]\(.*\)", piece):
            yield f"``{piece[2:-1].split('#')[0]}``"
        elif piece.startswith("`"):
            yield f"`{piece}`"
        elif piece.startswith("http://"):
            yield f"``{piece}``"
        else:
            yield piece.replace("\\", "\\\\").replace("*", "\\*").replace("~", "\\~")


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
