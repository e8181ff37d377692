#!/usr/bin/env bash
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
#
# Fill the folder $1 with a Debian of the release $2 (its codename), from the mirror $3, that has what README's requirements
# name and nothing else, and with an ordinary user called newcomer.
set -euo pipefail
debootstrap --variant=minbase --include=python3,python3-venv,git,make "$2" "$1" "$3"
echo "deb $3 $2 main" >"$1/etc/apt/sources.list"
echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/lab"
chroot "$1" useradd --create-home newcomer
