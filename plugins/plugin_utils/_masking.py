# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Keep secrets that Ansible knows out of the text that is written to files.

From ansible-core 2.22 on, results keep secrets that older releases removed, such as the values of options with
``no_log``. Ansible hides them in its output only, so a file that is made of results would have them.
"""

from __future__ import annotations

try:
    # Only in ansible-core 2.22 and newer
    from ansible.module_utils.secrets import mask_secrets
except ImportError:

    def mask_secrets(value: str) -> str:
        return value


__all__ = ["mask_secrets"]
