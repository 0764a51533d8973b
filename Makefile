# Everything a user or a check starts. Each target prepares what it needs by itself and says so.
#
#   make run INVENTORY=static LIMIT=bench1 RUN=20270101T120000Z-ab12 ARGS='-e bench_run_signatures=30'

INVENTORY ?= local
RUN ?=
LIMIT ?=
ARGS ?=

SHELL := /bin/bash
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
PLAY = ansible-playbook -i inventory/$(INVENTORY) $(if $(LIMIT),--limit '$(LIMIT)') $(if $(RUN),-e 'run_id=$(RUN)') $(ARGS)
# Those of the project in the order of its documents, then a user's own.
PRESENT = $(notdir $(wildcard inventory/*))
KNOWN = local static vm gcp aws azure
INVENTORIES = $(strip $(filter $(PRESENT),$(KNOWN)) $(filter-out $(KNOWN),$(PRESENT)))
LATEST = $$(ls -1t results 2>/dev/null | head -n 1)

# Fast ones first. Two processes, since most tests wait for something; those that share something are one group.
TESTS = tests/unit tests/integration tests/browser tests/playbook tests/molecule tests/vm
SIDE_BY_SIDE = --numprocesses=2 --dist=loadgroup

.DEFAULT_GOAL := help
.PHONY: help setup run report doctor teardown sweep stop test molecule lint bench bench-device bench-fleet clean

help: ## this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile
	@echo "Variables: INVENTORY=$(subst $() ,|,$(INVENTORIES)) (now $(INVENTORY)), LIMIT=HOSTS, RUN=run id to resume or report, ARGS=for ansible-playbook"

setup: ## what `run` needs: packages of the distribution, a virtual environment from the lock file
	$(if $(and $(INVENTORY),$(wildcard inventory/$(INVENTORY))),,$(error There is no inventory/$(INVENTORY); set INVENTORY to one of: $(INVENTORIES)))
	@scripts/setup.sh run '$(INVENTORY)'

run: setup ## measure every host of the inventory, then report; RUN=id goes on with an earlier run
	@$(PLAY) playbooks/run.yml

report: setup ## the report again, over the latest run or RUN=id
	@run='$(RUN)'; $(PLAY) playbooks/report.yml -e "run_id=$${run:-$(LATEST)}"

doctor: setup ## what would stop a run, host by host; changes no TPM
	@$(PLAY) playbooks/doctor.yml

teardown: setup ## stop or remove what was made for the hosts of the inventory, and prove that it is gone
	@$(PLAY) playbooks/teardown.yml

sweep: setup ## remove what any run left in the cloud of the inventory; ARGS=--check only lists it
	@$(PLAY) playbooks/sweep.yml

stop: ## stop what was started on this machine: software TPMs, the emulated machines
	@if [ -x .venv/bin/ansible-playbook ] && [ -d var ]; then ansible-playbook -i inventory/local -i inventory/vm playbooks/teardown.yml; fi

test: ## everything that is checked: lint, unit, software TPMs, playbooks, browser, emulated machine
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory _lint
	pytest $(SIDE_BY_SIDE) tests/unit
	pytest $(SIDE_BY_SIDE) $(filter-out tests/unit,$(wildcard $(TESTS)))

molecule: ## hosts in containers, measured over SSH: every scenario in molecule/
	@scripts/setup.sh molecule
	MOLECULE_EPHEMERAL_DIRECTORY=$(CURDIR)/.cache/molecule/state molecule test --all

lint: ## the static checks only
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory _lint

.PHONY: _lint
_lint:
	ruff check .
	ruff format --check .
	mypy
	yamllint --strict .
	ansible-lint --offline --strict
	shellcheck scripts/*.sh molecule/shared/*.sh .ci/run

bench: ## side by side on one software TPM: the floor, tpmtls, and other programs that do the same
	@scripts/setup.sh test
	PYTHONPATH=agent/src python bench/side_by_side.py

bench-device: ## the device suite by both iteration rules; WOLFTPM_BENCH=command or WOLFTPM_OUTPUT=file beside it
	@scripts/setup.sh test
	@PYTHONPATH=agent/src:. python bench/device.py --wolftpm-bench='$(WOLFTPM_BENCH)' --wolftpm-output='$(WOLFTPM_OUTPUT)'

bench-fleet: ## what Ansible costs a run over HOSTS=100 hosts that each measure for EACH=30 s
	@scripts/setup.sh test
	@PYTHONPATH=agent/src:. python bench/fleet.py --hosts='$(or $(HOSTS),100)' --seconds='$(or $(EACH),30)'

clean: stop ## stop the software TPMs; remove results, reports, caches and the virtual environment
	rm -rf var results report .cache .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .ansible
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
