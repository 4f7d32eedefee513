package main

// section is a part of the table of contents. A page is a file of the repository.
type section struct {
	title string
	pages []entry
}

type entry struct{ title, file string }

// contents is the table of contents, by what a reader wants to do.
var contents = []section{
	{"Start", []entry{
		{"What Parley is", "README.md"},
		{"Ten minutes on SQLite", "docs/start/sqlite.md"},
		{"Ten minutes on PostgreSQL", "docs/start/postgres.md"},
		{"Ten minutes on MySQL and MariaDB", "docs/start/mysql.md"},
		{"Ten minutes on SQL Server", "docs/start/sqlserver.md"},
		{"Which database for what", "docs/choosing.md"},
		{"Beside other queues", "docs/comparison.md"},
	}},
	{"Coming from", []entry{
		{"River", "docs/coming-from/river.md"},
		{"Asynq", "docs/coming-from/asynq.md"},
		{"Watermill", "docs/coming-from/watermill.md"},
		{"Oban, Sidekiq", "docs/coming-from/oban-sidekiq.md"},
		{"Service Broker", "docs/coming-from/service-broker.md"},
	}},
	{"Write programs", []entry{
		{"Recipes", "docs/recipes.md"},
		{"Patterns", "docs/patterns.md"},
		{"Workers", "docs/workers.md"},
		{"Testing your handlers", "docs/testing.md"},
		{"Recurring jobs", "docs/recurring.md"},
		{"Phases and locks", "docs/phases.md"},
		{"Recycled dialogs", "docs/recycling.md"},
		{"Tenants", "docs/tenants.md"},
		{"Examples", "examples/README.md"},
	}},
	{"Operate", []entry{
		{"The command", "docs/command.md"},
		{"Deploying and upgrading", "docs/deploying.md"},
		{"Kubernetes", "docs/kubernetes.md"},
		{"The console", "docs/console.md"},
		{"Monitoring", "docs/monitoring.md"},
		{"What doctor finds", "docs/doctor.md"},
		{"Sizing", "docs/sizing.md"},
		{"Past one machine", "docs/scale.md"},
		{"Security", "docs/security.md"},
	}},
	{"Know more", []entry{
		{"What is guaranteed", "docs/semantics.md"},
		{"Reliability", "docs/reliability.md"},
		{"Performance", "docs/performance.md"},
		{"Backends", "docs/backends.md"},
		{"Conformance", "docs/conformance.md"},
		{"Architecture", "docs/architecture.md"},
		{"Writing a backend", "docs/writing-a-backend.md"},
		{"Decisions", "docs/decisions/README.md"},
		{"Contributing", "CONTRIBUTING.md"},
		{"Changes", "CHANGELOG.md"},
		{"Old and new names", "docs/renames.md"},
	}},
}

// repository is where links to files that are no pages lead.
const repository = "https://github.com/parleymq/parley/blob/main/"
