# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Keep the bytecode of what Python imports from zip files and from collections, as it does for all other files.

Ansible also reads at each start, from a long file of YAML, which of its plugins has moved where. What it makes of that
is kept too.

Ansible sends each module as a zip file of sources, and a third of the CPU that the tests used went into compiling the
same sources again. It also compiles anew in each run, and in each of its workers, what plugins of a collection import.
venvs.py puts this into each virtual environment, where Python runs it at its start. What is executed stays the same.
Besides, Python looks less often for garbage: most of what runs here ends before there is any worth the search, and each
worker that Ansible forks would get a copy of all pages that the search touches.
Where the variable START_CACHE is off, as for benchmarks, all of this is left alone.
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
    from types import CodeType
    from typing import Any, Callable, Sequence

FOLDER = os.path.join(sys.prefix, "start_cache")
COLLECTION_LOADER = "ansible.utils.collection_loader._collection_finder"


def keep(content: bytes, kind: str, make: Callable[[], bytes]) -> bytes:
    """Return what was made of this content before, or make it."""
    file = os.path.join(FOLDER, _imp.source_hash(0, content).hex() + kind)
    try:
        with open(file, "rb") as kept:
            return kept.read()
    except OSError:
        pass  # It was not made before.
    made = make()
    new = f"{file}.{os.getpid()}"
    try:
        with open(new, "wb") as kept:
            kept.write(made)
        os.replace(new, file)
    except OSError:
        pass  # Another user, who may not write there, makes it each time.
    return made


def load_or_compile(path: str, source: bytes, compile_source: Callable[[str, bytes], CodeType]) -> CodeType:
    code: CodeType = marshal.loads(keep(source, "", lambda: marshal.dumps(compile_source(path, source))))
    # A traceback names the zip file, or the copy of the collection, of this run.
    _imp._fix_co_filename(code, path)
    return code


class ChangeLoader:
    """Waits until Ansible imports its loader of collections, and makes it keep what it compiles and reads."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        if name != COLLECTION_LOADER:
            return None
        spec = _frozen_importlib_external.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            module.compile = compile_of_collection
            read = module._meta_yml_to_dict

            def load_or_read(content: bytes, name: str) -> object:
                # Its import would cost other programs more than the rest of this file.
                import pickle

                return pickle.loads(keep(content, ".yml", lambda: pickle.dumps(read(content, name))))

            # Ansible's comment on this function says that it may be replaced, to keep what it returns.
            module._meta_yml_to_dict = load_or_read

        spec.loader.exec_module = execute_and_change
        return spec


def compile_of_collection(source: bytes | str, filename: str, mode: str, flags: int, dont_inherit: bool) -> CodeType:
    """Take what that loader hands to compile()."""
    content = source.encode() if isinstance(source, str) else source
    return load_or_compile(filename, content, lambda path, _: compile(source, path, mode, flags, dont_inherit))


if os.environ.get("START_CACHE") != "off":
    compile_source = zipimport._compile_source  # type: ignore[attr-defined]
    zipimport._compile_source = (  # type: ignore[attr-defined]
        lambda path, source: load_or_compile(path, source, compile_source)
    )
    sys.meta_path.insert(0, ChangeLoader)
    gc.set_threshold(50000, 20, 100)
