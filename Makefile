# make help says what there is. Every target that needs database servers gets
# them from internal/testservers, whose package comment says how.

STATICCHECK := go tool -modfile=internal/tools/go.mod staticcheck
SERVERS     := .cache/testservers

# For "make stress". internal/testservers/parts.go says what make test and make verify run.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# For single runs: make short PKG=./backend/... RUN=Claim
PKG   ?= ./...
RUN   ?= .
COUNT ?= 20

.PHONY: help fetch site test verify matrix fuzz short lint cover conformance stress faults planted bench servers stop

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

MODULES := . bench console/browsertest docs/site examples/backend-bolt examples/libraries internal/tools

# What a run needs is there before it begins, or it does not begin.
fetch:
	@command -v $$(go env CC) >/dev/null || { echo "make: the race detector needs a C compiler: on Debian, apt-get install gcc libc6-dev" >&2; exit 1; }
	@for m in $(MODULES); do \
		for try in 1 2 3 no; do \
			[ $$try != no ] || { echo "make: the modules of $$m cannot be fetched: is there a network, or a GOPROXY?" >&2; exit 1; }; \
			(cd $$m && timeout 300 go mod download) && break; \
		done; \
	done

# PARLEY_TEST_FAST: throwaway servers need not survive a power cut, so they do
# not wait for the disk.
test: fetch lint $(SERVERS) ## what must pass: lint, then the tests on every available server
	@PARLEY_TEST_FAST=1 $(SERVERS) test gate

VERIFY := mutants faults drivers locks upgrades pools console standby galera group patroni vitess

verify: $(SERVERS) ## the longer checks, part after part; make verify-PART runs one part
	@PARLEY_TEST_FAST=1 $(SERVERS) test $(VERIFY)

verify-%: $(SERVERS)
	@PARLEY_TEST_FAST=1 $(SERVERS) test $*

matrix: $(SERVERS) ## the backends' tests on every available server version, one line each (ONLY=)
	@PARLEY_TEST_FAST=1 $(SERVERS) matrix -logs .cache/matrix $(ONLY)

short: ## a quick look: no long tests, no race detector, no servers except yours (PKG=, RUN=)
	go test -short -timeout 5m -run '$(RUN)' $(PKG)

lint: ## gofmt, go vet, staticcheck, the limits of functions and files
	@files=$$(gofmt -l .) && if [ -n "$$files" ]; then echo "gofmt would change:" $$files >&2; exit 1; fi
	go vet ./...
	cd bench && go vet ./...
	cd console/browsertest && go vet ./...
	cd docs/site && go vet ./...
	go test -vet=off -run '^TestLimits$$' .
	$(STATICCHECK) ./...

cover: $(SERVERS) ## test coverage over all packages, in .cache/cover.out
	$(SERVERS) exec -- go test -timeout 20m -coverpkg=./... -coverprofile=.cache/cover.out ./...
	@go tool cover -func=.cache/cover.out | tail -n 1

conformance: $(SERVERS) ## the conformance suite, run by the command, on each engine
	go run ./cmd/parley conformance --db "sqlite:$$(mktemp -d)/conformance.db"
	PARLEY_TEST_REQUIRE=postgres $(SERVERS) exec -only postgres -- \
		sh -c 'exec go run ./cmd/parley conformance --db "$$PARLEY_TEST_POSTGRES"'
	PARLEY_TEST_REQUIRE=mariadb,mysql $(SERVERS) exec -only mariadb,mysql -- \
		sh -c 'go run ./cmd/parley conformance --db "$$PARLEY_TEST_MARIADB" && exec go run ./cmd/parley conformance --db "$$PARLEY_TEST_MYSQL"'

stress: $(SERVERS) ## repeat tests with the race detector until the first failure (PKG=, RUN=, COUNT=)
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
RECORD := --record internal/faults/testdata/slices.jsonl
faults: $(SERVERS) ## kill, stop and cut off programs and servers on each engine, for an hour or more (FAULTS=)
	go build -o .cache/faults ./internal/faults
	@code=0; for e in sqlite postgres mysql mariadb; do \
		.cache/faults --server $$e --disk 2G --operations 200000 --faults 300 $(RECORD) $(FAULTS) || code=1; \
	done; \
	for e in postgres mysql mariadb; do \
		.cache/faults --server $$e --clock --only clock,kill $(SHORT) $(FAULTS) || code=1; \
	done; \
	for e in postgres-pair postgres-patroni mysql-group galera; do \
		.cache/faults --server $$e $(SHORT) $(RECORD) $(FAULTS) || code=1; \
	done; exit $$code

planted: $(SERVERS) ## plant bugs in the source, each of which the faults must find (BUG=: one of them)
	go run ./internal/faults/planted --testservers $(SERVERS) $(if $(BUG),"$(BUG)")

site: ## the documentation as a website in .cache/site, readable offline
	@cd docs/site && go run . -out ../../.cache/site

bench: ## Parley beside other queues on PostgreSQL and SQLite, for some minutes (BENCH=: flags instead of -quick)
	cd bench && go run . $(or $(BENCH),-quick)

servers: $(SERVERS) ## start servers that stay up, which makes other targets faster, and print their variables
	@$(SERVERS) start

stop: $(SERVERS) ## stop these servers
	@$(SERVERS) stop

# Built and not run by "go run", which does not hand signals down. Always
# asked for, since go build knows best what has changed.
.PHONY: $(SERVERS)
$(SERVERS):
	@go build -buildvcs=false -o $@ ./internal/testservers
