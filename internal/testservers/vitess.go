package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// vitess runs vtcombo, which is a whole Vitess in one process, on another MySQL. Its addresses are those of
// the keyspaces below. vtcombo is built from a separate module, once for each version.
type vitess struct{ server mysql }

// keyspaces are by name, with the number of shards. The last one is there to be refused.
var keyspaces = []struct {
	name   string
	shards []string
}{{"parley", []string{"0"}}, {"other", []string{"0"}}, {"sharded", []string{"-80", "80-"}}}

// vitessModule returns the folder of that module, and Vitess's version in it.
func vitessModule() (folder, version string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/parleymq/parley").Output()
	if err != nil {
		return "", "", fmt.Errorf("the folder of the module is looked for: %w", err)
	}
	folder = filepath.Join(strings.TrimSpace(string(out)), "internal/testservers/vitess")
	out, err = goIn(context.Background(), folder, "list", "-m", "-f", "{{.Version}}", "vitess.io/vitess").Output()
	if err != nil {
		return "", "", fmt.Errorf("the version of Vitess is looked for: %w", err)
	}
	return folder, strings.TrimSpace(string(out)), nil
}

func goIn(ctx context.Context, folder string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	return cmd
}

// vtcombo is where the program is, once it was built.
func vtcombo() (path string, err error) {
	_, version, err := vitessModule()
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder(environment{get: os.Getenv})
	return filepath.Join(cache, "programs", "vitess-"+version, "vtcombo"), err
}

// version implements released.
func (v vitess) version() release { return v.server.version() }

// Packages implements engine.
func (v vitess) Packages() []string { return v.server.Packages() }

// Find implements engine.
func (v vitess) Find() error {
	if err := v.server.Find(); err != nil {
		return err
	}
	path, err := vtcombo()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("vtcombo was not built: %w", err)
	}
	return nil
}

// Build implements builder. It takes a minute or two, and the modules take 400 MB.
func (v vitess) Build(ctx context.Context, log io.Writer) error {
	path, err := vtcombo()
	if err != nil {
		return err
	}
	folder, _, err := vitessModule()
	if err != nil {
		return err
	}
	programs := filepath.Dir(filepath.Dir(path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	building, err := lock(ctx, filepath.Join(programs, "vitess.lock"))
	if err != nil {
		return err
	}
	defer building.Close()
	if _, err := os.Stat(path); err == nil {
		return nil // another process has
	}
	fmt.Fprintln(log, "testservers: building", path)
	cmd := goIn(ctx, folder, "build", "-buildvcs=false", "-o", path+".new", "vitess.io/vitess/go/cmd/vtcombo")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build vtcombo: %w: %s", err, out)
	}
	return os.Rename(path+".new", path)
}

// Start implements engine.
func (v vitess) Start(ctx context.Context, in *instance) (string, error) {
	port, err := in.port(ctx, "gate")
	if err != nil {
		return "", err
	}
	if _, err := v.server.Start(ctx, in); err != nil {
		return "", err
	}
	program, err := vtcombo()
	if err != nil {
		return "", err
	}
	topology, schemas, err := v.topology(in)
	if err != nil {
		return "", err
	}
	args := []string{"--json-topo", topology, "--schema-dir", schemas, "--db-charset", "utf8mb4",
		"--db-socket", "data/socket", // from the home: paths of sockets must not be long
		"--mysql-server-version", "8.4.6-Vitess", "--mysql-server-bind-address", "127.0.0.1", "--mysql-server-port", fmt.Sprint(port),
		"--mysql-auth-server-impl", "none", "--service-map", "grpc-vtgateservice,grpc-vtctld", "--tablet-types-to-wait", "PRIMARY",
		"--enable-system-settings", "--queryserver-config-schema-reload-time", "30m",
		// Tests open many handles. The limits of time stay as they are.
		"--queryserver-config-transaction-cap", "200", "--queryserver-config-pool-size", "200"}
	for _, user := range []string{"app", "dba", "allprivs", "appdebug", "repl", "filtered"} {
		args = append(args, "--db-"+user+"-user", "root")
	}
	for flag, name := range map[string]string{"--port": "web", "--grpc-port": "grpc"} {
		port, err := in.port(ctx, name)
		if err != nil {
			return "", err
		}
		args = append(args, flag, fmt.Sprint(port))
	}
	if err := in.background("vtcombo", program, args...); err != nil {
		return "", err
	}
	var addresses []string
	for _, k := range keyspaces {
		addresses = append(addresses, fmt.Sprintf("mysql://root@127.0.0.1:%d/%s", port, k.name))
	}
	return strings.Join(addresses, ","), in.answers(ctx, "vtcombo", addresses[0])
}

// topology writes what vtcombo reads of keyspaces.
func (v vitess) topology(in *instance) (topology, schemas string, err error) {
	type shard struct {
		Name string `json:"name"`
	}
	type keyspace struct {
		Name   string  `json:"name"`
		Shards []shard `json:"shards"`
	}
	schemas = filepath.Join(in.home(), "schemas")
	if err := in.folder(schemas); err != nil {
		return "", "", err
	}
	var list []keyspace
	for _, k := range keyspaces {
		x := keyspace{Name: k.name}
		for _, name := range k.shards {
			x.Shards = append(x.Shards, shard{name})
		}
		list = append(list, x)
		folder := filepath.Join(schemas, k.name)
		if err := in.folder(folder); err != nil {
			return "", "", err
		}
		text := fmt.Sprintf(`{"sharded": %t, "tables": {}}`, len(k.shards) > 1)
		if err := os.WriteFile(filepath.Join(folder, "vschema.json"), []byte(text), 0o644); err != nil {
			return "", "", err
		}
	}
	text, err := json.Marshal(map[string]any{"cells": []string{"test"}, "keyspaces": list})
	return string(text), schemas, err
}

// Running implements engine.
func (v vitess) Running(in *instance) bool { return in.pid("vtcombo.pid") != 0 || v.server.Running(in) }

// Stop implements engine.
func (v vitess) Stop(ctx context.Context, in *instance) error {
	return in.killAll(ctx, "vtcombo", "server")
}

// Version implements engine.
func (v vitess) Version(ctx context.Context, address string) (string, error) {
	first, _, _ := strings.Cut(address, ",")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	says, err := greeting(ctx, first)
	if err != nil {
		return "", err
	}
	_, version, err := vitessModule()
	return fmt.Sprintf("%s (vitess.io/vitess %s)", says, version), err
}
