# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checker on a VM: follows Azure's scheduled events, and answers them by rules."""

__version__ = "1.1.0"
