# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Put pip into one of ansible-test's empty virtual environments.

ansible-test wants to download a get-pip.py of its own for this, from a host that a build server often cannot reach,
but takes the file from its cache when it finds one there: gates.py puts this one into it. Python carries a pip of its
own, and that one fetches the packages of the arguments, such as pip==24.2, from the usual package index.
"""

from __future__ import annotations

import subprocess
import sys

python = [sys.executable, "-m"]
wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
# In a process of its own, because ensurepip switches off pip's settings, index and certificates among them.
subprocess.check_call([*python, "ensurepip"], stdout=subprocess.DEVNULL)
subprocess.check_call([*python, "pip", "install", "--quiet", "--disable-pip-version-check", *wanted])
