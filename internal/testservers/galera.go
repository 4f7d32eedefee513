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
	"strconv"
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

// nodePorts are what a node listens on: for programs, for the group, and for what a node
// that joins is sent.
type nodePorts struct{ sql, group, ist, sst int }

// nodePorts returns the ports of a node, by a function that has them by their names.
func (galera) nodePorts(k int, port func(name string) (int, error)) (p nodePorts, err error) {
	for _, x := range []struct {
		name string
		to   *int
	}{{"sql", &p.sql}, {"group", &p.group}, {"ist", &p.ist}, {"sst", &p.sst}} {
		if *x.to, err = port(fmt.Sprint(x.name, k)); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (g galera) Start(ctx context.Context, in *instance) (string, error) {
	if err := in.write("primary", "0"); err != nil {
		return "", err
	}
	var peers, addresses []string
	var nodes [galeraNodes]nodePorts
	for k := range nodes {
		var err error
		nodes[k], err = g.nodePorts(k, func(name string) (int, error) { return in.port(ctx, name) })
		if err != nil {
			return "", err
		}
		peers = append(peers, peer(nodes[k]))
		addresses = append(addresses, mysqlAddress(nodes[k].sql))
	}
	data := filepath.Join(in.home(), "data")
	if err := in.folder(data); err != nil {
		return "", err
	}
	if err := (mariadb{}).init(ctx, in, filepath.Join(data, nodeName(0))); err != nil {
		return "", err
	}
	for k := range nodes {
		cluster := "gcomm://"
		if k > 0 {
			cluster += strings.Join(peers, ",")
			// The files of the first node will come; the empty folder keeps the
			// server from complaining that there are none.
			for _, dir := range []string{"", "mysql"} {
				if err := in.folder(filepath.Join(data, nodeName(k), dir)); err != nil {
					return "", err
				}
			}
		}
		if err := g.node(in, k, nodes[k], cluster); err != nil {
			return "", err
		}
		// One after the other: a node that is giving its data away takes no third.
		if err := in.synced(ctx, k, nodes[k].sql, k+1); err != nil {
			return "", err
		}
	}
	return strings.Join(addresses, ","), nil
}

// peer is how the other nodes of the cluster find one.
func peer(p nodePorts) string { return fmt.Sprintf("127.0.0.1:%d", p.group) }

// node starts a node in the background.
func (galera) node(in *instance, k int, p nodePorts, cluster string, options ...string) error {
	provider, err := galeraProvider()
	if err != nil {
		return err
	}
	if in.path, err = galeraScripts(); err != nil {
		return err
	}
	return mariadb{}.run(in, nodeName(k), filepath.Join(in.home(), "data", nodeName(k)), p.sql, append([]string{
		"--wsrep-on=ON", "--wsrep-provider=" + provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		"--wsrep-cluster-name=parley", "--wsrep-cluster-address=" + cluster, "--wsrep-node-name=" + nodeName(k),
		"--wsrep-node-address=" + peer(p), "--wsrep-sst-method=rsync",
		fmt.Sprintf("--wsrep-sst-receive-address=127.0.0.1:%d", p.sst),
		fmt.Sprintf("--wsrep-provider-options=base_host=127.0.0.1;base_port=%d;gmcast.listen_addr=tcp://127.0.0.1:%[1]d;"+
			"ist.recv_addr=127.0.0.1:%d;gcache.size=64M;pc.recovery=false", p.group, p.ist)}, options...)...)
}

// inCharge is the node that programs are to use.
func (galera) inCharge(in *instance) int {
	k, _ := strconv.Atoi(in.read("primary"))
	return k
}

// Failover implements successor: the next node takes over.
func (g galera) Failover(ctx context.Context, in *instance) (string, error) {
	lost := g.inCharge(in)
	if err := in.killAll(ctx, nodeName(lost)); err != nil {
		return "", err
	}
	next := (lost + 1) % galeraNodes
	if err := in.write("primary", strconv.Itoa(next)); err != nil {
		return "", err
	}
	return mysqlAddress(in.lastPortOf(fmt.Sprint("sql", next))), nil
}

// Repair implements successor. The node that was killed gets its data from the one that
// is not in charge, which takes no statements meanwhile.
func (g galera) Repair(ctx context.Context, in *instance) error {
	lost, donor := (g.inCharge(in)+galeraNodes-1)%galeraNodes, (g.inCharge(in)+1)%galeraNodes
	p, err := g.nodePorts(lost, func(name string) (int, error) { return in.lastPort(ctx, name) })
	if err != nil {
		return err
	}
	var peers []string
	for k := range galeraNodes {
		peers = append(peers, fmt.Sprintf("127.0.0.1:%d", in.lastPortOf(fmt.Sprint("group", k))))
	}
	if err := g.node(in, lost, p, "gcomm://"+strings.Join(peers, ","), "--wsrep-sst-donor="+nodeName(donor)+","); err != nil {
		return err
	}
	return in.synced(ctx, lost, p.sql, galeraNodes)
}

// folder makes a folder that belongs to the server's user.
func (in *instance) folder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return handOver(path)
}

// synced waits until node k belongs to the cluster, which has so many nodes then.
func (in *instance) synced(ctx context.Context, k, port, nodes int) error {
	want := fmt.Sprintf("%d Synced", nodes)
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
