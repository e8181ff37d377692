# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

# Each target makes what it needs in .venv/ and build/, and needs no more than Python 3.11 or newer, git and make.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
TREE = build/ansible_collections/fleetops/azure_maintenance
# Spelt out in each recipe, because a folder may have a space in its name.
CORE = PATH="$(CURDIR)/.venv/core-2.19/bin:$(CURDIR)/.venv/eda/bin:$$PATH" LC_ALL=C.UTF-8 ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/build"

.PHONY: help demo docs test test-matrix lint gate costs lab lab-all programs bench artifact clean

help:
	@echo 'make demo             rehearse a maintenance of three VMs on this machine, against a simulator of Azure'
	@echo 'make docs             make the documentation as a site: build/site/html/index.html'
	@echo 'make test             run what a change can break, on the newest ansible-core: lint and tests of every kind'
	@echo 'make test-matrix      run what that leaves out: other versions of Ansible and Python, what takes long'
	@echo 'make lint             run the gates that only read'
	@echo 'make gate GATE=NAME   run one gate, or several; without GATE: list them'
	@echo 'make costs            print again what each gate of the last make test and make test-matrix cost'
	@echo 'make lab              prepare VMs with Debian 12, on which make test-matrix runs the checker; needs Debian and root'
	@echo 'make lab-all          the same for VMs with Debian 11, 12 and 13'
	@echo 'make programs         install the programs that some tests start, such as chromium; needs Debian and root'
	@echo 'make bench            measure speed and memory against their limits'
	@echo 'make artifact         build the file for Galaxy, in build/artifacts/'
	@echo 'make clean            remove .venv/ and build/'

demo: tree
	@$(CORE) ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false \
		ansible-playbook fleetops.azure_maintenance.rehearse

docs:
	@"$(PYTHON)" .ci/gates.py docs && echo 'The site is build/site/html/index.html.'

test test-matrix lint:
	@"$(PYTHON)" .ci/gates.py $@

gate:
	@"$(PYTHON)" .ci/gates.py $(GATE)

costs:
	@"$(PYTHON)" .ci/costs.py test test-matrix

lab:
	@"$(PYTHON)" .ci/lab.py

lab-all:
	@"$(PYTHON)" .ci/lab.py --all

programs:
	@"$(PYTHON)" .ci/needs.py

bench: tree
	@"$(PYTHON)" .ci/venvs.py eda
	@cd $(TREE) && status=0 && for benchmark in tests/benchmarks/[!_]*.py; do \
		$(CORE) START_CACHE=off python "$$benchmark" || status=1; done; exit $$status

artifact: tree
	@mkdir -p build/artifacts && $(CORE) python .ci/artifact.py build/artifacts

# The image stays, because the other checkouts on this machine use it too.
clean:
	@"$(PYTHON)" .ci/lab.py --remove
	rm -rf .venv build .ci/__pycache__ .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache

# The copy of the collection that Ansible finds, and the ansible-core that reads it
.PHONY: tree
tree:
	@[ -n "$(PYTHON)" ] || { echo 'Python 3.11 or newer is needed, and none was found.' >&2; exit 1; }
	@"$(PYTHON)" .ci/venvs.py core-2.19
	@"$(PYTHON)" .ci/tree.py
