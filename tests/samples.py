# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must come out of every document captured from a real VM, stated by hand.

The samples are not part of the repository: they lie in the folder that AZURE_MAINTENANCE_SAMPLES names, or in
shared/samples beside the checkout.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(
    os.environ.get("AZURE_MAINTENANCE_SAMPLES") or Path(__file__).resolve().parents[2].joinpath("shared", "samples")
)
NO_FOLDER = f"No sample was read: there is no folder {FOLDER}. Set AZURE_MAINTENANCE_SAMPLES to the one that has them."


class Wanted(NamedTuple):
    """One event as it must come out."""

    event_id: str
    event_type: str
    event_status: str
    resources: list[str]
    not_before: str | None
    duration_seconds: int | None
    event_source: str | None
    description: str | None


MAINTENANCE = "Host server is undergoing maintenance."
LIVE_MIGRATION = "Virtual machine is being paused because of a memory-preserving Live Migration operation."
RESTART = "Virtual machine is going to be restarted as requested by authorized user."

WEST = ["WestNO_0", "WestNO_1"]
WEST_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
WEST_STARTED = Wanted(WEST_ID, "Freeze", "Started", WEST, None, 5, "Platform", LIVE_MIGRATION)
WEST_SCHEDULED = WEST_STARTED._replace(event_status="Scheduled", not_before="2022-04-11T22:26:58Z")

# The documents: api-version and DocumentIncarnation.
DOCUMENTS: dict[str, tuple[str, int | str]] = {
    "docs-live-migration-1-empty.json": ("2020-07-01", 1),
    "docs-live-migration-2-scheduled.json": ("2020-07-01", 2),
    "docs-live-migration-2-scheduled-2026-bad-weekday.json": ("2020-07-01", 2),
    "docs-live-migration-2-scheduled-duration-minus1.json": ("2020-07-01", 2),
    "docs-live-migration-3-started.json": ("2020-07-01", 3),
    "docs-live-migration-4-empty.json": ("2020-07-01", 4),
    "docs-spot-preempt.json": ("2019-08-01", 1),
    "empty-incarnation-0.json": ("2020-07-01", 0),
    "freeze-issue39758.json": ("2019-01-01", 279),
    "freeze-started-2021.json": ("2019-08-01", 208),
    "ms-vm-scheduled-events-1-empty.json": ("2020-07-01", 1),
    "ms-vm-scheduled-events-2-reboot-scheduled.json": ("2020-07-01", 2),
    "ms-vm-scheduled-events-4-empty.json": ("2020-07-01", 4),
    "odd-2017-script-resourcename.json": ("2017-08-01", 0),
    "odd-giantswarm-string-incarnation.json": ("2017-08-01", "abc123"),
    "odd-maksim-test.json": ("2020-07-01", 1),
    "preempt-aks-2022.json": ("2020-07-01", 1),
    "preempt-ms-spot-reference.json": ("2020-07-01", 1),
    "reboot-2017-11-01.json": ("2017-11-01", 1),
    "reboot-scylla-2023.json": ("2020-07-01", 2),
    "reboot-user-2021.json": ("2019-08-01", 213),
    "redeploy-chupark-2019.json": ("2019-01-01", 1),
}

# The event of each sample that holds one; no sample holds two.
EVENTS = {
    "docs-live-migration-2-scheduled.json": WEST_SCHEDULED,
    "docs-live-migration-2-scheduled-2026-bad-weekday.json": WEST_SCHEDULED._replace(not_before="2026-04-11T22:26:58Z"),
    "docs-live-migration-2-scheduled-duration-minus1.json": WEST_SCHEDULED._replace(duration_seconds=None),
    "docs-live-migration-3-started.json": WEST_STARTED,
    "docs-spot-preempt.json": Wanted(
        "A123BC45-1234-5678-AB90-ABCDEF123456",
        "Preempt",
        "Scheduled",
        ["myspotvm"],
        "2021-03-16T00:58:46Z",
        None,
        "Platform",
        "",
    ),
    "freeze-issue39758.json": Wanted(
        "xxx-xxx-xxx-xxx-xxx", "Freeze", "Scheduled", ["xxxx"], "2019-09-26T15:15:21Z", None, None, None
    ),
    "freeze-started-2021.json": Wanted(
        "D3D9DFEC-1DCA-4B49-97AA-780E02F45DFE",
        "Freeze",
        "Started",
        ["aks-nodepool1-21922338-vmss_47"],
        None,
        None,
        "Platform",
        MAINTENANCE,
    ),
    "ms-vm-scheduled-events-2-reboot-scheduled.json": Wanted(
        "4CAEA225-A741-474D-A72E-428C86FCD853",
        "Reboot",
        "Scheduled",
        ["flatcar-vm1"],
        "2021-07-22T04:50:17Z",
        None,
        "User",
        "",
    ),
    "odd-2017-script-resourcename.json": Wanted("123", "Redeploy", "Scheduled", [], None, None, None, None),
    "odd-giantswarm-string-incarnation.json": Wanted(
        "123", "Terminate", "Scheduled", ["nodename"], None, None, None, None
    ),
    "odd-maksim-test.json": Wanted(
        "602d9444-d2cd-49c7-8624-8643e7171297",
        "Reboot",
        "Scheduled",
        ["FrontEnd_IN_0", "aks-spotcpu2d2as-24469130-vmss_1"],
        "2016-09-19T18:29:47Z",
        None,
        "Platform",
        "Host server is undergoing maintenance",
    ),
    "preempt-aks-2022.json": Wanted(
        "9C3EE5B7-E5B5-4482-A07F-DD5C10DAA97A",
        "Preempt",
        "Scheduled",
        ["aks-spottest-41185300-vmss_2"],
        "2022-09-19T08:01:53Z",
        None,
        "Platform",
        "",
    ),
    "preempt-ms-spot-reference.json": Wanted(
        "C1BF8322-4CBF-4FC4-9C45-B40CF3106D0E",
        "Preempt",
        "Scheduled",
        ["vm-spot"],
        "2022-08-09T17:07:32Z",
        None,
        "Platform",
        "",
    ),
    "reboot-2017-11-01.json": Wanted(
        "77213DA4-3EBD-4C87-970D-949767E6DB59",
        "Reboot",
        "Scheduled",
        ["dustin-dw-testing"],
        "2019-12-05T00:31:50Z",
        None,
        None,
        None,
    ),
    "reboot-scylla-2023.json": Wanted(
        "CA9C0DC4-E841-476D-94D5-9FC2FF983BCD",
        "Reboot",
        "Scheduled",
        ["longevity-10gb-3h-master-db-node-eastus-2"],
        "2023-03-16T14:01:28Z",
        None,
        "User",
        RESTART,
    ),
    "reboot-user-2021.json": Wanted(
        "FA298C74-AE95-4154-8EBF-303EED382DB6",
        "Reboot",
        "Scheduled",
        ["aks-nodepool1-21922338-vmss_39"],
        "2021-03-30T13:39:24Z",
        None,
        "User",
        RESTART,
    ),
    "redeploy-chupark-2019.json": Wanted(
        "72E160B5-6F75-40FA-BD4C-0C7FA2318A51",
        "Redeploy",
        "Scheduled",
        ["VM-SE-Server02"],
        "2019-01-17T05:57:06Z",
        None,
        None,
        None,
    ),
    "contrast-eventgrid-completed-2024.json": Wanted(
        "743c15d8-a994-46fc-93af-b84ee33f9a14",
        "Freeze",
        "Completed",
        ["my_vm_001"],
        None,
        None,
        "Platform",
        "Virtual machine is undergoing maintenance",
    ),
    "contrast-eventgrid-docs.json": Wanted(
        "3da1b9aa-5204-4335-8c33-c54e315dcffe",
        "Freeze",
        "Started",
        ["myvmss_1", "myvmss_2"],
        "2025-09-19T18:29:47Z",
        5,
        "Platform",
        LIVE_MIGRATION,
    ),
    "freeze-aks-3719-a-event-only.json": Wanted(
        "B2BC520E-BDA2-44A0-BF75-0C320524BB47",
        "Freeze",
        "Started",
        ["aks-testspot-38041100-vmss_25"],
        None,
        30,
        "Platform",
        MAINTENANCE,
    ),
}

# Single events, which are no documents of their own.
SINGLE_EVENTS = [
    "contrast-eventgrid-completed-2024.json",
    "contrast-eventgrid-docs.json",
    "freeze-aks-3719-a-event-only.json",
    "odd-docs-iso-notbefore.json",
]

# A word of the one warning that a sample earns.
WARNINGS = {
    "odd-2017-script-resourcename.json": "Resources",
    "odd-giantswarm-string-incarnation.json": "NotBefore",
    "odd-docs-iso-notbefore.json": "EventId",
}

# What is wrong with the others, as the message of the error says it.
MALFORMED = {
    **dict.fromkeys(SINGLE_EVENTS, "has no list 'Events'"),
    "imds-instance-aks-spot-2021-02-01.json": "has no list 'Events'",
    "aks-npd-messages.txt": "is not JSON",
    "terminate-issue70276-truncated.txt": "is not JSON",
    "two-events-pr11-partial.txt": "is not JSON",
}
NO_DOCUMENT = {"empty-body.txt"}
NO_SAMPLE = {"sources.tsv"}
