# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates of servers on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ansible_collections.fleetops.azure_maintenance.tests.programs import need_program

_OPTIONS = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"


def make_certificate(path: Path, address: str) -> Path:
    """Make a self-signed certificate, with its key in the same file, and return the path.

    :param address: whose it is, such as ``IP:127.0.0.1``.
    """
    openssl = need_program("openssl", package="openssl")
    options = f"{_OPTIONS} -subj /CN={path.stem} -addext subjectAltName={address}"
    options += " -addext keyUsage=critical,digitalSignature,keyCertSign"
    certificate = path.with_suffix(".crt")
    files = ["-keyout", str(path), "-out", str(certificate)]
    subprocess.run([openssl, *options.split(), *files], check=True, capture_output=True)
    with path.open("a") as file:
        file.write(certificate.read_text())
    return path
