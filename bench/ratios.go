package main

// bar is something that is promised: a ratio and what it must at least be.
type bar struct {
	name  string
	bar   float64
	value func(r *report) float64
}

// bars are all of them. Names stay as they are: others compare runs by them. A
// bar whose systems were not measured has the value 0.
var bars = []bar{
	over("postgres.drain.river", 2, "postgres", "drain", "parley", "river"),
	over("postgres.drain.gue", 8, "postgres", "drain", "parley", "gue"),
	over("postgres.drain.watermill", 0.9, "postgres", "drain", "parley", "watermill"),

	over("postgres.drain-row.river", 4, "postgres", "drainrow", "parley", "river"),
	over("postgres.drain-row.gue", 1.5, "postgres", "drainrow", "parley", "gue"),
	over("postgres.drain-row.watermill", 1, "postgres", "drainrow", "parley", "watermill"),
	over("postgres.drain-row-unisolated.river", 6, "postgres", "drainrow", "parley-none", "river"),
	over("postgres.drain-row-unisolated.gue", 2.5, "postgres", "drainrow", "parley-none", "gue"),
	over("postgres.drain-row-unisolated.watermill", 1.6, "postgres", "drainrow", "parley-none", "watermill"),

	over("postgres.drain-hot.single", 1/1.3, "postgres", "drainhot", "parley-default", "parley-single"),
	over("mysql.drain-hot.single", 1/1.3, "mysql", "drainhot", "parley-default", "parley-single"),
	over("mariadb.drain-hot.single", 1/1.3, "mariadb", "drainhot", "parley-default", "parley-single"),

	over("postgres.send-1.raw", 0.85, "postgres", "send1", "parley", "raw"),
	over("postgres.send-16.raw", 0.85, "postgres", "send16", "parley", "raw"),
	over("postgres.send-16.river", 1.5, "postgres", "send16", "parley", "river"),
	over("postgres.send-dialog-1.raw", 0.7, "postgres", "send1", "parley-dialog", "raw"),
	over("postgres.send-dialog-16.raw", 0.7, "postgres", "send16", "parley-dialog", "raw"),
	over("postgres.joined-16.intx", 0.85, "postgres", "send16", "parley-joined", "parley-intx"),
	over("postgres.send-key-1.raw", 0.7, "postgres", "send1", "parley-key", "raw"),
	over("postgres.send-key-16.raw", 0.7, "postgres", "send16", "parley-key", "raw"),

	over("postgres.batch-100.gue", 1, "postgres", "batch100", "parley", "gue"),
	over("postgres.both.river", 1.5, "postgres", "both", "parley", "river"),
	over("postgres.both.watermill", 1, "postgres", "both", "parley", "watermill"),

	flat("postgres.dialog-new.kept", 0.6, "postgres", "dialog-new", "dialog-kept"),
	within("postgres.latency-p50", 2, "postgres", "latency2", false),
	within("postgres.latency-p99", 10, "postgres", "latency2", true),

	over("postgres.ordered.watermill", 0.8, "postgres", "ordered", "parley", "watermill"),
	over("postgres.ordered.raw", 10, "postgres", "ordered", "parley", "raw-groups"),
	flat("postgres.backlog-500k", 0.8, "postgres", "backlog500k", "backlog10k"),

	flat("postgres.flat-million", flatBar, "postgres", "claim1m", "claim1k"),
	flat("postgres.flat-locked", flatBar, "postgres", "locked1000", "claim1k"),
	flat("postgres.flat-hot", flatBar, "postgres", "hot100k", "hot1k"),
	itself("postgres.flat-snapshot", 0.5, "postgres", "snapshot60"),

	over("mariadb.drain.watermill", 3, "mariadb", "drain", "parley", "watermill"),
	over("mariadb.drain-row.watermill", 4, "mariadb", "drainrow", "parley", "watermill"),
	flat("mariadb.flat-million", flatBar, "mariadb", "claim1m", "claim1k"),
	flat("mariadb.flat-locked", flatBar, "mariadb", "locked1000", "claim1k"),
	flat("mariadb.flat-hot", flatBar, "mariadb", "hot100k", "hot1k"),
	over("mariadb.send-key-16.send", 0.6, "mariadb", "send16", "parley-key", "parley"),
	flat("mariadb.dialog-new.kept", 0.6, "mariadb", "dialog-new", "dialog-kept"),
	within("mariadb.latency-processes-p50", 15, "mariadb", "latency2", false),
	within("mariadb.idle", 0.5, "mariadb", "idle", false),
	over("mysql.drain.watermill", 3, "mysql", "drain", "parley", "watermill"),
	over("mysql.drain-row.watermill", 4, "mysql", "drainrow", "parley", "watermill"),
	flat("mysql.flat-million", flatBar, "mysql", "claim1m", "claim1k"),
	flat("mysql.flat-locked", flatBar, "mysql", "locked1000", "claim1k"),
	flat("mysql.flat-hot", flatBar, "mysql", "hot100k", "hot1k"),

	over("mysql.send-key-16.send", 0.6, "mysql", "send16", "parley-key", "parley"),
	flat("mysql.dialog-new.kept", 0.6, "mysql", "dialog-new", "dialog-kept"),
	within("mysql.latency-processes-p50", 15, "mysql", "latency2", false),
	within("mysql.idle", 0.5, "mysql", "idle", false),
	over("sqlite.send-1.backlite", 0.7, "sqlite", "send1", "parley", "backlite"),
	over("sqlite.send-1.goqite", 1.3, "sqlite", "send1", "parley", "goqite"),
	over("sqlite.send-16.backlite", 0.7, "sqlite", "send16", "parley", "backlite"),
	over("sqlite.send-16.goqite", 1.3, "sqlite", "send16", "parley", "goqite"),
	over("sqlite.send-key-16.send", 0.6, "sqlite", "send16", "parley-key", "parley"),
	flat("sqlite.dialog-new.kept", 0.6, "sqlite", "dialog-new", "dialog-kept"),
	over("sqlite.drain.backlite", 2.5, "sqlite", "drain", "parley", "backlite"),
	over("sqlite.drain-row.goqite", 3, "sqlite", "drainrow", "parley", "goqite"),
	over("sqlite.both.backlite", 1.2, "sqlite", "both", "parley", "backlite"),
	itself("sqlite.keeps-up", 0.95, "sqlite", "keepsup"),
	within("sqlite.latency-p50", 1, "sqlite", "latency", false),
	within("sqlite.latency-processes-p50", 15, "sqlite", "latency2", false),
	flat("sqlite.flat-million", flatBar, "sqlite", "claim1m", "claim1k"),
	flat("sqlite.flat-locked", flatBar, "sqlite", "locked1000", "claim1k"),
	flat("sqlite.flat-hot", flatBar, "sqlite", "hot100k", "hot1k"),
}

// flatBar: what grows may make it 1.5 times as slow.
const flatBar = 1 / 1.5

// over is how many times as fast one system is as another.
func over(name string, min float64, engine, row, ours, theirs string) bar {
	return bar{name, min, func(r *report) float64 {
		return divide(r.median(engine, row, ours), r.median(engine, row, theirs))
	}}
}

// within is how many times a latency fits into its limit in ms, or a load in percent.
func within(name string, limit float64, engine, row string, p99 bool) bar {
	return bar{name, 1, func(r *report) float64 {
		v := r.median(engine, row, "parley")
		if p99 {
			v = r.medianP99(engine, row, "parley")
		}
		return divide(limit, v)
	}}
}

// flat is what is left of Parley's speed when there is more of something.
func flat(name string, min float64, engine, much, little string) bar {
	return bar{name, min, func(r *report) float64 {
		return divide(r.median(engine, much, "parley"), r.median(engine, little, "parley"))
	}}
}

// itself is for rows whose value is a ratio.
func itself(name string, min float64, engine, row string) bar {
	return bar{name, min, func(r *report) float64 { return r.median(engine, row, "parley") }}
}

func divide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
