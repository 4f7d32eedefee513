package main

import (
	"time"

	"github.com/parleymq/parley"
)

// large is for handlers that take microseconds.
var large = parley.WorkerOptions{MaxBatch: 1000}

var systems = []*system{
	{name: "parley", engine: everywhere, open: parleyWith(parleyHow{worker: large}),
		settings: "MaxBatch 1000, as docs/performance.md says for handlers that take microseconds; lib/pq with binary_parameters, go-sql-driver/mysql with interpolateParams; pool of 32 connections"},
	{name: "parley-default", extra: true, engine: everywhere, open: parleyWith(parleyHow{}),
		settings: "the defaults of Options and WorkerOptions; lib/pq with binary_parameters; pool of 32 connections"},
	{name: "parley-single", extra: true, engine: onServers, open: parleyWith(parleyHow{worker: parley.WorkerOptions{MaxBatch: 1}}),
		settings: "as parley-default; MaxBatch 1"},
	{name: "parley-pgx", extra: true, engine: onPostgres, open: parleyWith(parleyHow{pgx: true, worker: large}),
		settings: "as parley, on pgx/stdlib"},
	{name: "parley-pgxpool", extra: true, engine: onPostgres, open: openPoolQueue,
		settings: "as parley, on a pgxpool of 40 connections (pgxstore); own rows in the pgx.Tx that is joined"},
	{name: "parley-batch", extra: true, engine: onPostgres, open: openBatchQueue,
		settings: "as parley-pgxpool; own rows and the post by InBatch"},
	{name: "parley-key", engine: everywhere, open: parleyWith(parleyHow{key: true}),
		settings: "posts with 1,000 keys"},
	{name: "parley-dialog", engine: everywhere, open: parleyWith(parleyHow{dialog: true}),
		settings: "messages on conversations, one for each sender, by Broker.Send"},
	{name: "parley-intx", extra: true, engine: onPostgres, open: parleyWith(parleyHow{inTx: true}),
		settings: "posts by Broker.InTx"},
	{name: "parley-joined", extra: true, engine: onPostgres, open: parleyWith(parleyHow{joined: true}),
		settings: "posts in a sql.Tx that is joined"},
	{name: "parley-none", engine: everywhere, open: parleyWith(parleyHow{worker: large, isolation: parley.IsolateBatch}),
		settings: "as parley; WorkerOptions.Isolation: IsolateBatch"},

	{name: "river", engine: onPostgres, open: riverWith(riverHow{workers: 2000, cooldown: time.Millisecond, poll: 20 * time.Millisecond}),
		settings: "pgx; MaxWorkers 2000, FetchCooldown 1 ms, FetchPollInterval 20 ms, as its page on benchmarks; InsertManyFast for batches; JobCompleteTx"},
	{name: "river-default", extra: true, engine: onPostgres, open: riverWith(riverHow{}),
		settings: "pgx; MaxWorkers 100, as in its examples, the rest as it is"},
	{name: "river-backlog", extra: true, engine: onPostgres, open: riverWith(riverHow{workers: 2000, cooldown: time.Millisecond, poll: 20 * time.Millisecond}),
		settings: "as river"},
	{name: "gue", engine: onPostgres, open: gueWith(gueHow{byRunAt: true, workers: 16, poll: time.Millisecond}),
		settings: "pgx; RunAtPollStrategy, 16 workers, poll 1 ms"},
	{name: "gue-default", extra: true, engine: onPostgres, open: gueWith(gueHow{}),
		settings: "pgx; PriorityPollStrategy, 10 workers, poll 5 s"},
	{name: "watermill", engine: onPostgres, open: watermillWith(watermillHow{size: 1000, poll: time.Millisecond}),
		settings: "lib/pq; SubscribeBatchSize 1000, PollInterval 1 ms; one subscriber, since a topic has one at a time"},
	{name: "watermill-backlog", extra: true, engine: onPostgres, open: watermillWith(watermillHow{size: 1000, poll: time.Millisecond}),
		settings: "as watermill"},
	{name: "watermill-default", extra: true, engine: onPostgres, open: watermillWith(watermillHow{}),
		settings: "lib/pq; SubscribeBatchSize 100, PollInterval 1 s"},
	{name: "watermill", engine: []string{"mysql", "mariadb"}, open: watermillWith(watermillHow{mysql: true, size: 1000, poll: time.Millisecond}),
		settings: "SubscribeBatchSize 1000, PollInterval 1 ms"},
	{name: "watermill-default", extra: true, engine: []string{"mysql", "mariadb"}, open: watermillWith(watermillHow{mysql: true}),
		settings: "SubscribeBatchSize 100, PollInterval 1 s"},

	{name: "goqite", engine: onSQLite, open: goqiteWith(goqiteHow{limit: 10, poll: time.Millisecond}),
		settings: "job runner with Limit 10, PollInterval 1 ms; one connection"},
	{name: "goqite-default", extra: true, engine: onSQLite, open: goqiteWith(goqiteHow{}),
		settings: "job runner with its defaults (PollInterval 100 ms)"},
	{name: "backlite", engine: onSQLite, open: backliteWith(100),
		settings: "NumWorkers 100; one connection"},

	{name: "raw", engine: onPostgres, open: rawWith("postgres", 1),
		settings: "lib/pq with binary_parameters; a table and DELETE … SKIP LOCKED RETURNING, one a transaction, 10 at once"},
	{name: "raw-pgx", extra: true, engine: onPostgres, open: rawWith("pgx", 1), settings: "the same on pgx/stdlib"},
	{name: "raw-100", engine: onPostgres, open: rawWith("postgres", 100), settings: "the same, 100 a transaction"},
	{name: "raw-groups", engine: onPostgres, open: openRawGroups,
		settings: "lib/pq with binary_parameters; a table of groups, whose rows are locked one at a time, one message a transaction, 10 at once"},
	{name: "raw", engine: onSQLite, open: rawWith("sqlite", 1), settings: "one connection, one a transaction"},
	{name: "raw-100", engine: onSQLite, open: rawWith("sqlite", 100), settings: "one connection, 100 a transaction"},
}
