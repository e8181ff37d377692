# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors
"""Keep the bytecode of what Python imports from zip files and from collections, as it does for all other files.

Ansible also reads much YAML at each start: its settings, which of its plugins has moved where, and the documentation
of plugins. What it makes of that is kept too.

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
SETTINGS = "ansible.config.manager"
PLUGIN_LOADER = "ansible.plugins.loader"


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


def keep_code_of_zip_files() -> None:
    compile_source = zipimport._compile_source  # type: ignore[attr-defined]
    zipimport._compile_source = (  # type: ignore[attr-defined]
        lambda path, source: load_or_compile(path, source, compile_source)
    )


class Changes:
    """Waits until parts of Ansible are imported, and hands them functions that keep what they make."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: object = None) -> ModuleSpec | None:
        change = CHANGES.get(name)
        if change is None:
            return None
        spec = _frozen_importlib_external.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def change_loader(module: Any) -> None:
    module.compile = compile_of_collection
    # Ansible's comment on this function says that it may be replaced, to keep what it returns.
    read = module._meta_yml_to_dict
    module._meta_yml_to_dict = lambda content, name: load_or_read(content, lambda: read(content, name))


def change_settings(module: Any) -> None:
    read = module.yaml_load

    def read_file(file: Any, **options: Any) -> object:
        # The release that Debian 11 has names the loader too.
        content = file.read()
        return load_or_read(content, lambda: read(content, **options))

    module.yaml_load = read_file


def change_plugin_loader(module: Any) -> None:
    # Releases before 2.19 read it in another way.
    if hasattr(module, "yaml"):
        module.yaml = Yaml(module.yaml)


class Yaml:
    """Stands in for the module yaml where plugins are loaded."""

    def __init__(self, yaml: Any) -> None:
        self._yaml = yaml

    def __getattr__(self, name: str) -> Any:
        return getattr(self._yaml, name)

    def load(self, text: object, Loader: Any) -> object:
        import pickle

        # With what Ansible notes of a text beside what it says: from which file it is, and that it is trusted.
        return load_or_read(pickle.dumps(text), lambda: self._yaml.load(text, Loader=Loader))


CHANGES = {COLLECTION_LOADER: change_loader, SETTINGS: change_settings, PLUGIN_LOADER: change_plugin_loader}


def load_or_read(content: bytes, read: Callable[[], object]) -> object:
    # Its import would cost other programs more than the rest of this file.
    import pickle

    return pickle.loads(keep(content, ".yml", lambda: pickle.dumps(read())))


def compile_of_collection(source: bytes | str, filename: str, mode: str, flags: int, dont_inherit: bool) -> CodeType:
    """Take what that loader hands to compile()."""
    content = source.encode() if isinstance(source, str) else source
    return load_or_compile(filename, content, lambda path, _: compile(source, path, mode, flags, dont_inherit))


if os.environ.get("START_CACHE") != "off":
    keep_code_of_zip_files()
    sys.meta_path.insert(0, Changes)
    gc.set_threshold(50000, 20, 100)
