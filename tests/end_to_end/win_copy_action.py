# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for the action plugin ansible.windows.win_copy: what it asks the VM for a text and a file, and no more.

The real one makes a folder for the text on the VM by PowerShell; tests/awx/test_ansible_windows.py runs the rest of it.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import PureWindowsPath

from ansible.plugins.action import ActionBase

SOURCE = "C:\\Temp\\ansible-tmp-1\\source"


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        options = dict(self._task.args)
        content, dest = options.pop("content"), PureWindowsPath(options.pop("dest"))
        assert not options, f"this host knows no option {sorted(options)}"
        # The real one cuts a path by os.path, so that its folder has slashes.
        folder = str(dest.parent).replace("\\", "/")
        local = {"src": "/tmp/tmp1", "dest": dest.name, "checksum": hashlib.sha1(content.encode()).hexdigest()}
        query = {"_copy_mode": "query", "dest": folder, "force": True, "files": [local], "directories": []}
        asked = self._run(query, task_vars)
        if asked.get("failed") or not asked["files"]:
            return {**result, **asked}
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            self._connection.put_file(file.name, SOURCE)
        single = {
            "_copy_mode": "single",
            "dest": str(dest),
            "src": SOURCE,
            "_original_basename": "tmp1",
            "backup": False,
        }
        return {**result, **self._run(single, task_vars)}

    def _run(self, options, task_vars):
        return self._execute_module(module_name="ansible.windows.win_copy", module_args=options, task_vars=task_vars)
