#!/usr/bin/env bash
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
#
# Fill the folder $1 with what a VM of the lab has on its disk, of the release $2 (its codename), from the Debian mirror $3.
set -euo pipefail
folder=$1
release=$2
mirror=$3
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8

install=(chroot "$folder" apt-get install --yes --no-install-recommends)
on_the_vm=(systemd systemd-sysv dbus iproute2 procps python3 python3-apt curl jq)
# Debian 11 has no package of ansible-core. Its users have this one, which brings ansible-playbook 2.10.
[ "$release" = bullseye ] && on_the_vm+=(ansible) || on_the_vm+=(ansible-core)
# Their network has nothing but the simulator, so what a role may install there comes along, not yet installed.
for_roles=(python3-requests python3-jmespath python3-venv)

debootstrap --variant=minbase "$release" "$folder" "$mirror"
# Nothing is lost when the machine stops meanwhile, and waiting for the disk takes half of the time.
echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/lab"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
echo "deb $mirror $release main" >"$folder/etc/apt/sources.list"
chroot "$folder" apt-get update
"${install[@]}" "${on_the_vm[@]}"
chroot "$folder" apt-get clean
"${install[@]}" --download-only "${for_roles[@]}"

mkdir "$folder/opt/packages"
mv "$folder"/var/cache/apt/archives/*.deb "$folder/opt/packages"
for package in "$folder"/opt/packages/*.deb; do
  dpkg-deb --field "$package"
  echo "Filename: ./$(basename "$package")"
  echo "Size: $(stat --format=%s "$package")"
  echo "SHA256: $(sha256sum "$package" | cut -d ' ' -f 1)"
  echo
done >"$folder/opt/packages/Packages"
echo 'deb [trusted=yes] file:/opt/packages ./' >"$folder/etc/apt/sources.list"
rm -rf "$folder"/var/lib/apt/lists/*
chroot "$folder" apt-get update
printf '[global]\nno-index = true\nfind-links = /opt/packages\n' >"$folder/etc/pip.conf"
: >"$folder/etc/machine-id"
