# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What AWX 24 keeps: the kinds of things, their fields and how they are associated, as far as we need them."""

from __future__ import annotations

TYPE_OF = {
    "organizations": "organization",
    "inventories": "inventory",
    "credentials": "credential",
    "execution_environments": "execution_environment",
    "projects": "project",
    "project_updates": "project_update",
    "job_templates": "job_template",
    "workflow_job_templates": "workflow_job_template",
    "workflow_job_template_nodes": "workflow_job_template_node",
    "schedules": "schedule",
    "notification_templates": "notification_template",
}
PROMPTS = ("variables", "limit", "job_type", "inventory", "scm_branch", "tags", "skip_tags", "diff_mode", "verbosity")
TEMPLATE = {
    "name": "",
    "description": "",
    "organization": None,
    "inventory": None,
    "extra_vars": "",
    "survey_enabled": False,
    "allow_simultaneous": False,
    **{f"ask_{prompt}_on_launch": False for prompt in PROMPTS},
}
# The fields of each kind, with what AWX gives to one that is not sent
KINDS = {
    "organizations": {"name": ""},
    "inventories": {"name": "", "organization": None},
    "credentials": {"name": "", "organization": None, "kind": "ssh"},
    "execution_environments": {"name": "", "organization": None, "image": ""},
    "projects": {
        "name": "",
        "description": "",
        "organization": None,
        "scm_type": "",
        "scm_url": "",
        "scm_branch": "",
        "credential": None,
        "scm_update_on_launch": False,
        "default_environment": None,
        "scm_revision": "",
    },
    # Which nobody can create but by an update of the project
    "project_updates": {"project": None},
    "job_templates": {
        **TEMPLATE,
        "project": None,
        "playbook": "",
        "job_type": "run",
        "job_slice_count": 1,
        "become_enabled": False,
        "execution_environment": None,
        "host_config_key": "",
    },
    "workflow_job_templates": TEMPLATE,
    "workflow_job_template_nodes": {
        "identifier": "",
        "workflow_job_template": None,
        "unified_job_template": None,
        "extra_data": {},
        "all_parents_must_converge": False,
    },
    "schedules": {
        "name": "",
        "description": "",
        "unified_job_template": None,
        "rrule": "",
        "enabled": True,
        "extra_data": {},
    },
    "notification_templates": {
        "name": "",
        "description": "",
        "organization": None,
        "notification_type": "",
        "notification_configuration": {},
        "messages": None,
    },
}
UNIFIED = ("projects", "job_templates", "workflow_job_templates")
ASSOCIATIONS = {
    "credentials": "credentials",
    "notification_templates_success": "notification_templates",
    "notification_templates_error": "notification_templates",
    "success_nodes": "workflow_job_template_nodes",
    "always_nodes": "workflow_job_template_nodes",
    "failure_nodes": "workflow_job_template_nodes",
}
EDGES = ("success_nodes", "failure_nodes", "always_nodes")
