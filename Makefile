# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: fleetops contributors

# Each target makes what it needs in .venv/ and build/, and needs no more than Python 3.11 or newer with venv, git and make.

PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)
TREE = build/ansible_collections/fleetops/azure_maintenance
# Spelt out in each recipe, because a folder may have a space in its name.
CORE = PATH="$(CURDIR)/.venv/newest/bin:$(CURDIR)/.venv/eda/bin:$$PATH" LC_ALL=C.UTF-8 ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/build"

.PHONY: help demo docs unit test test-matrix test-release lint gate lab lab-all bench artifact clean

help:
	@echo 'make demo             rehearse a maintenance of three VMs on this machine, against a simulator of Azure'
	@echo 'make docs             make the documentation as a site: build/site/html/index.html'
	@echo 'make unit             run the unit tests of the plugins at once, or T=path, or T="-k words"'
	@echo 'make test             run what a change can break, on the newest ansible-core: lint and tests of every kind'
	@echo 'make test-matrix      run what a build server runs beside it: other versions of Ansible and Python, VMs'
	@echo 'make test-release     run what takes too long for that, and say how much of the product the tests run'
	@echo 'make lint             run the gates that only read'
	@echo 'make gate GATE=NAME   run one gate, or several; without GATE: list them'
	@echo 'make lab              prepare VMs with Debian 12, on which make test-matrix runs the checker; needs Debian and root'
	@echo 'make lab-all          the same for VMs with Debian 11, 12 and 13, and for machines that have nothing'
	@echo 'make bench            measure speed and memory against their limits'
	@echo 'make artifact         build the file for Galaxy, in build/artifacts/'
	@echo 'make clean            remove .venv/ and build/'

demo: tree
	@$(CORE) ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_INVENTORY_UNPARSED_WARNING=false \
		ansible-playbook fleetops.azure_maintenance.rehearse

docs:
	@"$(PYTHON)" .ci/gates.py docs && echo 'The site is build/site/html/index.html.'

# Of the checkout itself, by a link: no copy, and the collection is found all the same.
unit: python
	@"$(PYTHON)" .ci/venvs.py newest
	@mkdir -p build/checkout/ansible_collections/fleetops
	@ln -sfn "$(CURDIR)" build/checkout/ansible_collections/fleetops/azure_maintenance
	@cd build/checkout/ansible_collections/fleetops/azure_maintenance && PATH="$(CURDIR)/.venv/newest/bin:$$PATH" \
		PYTHONPATH="$(CURDIR)/build/checkout" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/build/checkout" AZURE_IMDS_ENDPOINT=http://127.0.0.1:9 \
		LC_ALL=C.UTF-8 AZURE_MAINTENANCE_SAMPLES="$(CURDIR)/../shared/samples" \
		pytest --quiet -m "not matrix" $(if $(T),$(T),--numprocesses=4 --dist=worksteal tests/unit/plugins)

test test-matrix test-release lint: python
	@"$(PYTHON)" .ci/gates.py $@

gate:
	@"$(PYTHON)" .ci/gates.py $(GATE)

lab:
	@"$(PYTHON)" .ci/lab.py

lab-all:
	@"$(PYTHON)" .ci/lab.py --all

bench: tree
	@"$(PYTHON)" .ci/venvs.py eda
	@cd $(TREE) && status=0 && for benchmark in tests/benchmarks/[!_]*.py; do \
		$(CORE) START_CACHE=off python "$$benchmark" || status=1; done; exit $$status

artifact: tree
	@mkdir -p build/artifacts && $(CORE) python .ci/tree.py build/artifacts

# The image stays, because the other checkouts on this machine use it too.
clean:
	@"$(PYTHON)" .ci/lab.py --remove
	rm -rf .venv build .ci/__pycache__ .ansible .mypy_cache .pytest_cache .ruff_cache

# The copy of the collection that Ansible finds, and the ansible-core that reads it
.PHONY: tree
tree: python
	@"$(PYTHON)" .ci/venvs.py newest
	@"$(PYTHON)" .ci/tree.py

.PHONY: python
python:
	@[ -n "$(PYTHON)" ] || { echo 'Python 3.11 or newer is needed, and none was found.' >&2; exit 1; }
