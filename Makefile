# Each verb is `harness VERB` in the clone's own .venv, which is made first where it is missing.
# `make` alone lists the verbs.
#
# Values are never put on a command line. They reach the harness through the environment, as they were typed:
# nothing in them is expanded or executed, neither by make nor by a shell.

# The names of all settings; the same as in harness/settings (tests/unit/test_makefile.py compares).
override SETTINGS := MODEL ENGINE CONTEXT THREADS ENGINE_ARGS OPENAI_BASE_URL OPENAI_API_KEY \
	GPUS_INFERENCE GPUS_TRAIN TP PP DP MEMORY_FRACTION \
	WORKSPACE REQUIREMENTS FRAMEWORK FRAMEWORK_SRC WORKERS MEMORY_LIMIT PIDS_LIMIT CPU_LIMIT SHARE RAY_PORT HEAD TOKEN_FILE NODE_NETWORK DEBUG \
	PORT RAY_AUTH DASHBOARD_PORT PROJECT WAIT BASE NAMESPACE IMAGE_MIRROR UPDATE DIFF DEBIAN_MIRROR DRYDOCK_CACHE \
	HF_ENDPOINT HF_TOKEN HF_HUB_OFFLINE \
	AGENT DATA STAGE SEED TIMEOUT SERVER FAULTS LATENCY CONFIG BREAK AREAL_PYTHON VERL_PYTHON GLOBAL_BS GROUP_SIZE ROLLOUT_DP_SIZE IN_FLIGHT \
	REFERENCE COMPARE_PYTHON LIMITS DTYPE DEVICE BATCH_TOKENS MAX_TOKENS TEMPERATURE TOP_P TOP_K REWARD \
	OUT FROM RECORD REPLAY RUN AGAINST \
	GRACE CMD BACKGROUND S FOLLOW DIR DUMP PIDS CONTAINERS MATCH LOGS LOCALS NATIVE TASKS GAP CASE AFTER STEP NOTIFY WEBHOOK RAY_ADDRESS VIA \
	HOSTS REMOTE SESSION PID TUI WATCH AT IF LOG N ACTOR ROLE TOPIC FIX JSON DRYDOCK_YES

# What only `make chaos` and `make fuzz` read.
override FOR_TESTS := STEPS SECONDS

# What was typed after `make`; the harness is told, so that `harness settings` can name the origin of each value.
override typed := $(strip $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name))))
override unknown := $(filter-out $(SETTINGS) $(FOR_TESTS),$(typed))
ifneq ($(unknown),)
override near := $(shell python3 scripts/did_you_mean.py setting '$(subst ','"'"',$(unknown))' $(SETTINGS) 2>/dev/null)
$(error $(unknown): no setting of Drydock$(or $(near),.) Nothing was done. All settings: make settings)
endif
export DRYDOCK_MAKE_VARS := $(typed)

# $(value) is a variable's text before expansion. Assigned once with := it is never expanded again, and make exports just that.
define keep_literal
override $(1) := $$(value $(1))
export $(1)
endef
$(foreach name,$(SETTINGS) $(FOR_TESTS),$(if $(filter-out undefined default,$(origin $(name))),$(eval $(call keep_literal,$(name)))))

# These would carry the typed values a second time, quoted in make's way.
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES

# `make up check` works in order, with -j too.
.NOTPARALLEL:

.PHONY: help up down status logs shell run check lint compare hang-dump hang-watch hang-demo runs open compare-runs diagnose breakpoints attach trace restart-ray doctor report settings clean test test-full bench bench-hang chaos fuzz venv docker init dev-container
.PHONY: worker ports save load lock verify fingerprint gpu-selftest

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

up: venv docker ## Bring the stack up: inference server, Ray, dev container (MODEL= ENGINE= WORKSPACE= WORKERS= DEBUG=)
	@.venv/bin/harness up

down: venv ## Stop the stack; weights, images and volumes stay
	@.venv/bin/harness down

worker: venv docker ## Make this machine a node of another's cluster (HEAD=host:port TOKEN_FILE=); `make down` leaves it
	@.venv/bin/harness worker

ports: venv ## What a firewall between several machines has to let through (SHARE= RAY_PORT=)
	@.venv/bin/harness ports

status: venv ## What runs, how it is, and where to reach it
	@.venv/bin/harness status

logs: venv ## Show the containers' logs (S=service FOLLOW=1)
	@.venv/bin/harness logs

shell: venv ## Open a shell in the dev container
	@.venv/bin/harness shell

run: venv ## Run a command in the dev container and keep its output (CMD='python train.py' BACKGROUND=1)
	@.venv/bin/harness run

check: venv ## Check the server and an agent in stages (AGENT=file.py:Class DATA=file.jsonl STAGE=1-4 SERVER=simulated CONFIG=)
	@.venv/bin/harness check

lint: venv ## Say what will bite in training, from an agent's source and a configuration alone (AGENT= CONFIG=)
	@.venv/bin/harness lint

compare: venv ## Do engine and trainer agree, token by token? (MODEL= DATA= N= LIMITS=verl AGAINST=batch|cache|URL)
	@.venv/bin/harness compare

hang-dump: venv ## Dump every stack of the system and say who hangs and why (CONTAINERS= PIDS= MATCH= LOGS= LOCALS=1)
	@.venv/bin/harness hang-dump

hang-watch: venv ## Watch a training; when nothing gets on for AFTER=10m, dump it once and tell (STEP= NOTIFY= WEBHOOK=)
	@.venv/bin/harness hang-watch

hang-demo: venv ## Run a program that hangs on purpose, dump it and explain it (CASE=; without: list them)
	@.venv/bin/harness hang-demo

runs: venv ## List what was run, how it ended, and where it lies
	@.venv/bin/harness runs

open: venv ## Open the newest page in the browser, or say where it lies (`harness open NAME` or `all` for others)
	@.venv/bin/harness open

compare-runs: venv ## Hold the newest check against an earlier one (AGAINST=runs/FOLDER)
	@.venv/bin/harness compare-runs

diagnose: venv ## Say who hangs and why, from dumped stacks (DUMP=folder, archive or text)
	@.venv/bin/harness diagnose

breakpoints: venv ## Who waits at a breakpoint: name, node, PID, line, since when (WATCH=1 JSON=1)
	@.venv/bin/harness breakpoints

attach: venv ## Debug a paused or running worker (SESSION=2 or PID=…): in VS Code, or here with TUI=1
	@.venv/bin/harness attach

trace: venv ## Log points in running code (AT=reward.py:42 IF='reward < -1' LOG='{reward:.3f} {prompt[:80]}' N=20)
	@.venv/bin/harness trace

restart-ray: venv ## Restart our Ray cluster and no other
	@.venv/bin/harness restart-ray

doctor: venv ## Find out what is wrong with this machine or the stack (TOPIC=debugger: breakpoints; FIX=1 mends)
	@.venv/bin/harness doctor

report: venv ## Pack doctor, fingerprint, logs and the last runs into one file without secrets, for a bug report (OUT=)
	@.venv/bin/harness report

init: venv ## Let an editor open a project of your own in this stack (DIR=~/my-agent)
	@.venv/bin/harness init

dev-container: venv docker ## Describe the stack for VS Code's "Reopen in Container", which calls this
	@.venv/bin/harness dev-container

lock: venv ## Write down the digest of every image that is pulled, or show what would change (UPDATE=1 IMAGE_MIRROR=)
	@.venv/bin/harness lock

verify: venv ## Say whether what runs is what is locked
	@.venv/bin/harness verify

fingerprint: venv ## What this stack is made of, to the last package (JSON=1; DIFF=a colleague's file)
	@.venv/bin/harness fingerprint

save: venv docker ## Put the stack into one folder, for a machine without a network (OUT=folder MODEL= ENGINE= FRAMEWORK=)
	@.venv/bin/harness save

load: ## Bring in what `make save` wrote, without any network (FROM=folder)
	@scripts/load.sh

gpu-selftest: venv docker ## On a machine with a GPU: try what was never tried on one; leaves one file to send back
	@.venv/bin/harness gpu-selftest

settings: venv ## Show each setting and where its value came from
	@.venv/bin/harness settings

clean: venv ## Remove everything that is ours: containers, volumes, images, build cache
	@.venv/bin/harness clean

test: venv docker ## Lint, types, unit and scenario tests
	@scripts/test.sh

test-full: venv docker ## The same and what is long
	@scripts/test.sh --full

bench: venv docker ## Measure what docs/benchmarks.md states
	@.venv/bin/python -m tests.bench

bench-hang: venv ## Score the verdict on all programs of examples/hangs and on recorded hangs; writes docs/hang-accuracy.md
	@.venv/bin/python -m tests.bench.hang_accuracy

chaos: venv docker ## Break things in the middle of verbs, seeded, and see that all comes back (SEED= STEPS=12 or 7-7)
	@.venv/bin/python -m tests.chaos

fuzz: venv ## Break what parsers read, for so long (SECONDS=60 SEED=)
	@PYTHONPATH=docker/gateway .venv/bin/python -m tests.unit.fuzz

# Whatever is no verb.
.DEFAULT:
	@python3 scripts/did_you_mean.py verb '$(subst ','"'"',$@)' >&2; exit 2

venv:
	@scripts/bootstrap.sh

docker:
	@scripts/ensure-docker.sh
