# Needs only Python 3.11 or newer (with venv) and make; everything else goes into .venv, with checked hashes.
PYTHON ?= python3
ARGS ?=
# The tests mostly wait for programs and clocks: more workers than two cores.
WORKERS ?= 3
BIN := .venv/bin
READY := .venv/.ready
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links $(ARGS)

# Made anew from nothing: one that was not finished, of another Python or another checkout, or whose Python is gone.
ifneq ($(shell exec 2>/dev/null; test -e $(READY) && $(BIN)/python -I -c 'import agent; print(*agent.__path__)'),$(CURDIR)/agent)
.PHONY: $(READY)
OF_NO_USE := .venv
endif

.PHONY: help demo test lint check bench scale fuzz soak chaos lock pictures

help:
	@echo "make demo    a whole fleet and a Slack workspace on this machine (ARGS=--headless: no browser)"
	@echo "make test    all tests (ARGS: for pytest)"
	@echo "make check   make lint (format, lint, types, import rules) and make test"
	@echo "make bench   measure;  make scale   a fleet of 10,000 nodes;  make fuzz, make soak, make chaos   look for what the tests do not know yet"
	@echo "make pictures   write tests/cases/cards, docs/cards.md and docs/pictures anew (needs chromium)"
	@echo "make lock    write requirements/*.txt anew from *.in (needs uv)"

demo: $(READY)
	@$(BIN)/python -m demo $(ARGS)

test: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(ARGS)

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: $(READY)
	@$(BIN)/python -m bench $(ARGS)

# A fleet of 100, 1,000 and 10,000 simulated nodes against one bot; ARGS=--nodes=10000 for one size (nine minutes).
scale: $(READY)
	@$(BIN)/python -m bench.scale $(ARGS)

# The same properties as in `make test`, with many more examples: 3 x FUZZ_RUNS mutated readings of GPUs in use, as many
# mutated reports of nodes, FUZZ_RUNS mutated orders, joins and the like, 2/7 x FUZZ_RUNS payloads of Slack. An hour.
fuzz: $(READY)
	FUZZ_RUNS=$${FUZZ_RUNS:-350000} $(BIN)/pytest -m "hypothesis or fuzz" --hypothesis-profile=fuzz --timeout=3600 $(ARGS)

# The agent's 100,000 samples on a fake driver, and beside it the bot's 240 rounds of free and taken GPUs: neither memory
# nor file handles nor the database may grow. About six minutes; ARGS="--samples=1000 --rounds=40" is shorter.
soak: $(READY)
	@$(BIN)/python -m bench.soak $(ARGS)

# Long stories with killed processes; not part of `make test`. The longest is tests/chaos: twelve faults on a fleet of 50
# nodes, each at CHAOS_MOMENTS random moments (30: an hour, 3: seven minutes), with a table at the end.
chaos: $(READY)
	$(BIN)/pytest -m slow --timeout=1800 $(ARGS)

# What people see, as files and as pictures: look at every difference before it is committed.
pictures: $(READY)
	$(BIN)/python -m tests.bot.write_cards
	$(BIN)/python -m tests.demo.take_pictures

lock:
	@command -v uv >/dev/null || { echo "make lock needs uv: see docs.astral.sh/uv, or pip install uv" >&2; exit 1; }
	cd requirements && $(LOCK) build.in -o build.txt
	cd requirements && $(LOCK) agent.in -o agent.txt
	cd requirements && $(LOCK) bot.in -o bot.txt
	cd requirements && $(LOCK) k8s.in -o k8s.txt
	cd requirements && $(LOCK) dev.in -o dev.txt
	cd requirements && $(LOCK) peers.in -o peers.txt

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gpu-oncall needs Python 3.11 or newer as $(PYTHON): install one, or name it with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "$(PYTHON) has no venv: install it (Debian: apt install python3-venv)" >&2; exit 1; }
	@rm -rf $(OF_NO_USE) $(READY)
	@# As `python -m venv .venv`, which would answer Ctrl-C with a traceback.
	$(PYTHON) -c 'import runpy, signal as s; s.signal(s.SIGINT, s.SIG_DFL); runpy.run_module("venv", None, "__main__")' .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)
