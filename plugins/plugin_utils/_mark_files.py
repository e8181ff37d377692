# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Write and remove the marks on the host of an action plugin, by its shell: a module would cost ten times as much."""

from __future__ import annotations

import base64
import shlex
from typing import Any, Mapping

from ..module_utils._errors import escape
from ..module_utils._marks import ENVIRONMENT, OF_ROOT, OF_USER, encode, file_name

_FOLDERS = f"""
session=${{XDG_RUNTIME_DIR:-/run/user/$(id -u)}}
if [ -n "${{{ENVIRONMENT}:-}}" ]; then set -- "${ENVIRONMENT}"
elif [ "$(id -u)" = 0 ]; then set -- {" ".join(OF_ROOT)}
else set -- "$HOME/{OF_USER[0]}" "$session/{OF_USER[1]}"; fi
"""
# The last place says why: the first is the disk, the second is in memory.
_WRITE = (
    _FOLDERS
    + """
umask 022
for place do
  new="$place/.{name}.$$"
  mkdir -p "$place" && (set -C; echo {content} | base64 -d >"$new") && mv -f "$new" "$place/{name}" && exit 0
  rm -f "$new"
done
exit 1
"""
)
# One that somebody else wrote may stay: then the VM is not known to be back in service.
_REMOVE = (
    _FOLDERS
    + f"""
[ -n "${{{ENVIRONMENT}:-}}" ] || set -- "$@" {" ".join(OF_ROOT)}
for place do
  rm -f "$place/{{name}}"
  [ ! -e "$place/{{name}}" ] || exit 1
done
"""
)


def write_mark(action: Any, mark: Mapping[str, Any]) -> str | None:
    """Write a mark; return why it could not be written, None where it was.

    :param action: the action plugin.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    try:
        content = base64.b64encode(encode(mark)).decode()
    except ValueError as error:
        return str(error)
    return _run(action, _WRITE, name=file_name(mark), content=content)


def remove_mark(action: Any, mark: Mapping[str, Any]) -> str | None:
    """Remove a mark; return why it could not be removed, None where it is gone.

    :param action: the action plugin.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    return _run(action, _REMOVE, name=file_name(mark))


def _run(action: Any, script: str, **parts: str) -> str | None:
    environment = action._compute_environment_string()
    filled = script.replace("{name}", parts["name"]).replace("{content}", parts.get("content", ""))
    command = f"{environment} sh -c {shlex.quote(filled)}"
    ended = action._low_level_execute_command(command)
    if ended.get("rc") == 0:
        return None
    told = " ".join(str(ended.get("stderr") or ended.get("stdout") or "").split())
    return escape(told[-300:]) or f"the shell ended with status {ended.get('rc')}"
