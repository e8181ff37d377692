# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""The file with the variables of a job, as AWX 24 writes it for ansible-runner.

Only the extra variables of a job template are trusted. Each other text, names included, is marked as unsafe: answers
and defaults of a survey, variables of a launch, artifacts of another job. ansible-core 2.19 and later give such text a
type, as if it stood without quotes.
"""

from __future__ import annotations

import yaml
from ansible.parsing.dataloader import DataLoader


class _Unsafe(yaml.SafeDumper):
    """Marks each text."""


_Unsafe.add_representer(str, lambda dumper, text: dumper.represent_scalar("!unsafe", text))


def dump(variables, fixed):
    """Return the content of the file.

    :param fixed: the extra variables of the job template; one is trusted while the job has the same value.
    """
    content = ""
    for name, value in variables.items():
        trusted = name in fixed and fixed[name] == value
        content += yaml.dump({name: value}, Dumper=yaml.SafeDumper if trusted else _Unsafe, default_flow_style=False)
    return content


def load(value):
    """Return what this ansible-core reads where the answer to a question is this."""
    return DataLoader().load(dump({"answer": value}, {}))["answer"]
