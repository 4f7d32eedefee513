package main

// controls are runs in which nothing may be found: what bugs change besides, and clocks that are wrong. Go asks the kernel
// for the time by itself, so the clock is that of a changed package time. Histories keep the right time.
var controls = []bug{
	{name: "seldom a look", server: "postgres", flags: []string{"--only", "lag"},
		env: "PARLEY_FAULTS_KINDS=dialogs", sound: true, changes: seldom},
	{name: "slow commits", server: "postgres", flags: []string{"--only", "kill"}, sound: true, changes: slowly},
	{name: "early snapshots", server: "postgres", flags: []string{"--only", "kill"},
		env: "PARLEY_FAULTS_KINDS=posts,shared", sound: true, changes: earlySnapshots},
	{name: "long stops", server: "postgres", flags: []string{"--only", "stop", "--faults", "2", "--drain", "10s"},
		env: "PARLEY_FAULTS_KINDS=posts", sound: true, changes: longStops},
	{name: "clocks an hour apart", server: "postgres", env: "PARLEY_FAULTS_CLOCK=apart", sound: true, changes: wrongClock},
	{name: "clocks an hour apart", server: "mariadb", env: "PARLEY_FAULTS_CLOCK=apart", sound: true, changes: wrongClock},
	// There the clock of the programs is that of the database. A program that begins after a step is behind the others,
	// which wait at their last instant, by two seconds at most.
	{name: "clock steps back", server: "sqlite", flags: []string{"--slack", "2s"}, env: "PARLEY_FAULTS_CLOCK=back", sound: true, changes: wrongClock},
}

// seldom has receivers look by themselves too seldom to hide that they are not told.
var seldom = []change{
	{file: "internal/faults/program.go", old: "Poll: 200 * time.Millisecond", new: "Poll: 10 * time.Minute"},
}

// longStops has stopped programs hold what they have for longer than nothing may be settled. They hold single
// groups in transactions, which then stand at the head of the order.
var longStops = []change{
	{file: "internal/faults/program.go", old: "lease   = 2 * time.Second", new: "lease   = 12 * time.Second"},
	{file: "internal/faults/program.go", old: "MaxBatch:    []int{0, 0, 1, 5}[random.IntN(4)]", new: "MaxBatch: 1"},
	{file: "internal/faults/program.go",
		old: "[]parley.Hold{parley.HoldDefault, parley.HoldDefault, parley.HoldLease}[random.IntN(3)]", new: "parley.HoldDefault"},
}

// slowly has senders wait before they commit, so that more of them are open when others finish.
var slowly = []change{
	{file: "broker.go", old: "	over = true\n	return fail(\"commit\"", new: "	over = true\n	time.Sleep(5 * time.Millisecond)\n	return fail(\"commit\""},
}

// earlySnapshots has transactions read something a moment before they do their work.
var earlySnapshots = []change{
	{file: "backend/postgres/transaction.go",
		old: "	return &transaction{p: p, tx: tx, cancel: cancel}, nil\n",
		new: `	if _, err := tx.ExecContext(ctx, "SELECT 1"); err != nil {
		tx.Rollback()
		cancel()
		return nil, refused(ctx, err)
	}
	time.Sleep(5 * time.Millisecond)
	return &transaction{p: p, tx: tx, cancel: cancel}, nil
`},
	{file: "backend/postgres/transaction.go", old: "	\"errors\"\n", new: "	\"errors\"\n	\"time\"\n"},
}

var wrongClock = []change{
	{file: "GOROOT/src/time/time.go",
		old: "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unix",
		new: "	sec, nsec, mono := runtimeNow()\n	sec += faultsStep()\n	if mono == 0 {\n		return Time{uint64(nsec), sec + unix"},
	{file: "GOROOT/src/time/faults.go", new: `package time

import "syscall"

var faultsClock = func() string {
	mode, _ := syscall.Getenv("PARLEY_FAULTS_CLOCK")
	return mode
}()

var faultsChild = func() bool {
	_, child := syscall.Getenv("PARLEY_FAULTS_PROGRAM")
	return child
}()

// faultsStep is how many seconds the clock is wrong. The steps back are at the same
// moment in all processes.
func faultsStep() int64 {
	switch {
	case faultsClock == "back":
		return -2 * (runtimeNano() / 8e9)
	case faultsClock == "apart" && faultsChild:
		return int64(syscall.Getpid()%3-1) * 3600
	}
	return 0
}

// FaultsNow is the right time.
func FaultsNow() Time { return Now().Add(Duration(-faultsStep()) * Second) }
`},
	{file: "internal/faults/history.go", old: "e.At = time.Now()", new: "e.At = time.FaultsNow()"},
	{file: "internal/faults/load_operators.go", old: "Since: time.Now()", new: "Since: time.FaultsNow()"},
}
