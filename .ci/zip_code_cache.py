# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Keep the bytecode of what Python imports from zip files and from collections, as it does for all other files.

Ansible sends each module as a zip file of sources, and a third of the CPU that the tests used went into compiling the
same sources again. It also compiles anew in each run, and in each of its workers, what plugins of a collection import.
venvs.py puts this into each virtual environment, where Python runs it at its start. What is executed stays the same.
Besides, Python looks less often for garbage: most of what runs here ends before there is any worth the search, and each
worker that Ansible forks would get a copy of all pages that the search touches.
Where the variable ZIP_CODE_CACHE is off, as for benchmarks, all of this is left alone.
"""

from __future__ import annotations

import _frozen_importlib_external
import _imp
import gc
import marshal
import os
import sys
import zipimport

# As in typing, whose import would cost each start of Python more than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from typing import Callable, Sequence

FOLDER = os.path.join(sys.prefix, "zip_code_cache")
COLLECTION_LOADER = "ansible.utils.collection_loader._collection_finder"


def load_or_compile(path: str, source: bytes, compile_source: Callable[[str, bytes], CodeType]) -> CodeType:
    file = os.path.join(FOLDER, _imp.source_hash(0, source).hex())
    try:
        with open(file, "rb") as kept:
            code: CodeType = marshal.loads(kept.read())
    except OSError:
        code = compile_source(path, source)
        new = f"{file}.{os.getpid()}"
        try:
            with open(new, "wb") as kept:
                kept.write(marshal.dumps(code))
            os.replace(new, file)
        except OSError:
            pass  # Another user, who may not write there, compiles it each time.
    # A traceback names the zip file, or the copy of the collection, of this run.
    _imp._fix_co_filename(code, path)
    return code


def keep_code_of_zip_files() -> None:
    compile_source = zipimport._compile_source  # type: ignore[attr-defined]
    zipimport._compile_source = (  # type: ignore[attr-defined]
        lambda path, source: load_or_compile(path, source, compile_source)
    )


class CodeOfCollections:
    """Waits until Ansible's loader of collections is imported, and hands it a compile() that keeps bytecode."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        if name != COLLECTION_LOADER:
            return None
        sys.meta_path.remove(cls)
        spec = _frozen_importlib_external.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            module.compile = compile_of_collection  # type: ignore[attr-defined]

        spec.loader.exec_module = execute_and_change
        return spec


def compile_of_collection(source: bytes | str, filename: str, mode: str, flags: int, dont_inherit: bool) -> CodeType:
    """Take what that loader hands to compile()."""
    content = source.encode() if isinstance(source, str) else source
    return load_or_compile(filename, content, lambda path, _: compile(source, path, mode, flags, dont_inherit))


if os.environ.get("ZIP_CODE_CACHE") != "off":
    keep_code_of_zip_files()
    sys.meta_path.insert(0, CodeOfCollections)
    gc.set_threshold(50000, 20, 100)
