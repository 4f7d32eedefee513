# make help says what there is. Every target that needs database servers gets
# them from internal/testservers, whose package comment says how.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
SERVERS     := .cache/testservers

# The race detector is for all but SQLite itself: C that was translated into Go, with
# locks of its own, on which it would spend most of the time.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# The race detector, which takes three times the processor time, is for what goroutines
# share: the library, the suite on the store in memory, and, by test-stress, the random
# load on every store. The rest runs without it: the backends of servers, the suite on
# SQLite, tests of single statements and of the suite itself.
RACED := . ./conformance ./internal/memstore ./backend/memory ./backend/sqlite
AGAIN := ^Test(Conformance|Backend.*|Plans|Statements|Mutants|PlainBackend)$$
PLAIN  = $$(go list ./... | grep -vxF "$$(go list $(RACED) ./backend/postgres/... ./internal/stress)")

# The same suites on PostgreSQL once more, by another driver and behind a pooler. Only make
# matrix runs them, since the tests are to take less than 25 minutes on two cores.
OTHER := ^TestConformance(Open|PGX|PGXPool|NativeLocksPGX|PgBouncer|Outside)$$|^TestBackend(PGX|Pool|Unprepared)$$|^TestWorkerPGX$$

# What make verify runs: these kill servers of their own.
LONG := ^Test(Faults|Galera)$$

# For single runs: make short PKG=./backend/... RUN=Claim
PKG   ?= ./...
RUN   ?= .
COUNT ?= 20

.PHONY: help site test test-beside test-race test-postgres test-plain test-stress verify verify-faults verify-galera matrix fuzz short lint budget cover conformance stress faults planted bench servers stop

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# PARLEY_TEST_FAST: throwaway servers need not survive a power cut, so they do
# not wait for the disk. -count=1: a cached result may come from another version of a
# server. -vet=off: lint has done that.
test: lint $(SERVERS) ## what must pass: lint, then the tests, on every server that can be had
	PARLEY_TEST_FAST=1 $(SERVERS) exec -- $(MAKE) --no-print-directory test-beside test-stress

# Two packages at a time, in two chains of about the same length: what works in this process
# and then PostgreSQL, beside MySQL, MariaDB and the rest.
test-beside:
	$(MAKE) --no-print-directory -j 2 test-postgres test-plain

# The random load wants the machine to itself: on one that is too busy, writers wait for each
# other for longer than they may.
test-stress:
	go test $(RACE) -vet=off -count=1 -timeout 15m ./internal/stress

test-race:
	go test $(RACE) -vet=off -count=1 -p 1 -parallel 4 -timeout 25m -skip '$(AGAIN)' $(RACED)
	go test -vet=off -count=1 -timeout 25m -run '$(AGAIN)' ./backend/sqlite

test-postgres: test-race
	go test -vet=off -count=1 -p 1 -parallel 4 -timeout 25m -skip '$(OTHER)' ./backend/postgres/...
	go test -vet=off -count=1 -timeout 25m -run '$(AGAIN)' ./conformance
	cd examples/backend-bolt && go test -count=1 -timeout 5m ./...

test-plain:
	go test -vet=off -count=1 -p 1 -parallel 4 -timeout 25m -skip '$(LONG)' $(PLAIN)
	cd examples/libraries && go test -vet=off -count=1 -timeout 5m ./...
	cd docs/site && go test -count=1 -timeout 5m ./...

verify: verify-faults verify-galera ## what takes longer than a change should wait for, a part after the other

# The first line fetches the servers, which the test itself does not.
verify-faults: $(SERVERS) ## short runs of the faults, on each engine
	PARLEY_TEST_FAST=1 $(SERVERS) exec -- true
	go test -vet=off -count=1 -timeout 15m -run '^TestFaults$$' -v ./internal/faults

verify-galera: $(SERVERS) ## a cluster of Galera, whose nodes are killed
	PARLEY_TEST_FAST=1 $(SERVERS) exec -only mariadb -- go test -vet=off -count=1 -timeout 15m -run '^TestGalera$$' -v ./backend/mysql

matrix: $(SERVERS) ## the backends' tests on every version of a server that can be had, a line for each (ONLY=)
	@PARLEY_TEST_FAST=1 $(SERVERS) matrix -logs .cache/matrix $(ONLY)

short: ## a quick look: tests marked long left out, no race detector, no servers but your own (PKG=, RUN=)
	go test -short -timeout 5m -run '$(RUN)' $(PKG)

# staticcheck comes from the network the first time. Without it the rest still
# says something; STRICT=1 makes its absence a failure.
lint: ## gofmt, go vet, staticcheck, the limits of functions and files
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "gofmt would change:" $$files >&2; exit 1; fi
	go vet ./...
	cd bench && go vet ./...
	cd docs/site && go vet ./...
	go test -vet=off -run '^TestLimits$$' .
	@if [ -n "$(STRICT)" ] || go run $(STATICCHECK) -version >/dev/null 2>&1; then \
		echo go run $(STATICCHECK) ./... && go run $(STATICCHECK) ./...; \
	else echo "lint: staticcheck cannot be had now, so it is left out" >&2; fi

budget: ## lines of the product by room, and what each room may have
	@go run ./internal/budget

cover: $(SERVERS) ## test coverage over all packages, in .cache/cover.out
	$(SERVERS) exec -- go test -timeout 20m -coverpkg=./... -coverprofile=.cache/cover.out ./...
	@go tool cover -func=.cache/cover.out | tail -n 1

conformance: $(SERVERS) ## the conformance suite by command, on each engine
	go run ./cmd/parley conformance --db "sqlite:$$(mktemp -d)/conformance.db"
	PARLEY_TEST_REQUIRE=postgres $(SERVERS) exec -only postgres -- \
		sh -c 'exec go run ./cmd/parley conformance --db "$$PARLEY_TEST_POSTGRES"'
	PARLEY_TEST_REQUIRE=mariadb,mysql $(SERVERS) exec -only mariadb,mysql -- \
		sh -c 'go run ./cmd/parley conformance --db "$$PARLEY_TEST_MARIADB" && exec go run ./cmd/parley conformance --db "$$PARLEY_TEST_MYSQL"'

stress: $(SERVERS) ## the same tests again and again with the race detector, to the first failure (PKG=, RUN=, COUNT=)
	$(SERVERS) exec -- go test $(RACE) -failfast -timeout 0 -count=$(COUNT) -run '$(RUN)' $(PKG)

FUZZTIME ?= 30s

fuzz: ## each fuzz target for a while (FUZZTIME=)
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$file); do \
			echo "$$(dirname $$file) $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$(dirname $$file) || exit 1; \
		done; \
	done

# On servers of its own, which it kills. The disk takes root to make, and is left out
# without. Servers with a standby and those whose clock steps back have short runs.
FAULTS := --testservers $(SERVERS) --limit 1h
SHORT  := --operations 10000 --faults 30
faults: $(SERVERS) ## programs and servers that are killed, stopped and cut off, on each engine, for an hour and more (FAULTS=)
	go build -o .cache/faults ./internal/faults
	@code=0; for e in sqlite postgres mysql mariadb; do \
		.cache/faults --server $$e --disk 2G --operations 200000 --faults 300 $(FAULTS) || code=1; \
	done; \
	for e in postgres mysql mariadb; do \
		.cache/faults --server $$e --clock --only clock,kill $(SHORT) $(FAULTS) || code=1; \
	done; \
	for e in postgres-pair galera; do \
		.cache/faults --server $$e $(SHORT) $(FAULTS) || code=1; \
	done; exit $$code

planted: $(SERVERS) ## bugs that are put into the source, each of which the faults have to bring to light (BUG=: one of them)
	go run ./internal/faults/planted --testservers $(SERVERS) $(if $(BUG),"$(BUG)")

site: ## the documentation as a website, in .cache/site; it needs no network to be read
	@cd docs/site && go run . -out ../../.cache/site

bench: ## Parley beside other queues, on PostgreSQL and SQLite, some minutes (BENCH=: flags instead of -quick)
	cd bench && go run . $(or $(BENCH),-quick)

servers: $(SERVERS) ## start servers that stay up, which makes the other targets quicker, and print their variables
	@$(SERVERS) start

stop: $(SERVERS) ## stop them
	@$(SERVERS) stop

# Built and not run by "go run", which does not hand signals down. Always
# asked for, since go build knows best what has changed.
.PHONY: $(SERVERS)
$(SERVERS):
	@go build -buildvcs=false -o $@ ./internal/testservers
