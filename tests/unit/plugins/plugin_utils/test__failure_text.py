# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.fleetops.azure_maintenance.plugins.plugin_utils._failure_text import without_frames


class FrameError(AssertionError):
    """Somebody read the frame, of which ansible-core 2.21 warns."""


class Timedout(dict):
    """What ansible-core adds to the result of a task that was stopped at its time limit."""

    def __getitem__(self, name):
        if name == "frame":
            raise FrameError
        return super().__getitem__(name)

    def items(self):
        raise FrameError


TIMEDOUT = Timedout(frame="line 1", period=15)


@pytest.mark.parametrize(
    ("result", "plain"),
    [
        ({"failed": True, "timedout": TIMEDOUT}, {"failed": True, "timedout": {"period": 15}}),
        ({"results": [{"item": 1, "timedout": TIMEDOUT}]}, {"results": [{"item": 1, "timedout": {"period": 15}}]}),
        ({"results": ["a package"], "msg": ""}, {"results": ["a package"], "msg": ""}),
        ({"timedout": None}, {"timedout": None}),
        (None, None),
    ],
)
def test_the_frame_of_a_time_limit_is_left_out_unread(result, plain):
    assert without_frames(result) == plain
