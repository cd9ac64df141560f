# SPDX-License-Identifier: MIT
# The front of the build; Meson and ninja do the work. `make` lists what there is.

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 600
NAMES ?=
MESON_OPTIONS ?=
TESTS ?=
# of two makes in one folder, the second waits
LOCKED = flock $(BUILD)

help:           ## this list
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-10s%s\n", $$1, $$2 }' Makefile

setup:          ## install the packages that build, check and demo need
	@tools/setup.sh build check demo

build: setup    ## compile everything into build/
	@mkdir -p $(BUILD)
	@[ -f $(BUILD)/build.ninja ] || $(LOCKED) meson setup $(BUILD) $(MESON_OPTIONS)
	@[ ! -f $(BUILD)/demo-only ] || { meson configure $(BUILD) -Dtests=true -Ddocs=true && rm $(BUILD)/demo-only; }
	@$(LOCKED) ninja -C $(BUILD)

check: build    ## run the tests that a change needs first, or TESTS='near hit'; minutes
	@tools/run-tests $(BUILD) $(or $(TESTS),--suite unit --suite oracle --suite feature)

check-all: build ## run every test but torture; the guest's first part and a minute of fuzz too
	@-tools/setup.sh guest && tools/guest-kernel $(BUILD) # without it that test is skipped
	@tools/run-tests $(BUILD) --no-suite torture
	@$(MAKE) --no-print-directory fuzz SECONDS=60

guest: build    ## run all tests that have a guest: watches, CPUs that go and come, an older kernel
	@tools/setup.sh guest && tools/guest-kernel $(BUILD)
	@WAYMARK_GUEST_LIST=all WAYMARK_GUEST_SECONDS=3600 tools/run-tests $(BUILD) guest --timeout-multiplier 11

demo:           ## record a SQLite program, a crash, bash and PostgreSQL, and report
	@tools/setup.sh build demo real
	@[ -f $(BUILD)/build.ninja ] || { meson setup $(BUILD) -Dtests=false -Ddocs=false $(MESON_OPTIONS) && touch $(BUILD)/demo-only; }
	@start=$$(date +%s) && $(LOCKED) ninja -C $(BUILD) demo && echo "demo: built in $$(($$(date +%s) - start)) s"
	@tools/demo $(BUILD)

real: build     ## run 100 real programs under the engine, three times each, or NAMES='node gdb'; an hour
	@tools/setup.sh programs
	@WAYMARK_BUILD=$(abspath $(BUILD)) WAYMARK_REAL_RUNS=3 tests/engine_suites.sh $(or $(NAMES),all)

bench: build    ## measure the figures, each beside its peers
	@tools/setup.sh bench
	@meson configure $(BUILD) --clearcache && meson setup --reconfigure $(BUILD) >/dev/null
	@ninja -C $(BUILD) all bench/bench_sites bench/bench_sites_sparse
	@tools/bench $(BUILD)

torture: build  ## toggle, fork, load, attach, detach for SECONDS=600
	@WAYMARK_TORTURE_SECONDS=$(SECONDS) tools/run-tests $(BUILD) --suite torture --timeout-multiplier 0

fuzz: setup     ## feed nonsense to whatever reads a trace or a process, sanitized, for SECONDS=600
	@[ -f $(BUILD)-fuzz/build.ninja ] || meson setup $(BUILD)-fuzz -Dtests=false -Ddocs=false -Db_sanitize=address,undefined
	@ninja -C $(BUILD)-fuzz cli/waymark cli/agent_fuzz cli/consumers_fuzz inside/libwaymark-agent.so inside/engine/libwaymark-trail.so
	@WAYMARK_BUILD=$(abspath $(BUILD)-fuzz) WAYMARK_FUZZ_SECONDS=$(SECONDS) tests/consumers.sh

lint: build     ## layout, static analysis, layers, symbols, scripts, spelling
	@tools/setup.sh lint
	@tools/lint $(BUILD)

asan: setup     ## tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory check BUILD=$(BUILD)-asan TESTS='--no-suite marker' \
		MESON_OPTIONS='-Db_sanitize=address,undefined'

tsan: setup     ## tests under ThreadSanitizer
	@$(MAKE) --no-print-directory check BUILD=$(BUILD)-tsan TESTS='--no-suite marker' \
		MESON_OPTIONS='-Db_sanitize=thread'

install: build  ## into PREFIX=/usr/local, below DESTDIR
	@DESTDIR=$(DESTDIR) $(LOCKED) sh -c 'meson configure $(BUILD) -Dprefix=$(PREFIX) && \
		ninja -C $(BUILD) && meson install --no-rebuild -C $(BUILD)'

format:         ## lay out all sources as .clang-format says
	@git ls-files '*.c' '*.h' '*.cc' | xargs clang-format -i

clean:          ## remove what was built
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz

.PHONY: help setup build check check-all guest demo real bench torture fuzz lint asan tsan install format clean
