# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""The state as version 1.0 of the checker made it."""

from __future__ import annotations

TABLES_1_0 = """
    CREATE TABLE event (
        number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, content TEXT NOT NULL, rule TEXT,
        phase TEXT NOT NULL, outcome TEXT, boot_id TEXT NOT NULL, seen_at REAL NOT NULL, seen_uptime REAL NOT NULL,
        announced_at REAL, started_at REAL, ended_at REAL,
        approval TEXT, approved_at REAL, waiting_for TEXT NOT NULL DEFAULT '[]', note TEXT
    );
    CREATE UNIQUE INDEX open_event ON event (key) WHERE ended_at IS NULL;
    CREATE TABLE response (
        number INTEGER PRIMARY KEY AUTOINCREMENT, event INTEGER NOT NULL REFERENCES event ON DELETE CASCADE,
        phase TEXT NOT NULL, state TEXT NOT NULL, boot_id TEXT NOT NULL, created_at REAL NOT NULL,
        finished_at REAL, message TEXT, UNIQUE (event, phase)
    );
    CREATE TABLE step (
        response INTEGER NOT NULL REFERENCES response ON DELETE CASCADE, position INTEGER NOT NULL,
        content TEXT NOT NULL, state TEXT NOT NULL, failures INTEGER NOT NULL DEFAULT 0,
        interruptions INTEGER NOT NULL DEFAULT 0, started_at REAL, finished_at REAL, message TEXT,
        PRIMARY KEY (response, position)
    );
    CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    PRAGMA user_version = 1;
    PRAGMA journal_mode = WAL;
"""
