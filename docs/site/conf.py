# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx makes the documentation site by this; run `make docs`."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

project = "fleetops.azure_maintenance"
html_title = "Azure maintenance"
copyright = "fleetops contributors"
extensions = ["sphinx_antsibull_ext"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
# The sources are written by antsibull-docs and differ from the files of the repository.
html_copy_source = False
highlight_language = "yaml+jinja"
# A reference that leads nowhere is an error.
nitpicky = True

# ansible-core and the collections that come with the package ansible
OTHERS = re.compile(r"ansible_collections\.((?!fleetops\.)\w+)\.(\w+)\.(\w+)_(\w+?)(__.*)?")
ANSIBLE = "https://docs.ansible.com/ansible/latest"
PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
    "ANSIBLE_LOAD_CALLBACK_PLUGINS": "reference_appendices/config.html#envvar-ANSIBLE_LOAD_CALLBACK_PLUGINS",
}


def refer_to_ansible(_app: Any, _env: Any, node: Any, content: Any) -> Any:
    """Link what is Ansible's own to its site. The inventory of that site would need the network."""
    target = node.get("reftarget", "")
    found = OTHERS.fullmatch(target)
    if found:
        namespace, collection, plugin, kind, _part = found.groups()
        page = f"collections/{namespace}/{collection}/{plugin}_{kind}.html"
    elif target in PAGES:
        page = PAGES[target]
    else:
        return None
    return nodes.reference("", "", content, refuri=f"{ANSIBLE}/{page}", internal=False)


def leave_out_contents(_app: Any, doctree: Any, _name: str) -> None:
    """Take away the table of contents that is in a page, because furo has one beside it."""
    for topic in list(doctree.findall(nodes.topic)):
        if "contents" in topic["classes"]:
            topic.parent.remove(topic)


def setup(app: Any) -> None:
    app.connect("doctree-resolved", leave_out_contents)
    app.connect("missing-reference", refer_to_ansible)
