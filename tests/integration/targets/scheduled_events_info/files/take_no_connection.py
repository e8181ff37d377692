# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

"""Print the port of a loopback address that neither takes nor refuses a connection, and keep it so for a minute.

Its queue of connections is full, so the kernel lets every further one wait.
"""

import os
import socket
import time

server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(0)
waiting = [socket.socket() for _knock in range(4)]
for client in waiting:
    client.setblocking(False)
    client.connect_ex(server.getsockname())
print(server.getsockname()[1], flush=True)
if os.fork() == 0:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    time.sleep(60)
