module github.com/parleymq/parley/examples/backend-bolt

go 1.26.0

require (
	github.com/parleymq/parley v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require (
	github.com/netresearch/go-cron v0.9.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/parleymq/parley => ../..
