package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// galera runs a cluster of three nodes of MariaDB, for the one test that wants
// it. The variable has the three addresses with commas between.
type galera struct{}

const galeraNodes = 3

// Packages: rsync, lsof and socat carry the data to a node that joins.
func (galera) Packages() []string {
	return append(mariadb{}.Packages(), "galera-4", "rsync", "lsof", "socat")
}

func (galera) Find() error {
	if err := (mariadb{}).Find(); err != nil {
		return err
	}
	for _, name := range []string{"mariadb", "rsync", "lsof"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("no %s in PATH", name)
		}
	}
	if _, err := galeraScripts(); err != nil {
		return err
	}
	_, err := galeraProvider()
	return err
}

// galeraScripts is the folder with the scripts that bring a node its data. Some
// versions have them in the package with the service, of which nothing else is
// wanted: then they are in the cache folder.
func galeraScripts() (string, error) {
	if path, err := serverProgram("wsrep_sst_rsync"); err == nil {
		return filepath.Dir(path), nil
	}
	cache, err := cacheFolder(environment{get: os.Getenv})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "programs", "galera", "usr", "bin")
	if _, err := os.Stat(filepath.Join(dir, "wsrep_sst_rsync")); err != nil {
		return "", errors.New("no wsrep_sst_rsync in PATH, /usr/sbin or the cache folder")
	}
	return dir, nil
}

// Fetch implements fetcher.
func (g galera) Fetch(ctx context.Context, log io.Writer) error {
	if err := installDebian(ctx, log, g.Packages()); err != nil {
		return err
	}
	if _, err := galeraScripts(); err == nil {
		return nil
	}
	cache, err := cacheFolder(environment{get: os.Getenv})
	if err != nil {
		return err
	}
	root := filepath.Join(cache, "programs", "galera")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	fetching, err := lock(ctx, root+".lock")
	if err != nil {
		return err
	}
	defer fetching.Close()
	for _, command := range [][]string{{"apt-get", "-qq", "download", "mariadb-server"}, {"sh", "-c", "dpkg-deb -x mariadb-server_*.deb . && rm mariadb-server_*.deb"}} {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%q: %w: %s", command, err, out)
		}
	}
	return nil
}

func galeraProvider() (string, error) {
	found, _ := filepath.Glob("/usr/lib*/galera*/libgalera_smm.so")
	if len(found) == 0 {
		return "", errors.New("no libgalera_smm.so in /usr/lib/galera")
	}
	return found[0], nil
}

func nodeName(k int) string { return fmt.Sprintf("node%d", k) }

func (galera) Start(ctx context.Context, in *instance) (string, error) {
	provider, err := galeraProvider()
	if err != nil {
		return "", err
	}
	scripts, err := galeraScripts()
	if err != nil {
		return "", err
	}
	in.path = scripts
	ports := make(map[string]int)
	for k := range galeraNodes {
		for _, what := range []string{"sql", "group", "ist", "sst"} {
			name := fmt.Sprint(what, k)
			if ports[name], err = in.port(ctx, name); err != nil {
				return "", err
			}
		}
	}
	var peers, addresses []string
	for k := range galeraNodes {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", ports[fmt.Sprint("group", k)]))
		addresses = append(addresses, mysqlAddress(ports[fmt.Sprint("sql", k)]))
	}
	for k := range galeraNodes {
		data := filepath.Join(in.home(), "data", nodeName(k))
		cluster := "gcomm://"
		if k == 0 {
			if err := in.folder(filepath.Join(in.home(), "data")); err != nil {
				return "", err
			}
			if err := (mariadb{}).init(ctx, in, data); err != nil {
				return "", err
			}
		} else {
			// The files of the first node will come; the empty folder keeps the
			// server from complaining that there are none.
			cluster += strings.Join(peers, ",")
			for _, dir := range []string{data, filepath.Join(data, "mysql")} {
				if err := in.folder(dir); err != nil {
					return "", err
				}
			}
		}
		group, ist, sst := ports[fmt.Sprint("group", k)], ports[fmt.Sprint("ist", k)], ports[fmt.Sprint("sst", k)]
		err := (mariadb{}).run(in, nodeName(k), data, ports[fmt.Sprint("sql", k)],
			"--wsrep-on=ON", "--wsrep-provider="+provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-cluster-name=parley", "--wsrep-cluster-address="+cluster, "--wsrep-node-name="+nodeName(k),
			"--wsrep-node-address="+peers[k], "--wsrep-sst-method=rsync",
			fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", sst),
			fmt.Sprintf("--wsrep-provider-options=base_host=127.0.0.1;base_port=%d;gmcast.listen_addr=tcp://127.0.0.1:%[1]d;ist.recv_addr=127.0.0.1:%d;gcache.size=64M;pc.recovery=false", group, ist))
		if err != nil {
			return "", err
		}
		// One after the other: a node that is giving its data away takes no third.
		if err := in.synced(ctx, k, ports[fmt.Sprint("sql", k)]); err != nil {
			return "", err
		}
	}
	return strings.Join(addresses, ","), nil
}

// folder makes a folder that belongs to the server's user.
func (in *instance) folder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return handOver(path)
}

// synced waits until node k, and with it those before, belongs to the cluster.
func (in *instance) synced(ctx context.Context, k, port int) error {
	want := fmt.Sprintf("%d Synced", k+1)
	state, end := "", time.Now().Add(90*time.Second)
	for {
		cmd := exec.CommandContext(ctx, "mariadb", "--no-defaults", "--connect-timeout=5", "-h", "127.0.0.1", "-P", fmt.Sprint(port), "-u", "root", "-N", "-B", "-e",
			"SHOW STATUS WHERE variable_name IN ('wsrep_cluster_size', 'wsrep_local_state_comment')")
		out, _ := cmd.Output()
		var values []string
		for line := range strings.Lines(string(out)) {
			if _, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				values = append(values, value)
			}
		}
		slices.Sort(values)
		if state = strings.Join(values, " "); state == want {
			return nil
		}
		log := filepath.Join(in.home(), nodeName(k)+".out")
		if in.pid(nodeName(k)+".pid") == 0 {
			return fmt.Errorf("node %d has ended%s", k, tail(log))
		}
		if time.Now().After(end) || sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("node %d is %q and not %q%s", k, state, want, tail(log))
		}
	}
}

// Running says whether any node is alive: what is left has to be stopped.
func (galera) Running(in *instance) bool {
	for k := range galeraNodes {
		if in.pid(nodeName(k)+".pid") != 0 {
			return true
		}
	}
	return false
}

func (galera) Stop(ctx context.Context, in *instance) error {
	var names []string
	for k := range galeraNodes {
		names = append(names, nodeName(k))
	}
	return in.killAll(ctx, names...)
}

func (galera) Version(ctx context.Context, address string) (string, error) {
	first, _, _ := strings.Cut(address, ",")
	version, err := greeting(ctx, first)
	return version + " with Galera", err
}
