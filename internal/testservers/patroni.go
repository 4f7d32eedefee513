package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patroni runs three servers of PostgreSQL, of which Patroni makes one the primary. It keeps the leader's lock in an
// etcd. A commit waits for a standby. The address is that of the primary.
type patroni struct{ postgres postgres }

const patroniNodes = 3

func (e patroni) version() release { return e.postgres.release }

// Packages: Debian's stable release has other versions.
func (patroni) Packages() []string { return nil }

func (e patroni) Find() error {
	for _, name := range []string{"initdb", "patroni", "python3", "etcd"} {
		if _, err := e.postgres.unpacked(name); err != nil {
			return err
		}
	}
	return nil
}

func (e patroni) Start(ctx context.Context, in *instance) (string, error) {
	etcd, err := e.postgres.unpacked("etcd")
	if err != nil {
		return "", err
	}
	names := []string{"etcd", "etcd-peer"}
	for k := range patroniNodes {
		names = append(names, fmt.Sprint("sql", k), fmt.Sprint("rest", k))
	}
	for _, name := range names {
		if _, err := in.port(ctx, name); err != nil {
			return "", err
		}
	}
	data := filepath.Join(in.home(), "data")
	if err := in.folder(data); err != nil {
		return "", err
	}
	client, peer := in.local("etcd"), in.local("etcd-peer")
	if err := in.background("etcd", etcd, "--data-dir="+filepath.Join(data, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls="+client, "--advertise-client-urls="+client, "--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer); err != nil {
		return "", err
	}
	for k := range patroniNodes {
		if err := e.node(in, k); err != nil {
			return "", err
		}
	}
	address, err := e.elected(ctx, in, -1)
	if err != nil {
		return "", err
	}
	return address, e.followed(ctx, in)
}

// local is the URL of the instance's port of that name.
func (in *instance) local(name string) string {
	return fmt.Sprintf("http://127.0.0.1:%d", in.lastPortOf(name))
}

func (patroni) address(in *instance, k int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", in.lastPortOf(fmt.Sprint("sql", k)))
}

// node starts a node's Patroni, which starts its server.
func (e patroni) node(in *instance, k int) error {
	path := filepath.Join(in.home(), nodeName(k)+".yml")
	text, err := json.MarshalIndent(e.configuration(in, k), "", " ") // which is YAML
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return err
	}
	python, err := e.postgres.unpacked("python3")
	if err != nil {
		return err
	}
	program, err := e.postgres.unpacked("patroni")
	if err != nil {
		return err
	}
	modules := filepath.Join(e.postgres.root(), "usr/lib/python3/dist-packages")
	return in.background(nodeName(k), "/usr/bin/env", "PYTHONPATH="+modules, python, program, path)
}

// configuration is what Patroni reads.
func (e patroni) configuration(in *instance, k int) map[string]any {
	rest := strings.TrimPrefix(in.local(fmt.Sprint("rest", k)), "http://")
	sql := fmt.Sprintf("127.0.0.1:%d", in.lastPortOf(fmt.Sprint("sql", k)))
	bin, _ := e.postgres.programs()
	user := map[string]any{"username": "postgres"}
	parameters := map[string]any{"max_connections": 300, "max_prepared_transactions": 50, "unix_socket_directories": ""}
	if in.fast {
		parameters["fsync"] = "off"
	}
	return map[string]any{
		"scope": "parley", "name": nodeName(k),
		"restapi": map[string]any{"listen": rest, "connect_address": rest},
		"etcd3":   map[string]any{"host": strings.TrimPrefix(in.local("etcd"), "http://")},
		"bootstrap": map[string]any{
			// The least that Patroni takes: a dead leader's lock lasts for 20 seconds.
			"dcs": map[string]any{"ttl": 20, "loop_wait": 2, "retry_timeout": 5,
				"synchronous_mode": true, "synchronous_mode_strict": true,
				"postgresql": map[string]any{"use_pg_rewind": true, "parameters": parameters}},
			"initdb": []any{map[string]any{"encoding": "UTF8"}, "no-locale", "no-sync"},
		},
		"postgresql": map[string]any{
			"listen": sql, "connect_address": sql, "data_dir": filepath.Join(in.home(), "data", nodeName(k)), "bin_dir": bin,
			"pgpass":         filepath.Join(in.home(), nodeName(k)+".pgpass"),
			"authentication": map[string]any{"superuser": user, "replication": user, "rewind": user},
			"pg_hba":         []string{"host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"},
			// What cannot be rewound is copied again.
			"remove_data_directory_on_rewind_failure": true, "remove_data_directory_on_diverged_timelines": true,
		},
	}
}

// ask returns what a node's Patroni answers.
func (patroni) ask(ctx context.Context, in *instance, k int, method, path, body string) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, in.local(fmt.Sprint("rest", k))+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// elected waits until another node than the old leader is the leader, and returns its server's address.
func (e patroni) elected(ctx context.Context, in *instance, old int) (string, error) {
	for end := time.Now().Add(3 * time.Minute); ; {
		for k := range patroniNodes {
			if k == old {
				continue
			}
			// As a proxy would ask.
			if status, _, err := e.ask(ctx, in, k, http.MethodGet, "/primary", ""); err == nil && status == http.StatusOK {
				return e.address(in, k), in.write("leader", strconv.Itoa(k))
			}
		}
		if time.Now().After(end) || sleep(ctx, 50*time.Millisecond) != nil {
			return "", fmt.Errorf("no leader%s", e.logs(in))
		}
	}
}

// followed waits until Patroni knows of a standby that takes part in commits, and of another one. Without the first
// one it would let no server follow the leader.
func (e patroni) followed(ctx context.Context, in *instance) error {
	leader, err := strconv.Atoi(in.read("leader"))
	if err != nil {
		return err
	}
	var text []byte
	if !gone(ctx, 3*time.Minute, func() bool {
		var cluster struct {
			Members []struct{ Role, State string }
		}
		_, text, err = e.ask(ctx, in, leader, http.MethodGet, "/cluster", "")
		if err != nil || json.Unmarshal(text, &cluster) != nil {
			return true
		}
		count := make(map[string]int)
		for _, m := range cluster.Members {
			count[m.Role]++
			count[m.State]++
		}
		return count["streaming"] != patroniNodes-1 || count["sync_standby"] == 0
	}) {
		return errors.Join(err, fmt.Errorf("no standbys follow: %s%s", text, e.logs(in)))
	}
	return nil
}

func (patroni) logs(in *instance) (text string) {
	for k := range patroniNodes {
		text += tail(filepath.Join(in.home(), nodeName(k)+".out"))
	}
	return text
}

// kill ends a node: Patroni first, which would start the server again.
func (patroni) kill(ctx context.Context, in *instance, k int) error {
	err := in.killAll(ctx, nodeName(k))
	postmaster := filepath.Join("data", nodeName(k), "postmaster.pid")
	if pid := in.pid(postmaster); pid != 0 {
		if e := kill(pid, "KILL"); e != nil || !gone(ctx, 10*time.Second, func() bool { return in.pid(postmaster) != 0 }) {
			err = errors.Join(err, fmt.Errorf("process %d does not end", pid))
		}
	}
	return err
}

// Failover implements successor.
func (e patroni) Failover(ctx context.Context, in *instance) (string, error) {
	lost, err := strconv.Atoi(in.read("leader"))
	if err != nil {
		return "", err
	}
	if err := errors.Join(in.write("lost", strconv.Itoa(lost)), e.kill(ctx, in, lost)); err != nil {
		return "", err
	}
	return e.elected(ctx, in, lost)
}

// Repair implements successor. Patroni makes a standby of the killed server.
func (e patroni) Repair(ctx context.Context, in *instance) error {
	lost, err := strconv.Atoi(in.read("lost"))
	if err != nil {
		return e.followed(ctx, in)
	}
	for _, name := range []string{"sql", "rest"} {
		if _, err := in.lastPort(ctx, fmt.Sprint(name, lost)); err != nil {
			return err
		}
	}
	if err := e.node(in, lost); err != nil {
		return err
	}
	return errors.Join(e.followed(ctx, in), os.Remove(in.file("lost")))
}

// Switchover implements switcher.
func (e patroni) Switchover(ctx context.Context, in *instance) (string, error) {
	old, err := strconv.Atoi(in.read("leader"))
	if err != nil {
		return "", err
	}
	// Patroni chooses a synchronous standby.
	status, text, err := e.ask(ctx, in, old, http.MethodPost, "/switchover", fmt.Sprintf(`{"leader": %q}`, nodeName(old)))
	if err != nil || status != http.StatusOK {
		return "", errors.Join(err, fmt.Errorf("no switchover: %d %s%s", status, text, e.logs(in)))
	}
	return e.elected(ctx, in, old)
}

// Running says whether any process is alive: what is left has to be stopped.
func (patroni) Running(in *instance) bool {
	for k := range patroniNodes {
		if in.pid(nodeName(k)+".pid") != 0 || in.pid(filepath.Join("data", nodeName(k), "postmaster.pid")) != 0 {
			return true
		}
	}
	return in.pid("etcd.pid") != 0
}

func (e patroni) Stop(ctx context.Context, in *instance) error {
	var errs []error
	for k := range patroniNodes {
		errs = append(errs, e.kill(ctx, in, k))
	}
	return errors.Join(append(errs, in.killAll(ctx, "etcd"))...)
}

func (e patroni) Version(ctx context.Context, address string) (string, error) {
	version, err := e.postgres.Version(ctx, address)
	return version + " under Patroni", err
}
