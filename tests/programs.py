# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of Debian's packages that some tests start, and the rights of root that some need."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

# Set where a missing program, or an ordinary user, is a failure
REQUIRED = "PROGRAMS_REQUIRED"


def need_program(*names, package, folders=()):
    """Return the path of the first of these programs that PATH or one of the folders has, or leave out the module."""
    # What is left out is named by the line of the test, not by one of this file.
    __tracebackhide__ = True
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    for name in names:
        found = shutil.which(name, path=places)
        if found:
            return found
    return leave_out(f"there is no {names[0]}: install Debian's package {package}")


def need_root(reason):
    """Leave out the test, or the module, where this is an ordinary user."""
    __tracebackhide__ = True
    if os.geteuid() != 0:
        leave_out(f"{reason}, which takes root's rights: run it as root")


def need_network_namespace(unshare):
    """Leave out the module where this program cannot make a network namespace, as in most containers."""
    __tracebackhide__ = True
    ended = subprocess.run([unshare, "--net", "true"], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        leave_out(f"no network namespace can be made, which takes root's rights: {ended.stderr.strip()}")


def leave_out(reason):
    __tracebackhide__ = True
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
