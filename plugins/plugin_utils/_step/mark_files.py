# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection: it may change in any release.

"""Write and remove the marks on the host of an action plugin, by its shell: a module would cost ten times as much."""

from __future__ import annotations

import base64
import re
import shlex
from typing import Any, Iterable, Mapping, NamedTuple

from ...module_utils._errors import escape
from ...module_utils._event.marks import (
    ENDING,
    ENVIRONMENT,
    OF_ROOT,
    OF_USER,
    encode,
    file_name,
    patterns_of_event,
    patterns_on_vm,
)

# To start a program costs more than all the rest. The home is that of marks.folders().
_FOLDERS = f"""
user=$(id -u)
session=${{XDG_RUNTIME_DIR:-/run/user/$user}}
if [ -n "${{{ENVIRONMENT}:-}}" ]; then set -- "${ENVIRONMENT}"
elif [ "$user" = 0 ]; then set -- {" ".join(OF_ROOT)}
else
  home=$(getent passwd "$user" 2>/dev/null) && home=${{home%:*}}
  home=${{home##*:}}
  set -- "${{home:-$HOME}}/{OF_USER[0]}" "$session/{OF_USER[1]}"
fi
"""
_AND_OF_ROOT = f'[ -n "${{{ENVIRONMENT}:-}}" ] || set -- "$@" {" ".join(OF_ROOT)}\n'
# The last place says why: the first is the disk, the second is in memory. Azure may take the power from the VM as soon
# as the event is approved.
_PUT = """
umask 022
written=
for place do
  new="$place/.{name}.$$"
  [ -d "$place" ] || mkdir -p "$place"
  (set -C; echo {content} | base64 -d >"$new") && mv -f "$new" "$place/{name}" && written=1
  [ -z "$written" ] || { sync "$place/{name}" "$place" 2>/dev/null; break; }
  rm -f "$new"
done
[ "$written" ] || exit 1
"""
# Then it lists the marks of others on this VM.
_WRITE = (
    _FOLDERS
    + _PUT
    + _AND_OF_ROOT
    + """
for place do
  for file in {files}; do
    [ -f "$file" ] && [ "$file" != "$place/{name}" ] || continue
    state=$(sed -n 's/^ "state": "\\([a-z]*\\)".*/\\1/p' "$file")
    echo "${file##*/} $state"
  done
done
"""
)
# Before, it tells whether the mark is there.
_UPDATE = (
    _FOLDERS
    + """
for place do
  [ ! -e "$place/{name}" ] || echo {name}
done
"""
    + _PUT
)
_NOT_REMOVABLE = (
    _FOLDERS
    + _AND_OF_ROOT
    + """
for place do
  for file in {files}; do
    [ ! -e "$file" ] || [ -w "$place" ] || echo "$file"
  done
done
"""
)
# The mark of another run that restores at this moment stays, so that others see it (P3). One that another
# user wrote may stay, too: then the VM is not known to be back in service.
_REMOVE = (
    _FOLDERS
    + _AND_OF_ROOT
    + """
for place do
  for file in {files}; do
    case " {sure} " in
      *" ${file##*/} "*) ;;
      *) grep -q '^ "state": "restoring"' "$file" 2>/dev/null && continue ;;
    esac
    rm -f "$file"
    [ ! -e "$file" ] || exit 1
  done
done
"""
)

_STAYS_MARKED = (
    "The event is not over, and this user cannot remove {file}. So a run that has this VM prepared would not see that "
    "it is restored, and would approve the event. Run this as the user of that run, such as root with --become."
)
_PLAIN = re.compile(r"[A-Za-z0-9.-]+")


class Written(NamedTuple):
    """:ivar why: why a mark could not be written, None where it was.
    :ivar others: the states of the other marks on the VM, by their names.
    """

    why: str | None
    others: dict[str, str]


def write_mark(action: Any, mark: Mapping[str, Any]) -> Written:
    """Write a mark, and look which others there are then.

    :param action: the action plugin.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    why, listed = _put(action, _WRITE, mark, patterns_on_vm(mark))
    # Over ssh there may be a terminal, on which the shell and sudo complain among these lines.
    words = [line.partition(" ") for line in listed.splitlines()]
    return Written(why, {name: state for name, _blank, state in words if name.endswith(ENDING)})


def update_mark(action: Any, mark: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Write a mark of now in the place of one that was written; return why it could not be written, None where it was,
    and whether the one before was still there.

    :param action: the action plugin.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    why, listed = _put(action, _UPDATE, mark)
    return why, why is not None or file_name(mark) in listed.splitlines()


def _put(action: Any, script: str, mark: Mapping[str, Any], files: Iterable[str] = ()) -> tuple[str | None, str]:
    try:
        content = base64.b64encode(encode(mark)).decode()
    except ValueError as error:
        return str(error), ""
    return _run(action, script, files, name=file_name(mark), content=content)


def why_not_removable(action: Any, mark: Mapping[str, Any]) -> str | None:
    """Return why the marks of runs for the event of a mark can not be removed, None where they can.

    :param action: the action plugin.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    why, listed = _run(action, _NOT_REMOVABLE, patterns_of_event(mark))
    # Over ssh there may be a terminal, on which the shell and sudo complain among these lines.
    files = [line for line in listed.splitlines() if line.endswith(ENDING)]
    return _STAYS_MARKED.format(file=escape(files[0])) if files else why


def remove_marks(action: Any, mark: Mapping[str, Any], only_own: bool, waited_out: Iterable[str] = ()) -> str | None:
    """Remove the marks of runs for the event of a mark, but those of others that restore at this moment; return why one
    could not be removed, None where all are gone.

    :param action: the action plugin.
    :param only_own: remove no more than this mark.
    :param waited_out: the names of marks that say so, and are taken for left by a run that was killed.
    :raises AnsibleConnectionFailure: the host cannot be reached.
    """
    own = file_name(mark)
    sure = " ".join([own, *(name for name in waited_out if _PLAIN.fullmatch(name))])
    return _run(action, _REMOVE, [own] if only_own else patterns_of_event(mark), sure=sure)[0]


def _run(action: Any, script: str, files: Iterable[str], **words: str) -> tuple[str | None, str]:
    """Return why a script failed, None where it did not, and its output.

    :param files: names of marks that it looks at, or patterns for them.
    :param words: further values for the script. No value has a character that is special to a shell.
    """
    environment = action._compute_environment_string()
    filled = script
    for word, value in {"files": " ".join(f'"$place"/{each}' for each in files), **words}.items():
        filled = filled.replace(f"{{{word}}}", value)
    ended = action._low_level_execute_command(f"{environment} sh -c {shlex.quote(filled)}")
    if ended.get("rc") == 0:
        return None, str(ended.get("stdout") or "")
    told = " ".join(str(ended.get("stderr") or ended.get("stdout") or "").split())
    return escape(told[-300:]) or f"the shell ended with status {ended.get('rc')}", ""
