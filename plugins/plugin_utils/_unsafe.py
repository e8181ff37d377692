# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Mark results of plugins as data, so that Ansible never runs text of a VM or of a user as a template.

From ansible-core 2.19 on, nothing that a plugin returns is a template, and there is nothing to do.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from jinja2 import pass_context

try:
    # Only in ansible-core 2.19 and newer
    from ansible.template import trust_as_template as _trust
except ImportError:
    _trust = None

Filter = Callable[..., Any]


def mark_unsafe(value: Any) -> Any:
    """Return a value with every text in it, keys too, marked as data."""
    if _trust is not None:
        return value
    from ansible.utils.unsafe_proxy import wrap_var

    return wrap_var(value)


def unsafe_filter(function: Filter) -> Filter:
    """Return a filter with its result marked as data."""
    if _trust is not None:
        return function

    @pass_context
    @functools.wraps(function)
    def filter_unsafe(context: Any, *args: Any, **kwargs: Any) -> Any:
        # Ansible writes a list or a dictionary down and reads it again, which loses the marks. As with the results of
        # lookups, this makes it mark the result of the whole template afterwards.
        context.unsafe = True
        return mark_unsafe(function(*args, **kwargs))

    return filter_unsafe
