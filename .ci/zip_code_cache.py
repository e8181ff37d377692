# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Keep the bytecode of what Python imports from zip files, as Python does for all other files.

Ansible sends each module as a zip file of sources, and a third of the CPU that the tests used went into compiling the
same sources again. venvs.py puts this into each virtual environment, where Python runs it at its start. What is
executed stays the same. Where the variable ZIP_CODE_CACHE is off, as for benchmarks, nothing is kept.
"""

from __future__ import annotations

import _imp
import marshal
import os
import sys
import zipimport

# As in typing, whose import would cost each start of Python more than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

FOLDER = os.path.join(sys.prefix, "zip_code_cache")


def keep_code() -> None:
    compile_source = zipimport._compile_source  # type: ignore[attr-defined]

    def load_or_compile(path: str, source: bytes) -> CodeType:
        file = os.path.join(FOLDER, _imp.source_hash(0, source).hex())
        try:
            with open(file, "rb") as kept:
                code = marshal.loads(kept.read())
        except OSError:
            code = compile_source(path, source)
            new = f"{file}.{os.getpid()}"
            try:
                with open(new, "wb") as kept:
                    kept.write(marshal.dumps(code))
                os.replace(new, file)
            except OSError:
                pass  # Another user, who may not write there, compiles it each time.
        # A traceback names the zip file of this run.
        _imp._fix_co_filename(code, path)
        return code

    zipimport._compile_source = load_or_compile  # type: ignore[attr-defined]


if os.environ.get("ZIP_CODE_CACHE") != "off":
    keep_code()
