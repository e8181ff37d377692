# Copyright: (c) 2026, fleetops contributors
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""README, CONTRIBUTING, galaxy.yml and the change log say what the shelves ask for, and the same version."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

TREE = Path(__file__).resolve().parents[2]
README = (TREE / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (TREE / "CONTRIBUTING.md").read_text(encoding="utf-8")
GALAXY = yaml.safe_load((TREE / "galaxy.yml").read_text(encoding="utf-8"))
VERSION = GALAXY["version"]
# Of the template for certified collections
HEADINGS = [
    "Description",
    "Installation",
    "Use cases",
    "Requirements",
    "Testing",
    "Contributing",
    "Support",
    "Release notes and roadmap",
    "Related information",
    "License information",
]
PAGES = ["README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", ".github/shelves.md"]


def test_the_readme_has_the_headings_of_certified_collections_and_fits_on_a_page():
    assert re.findall("^## (.*)", README, re.MULTILINE) == HEADINGS
    assert len(README.splitlines()) <= 120
    assert "pip install" not in README


def test_contributing_begins_with_the_inner_loop_and_is_short():
    first, rest = CONTRIBUTING.split("\n## ", 1)
    places = [first.index(word) for word in ("$ git clone", "$ make unit ", "$ make unit T=", "$ make test ")]
    assert places == sorted(places)
    assert len(first.splitlines()) <= 30
    assert len(rest.splitlines()) <= 120


def test_the_price_of_asking_stands_before_the_first_command_that_asks():
    asking = re.search(r"^\$ .*\b(scheduled_events_info|fleet_report|respond|approve)\b", README, re.MULTILINE)
    assert README.index("Asking switches Scheduled Events on") < asking.start()


def anchors(page):
    return {
        re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall("^#+ (.*)", page, re.MULTILINE)
    }


@pytest.mark.parametrize("name", PAGES)
def test_each_link_of_a_page_leads_somewhere(name):
    page = (TREE / name).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", page):
        path, _hash, anchor = link.partition("#")
        if not link.startswith("https://"):
            assert not path or ((TREE / name).parent / path).exists(), link
            assert path or anchor in anchors(page), link


def test_galaxy_yml_says_where_everything_is():
    for key in ("repository", "documentation", "homepage", "issues"):
        assert GALAXY[key].startswith("https://github.com/fleetops/azure_maintenance"), key


def test_galaxy_yml_readme_guides_and_change_log_say_the_same_version():
    releases = yaml.safe_load((TREE / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))["releases"]
    numbers = [tuple(map(int, version.split("."))) for version in releases]
    assert max(numbers) <= tuple(map(int, VERSION.split(".")))
    # Where the version has not been taken in yet, its summary waits among the fragments.
    assert VERSION in releases or (TREE / "changelogs" / "fragments" / f"{VERSION}.yml").exists()
    assert f"{VERSION} is the first that is published" in README
    guides = "".join(path.read_text(encoding="utf-8") for path in (TREE / "docs").rglob("*.rst"))
    assert set(re.findall(r"fleetops-azure_maintenance-([\d.]+)\.tar\.gz", guides)) == {VERSION}


def test_the_change_log_says_that_1_0_0_was_never_published():
    changes = (TREE / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "Never published" in changes.split("## v1\\.0\\.0")[1].split("### Minor Changes")[0]
