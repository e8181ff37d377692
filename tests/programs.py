# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of Debian's packages that some tests start, and what they read of packages of npm."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

# Set where a missing program is a failure
REQUIRED = "PROGRAMS_REQUIRED"


def need_program(*names, package, folders=()):
    """Return the path of the first of these programs that PATH or one of the folders has, or leave out the module."""
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), *folders])
    for name in names:
        found = shutil.which(name, path=places)
        if found:
            return found
    return _leave_out(f"there is no {names[0]}: install Debian's package {package}")


def need_npm_file(name):
    """Return the path of this file of a package of npm, or leave out the test; .ci/needs.py installs the package.

    It is left out wherever npm or its registry is missing: nothing of the product is needed for it.
    """
    path = Path(os.environ.get("NODE_PATH", "/nowhere")) / name
    if not path.is_file():
        pytest.skip(f"there is no {name}: install Debian's package npm", allow_module_level=True)
    return path


def _leave_out(reason):
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)
