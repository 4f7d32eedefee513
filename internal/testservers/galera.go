package main

import (
	"context"
	"fmt"
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
type galera struct{ release }

const galeraNodes = 3

func (g galera) Packages() []string { return g.packages }

// server is what each node runs.
func (g galera) server() mariadb { return mariadb{release: g.release} }

func (g galera) Find() error {
	for _, name := range []string{"mariadbd", "mariadb-install-db", "mariadb", "wsrep_sst_rsync", "rsync"} {
		if _, err := g.unpacked(name); err != nil {
			return err
		}
	}
	_, err := g.provider()
	return err
}

// provider is the library that makes a server a node.
func (g galera) provider() (string, error) {
	found, _ := filepath.Glob(filepath.Join(g.root(), "usr/lib*/galera*/libgalera_smm.so"))
	if len(found) == 0 {
		return "", fmt.Errorf("no libgalera_smm.so of %s in the cache folder", g.name)
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
	if err := g.server().init(ctx, in, filepath.Join(data, nodeName(0))); err != nil {
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
		if err := g.synced(ctx, in, k, nodes[k].sql, k+1); err != nil {
			return "", err
		}
	}
	return strings.Join(addresses, ","), nil
}

// peer is how the other nodes of the cluster find one.
func peer(p nodePorts) string { return fmt.Sprintf("127.0.0.1:%d", p.group) }

// node starts a node in the background.
func (g galera) node(in *instance, k int, p nodePorts, cluster string, options ...string) error {
	provider, err := g.provider()
	if err != nil {
		return err
	}
	// Scripts bring a node its data, with programs of the release. They ask lsof which port rsync listens on,
	// by the name of its process, which is the loader's here. Under SELinux they ask the system instead.
	own := filepath.Join(in.home(), "bin")
	if err := in.folder(own); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(own, "selinuxenabled"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		return err
	}
	in.path = own + ":" + filepath.Join(g.root(), "usr/bin") + ":" + filepath.Join(g.root(), "usr/sbin")
	return g.server().run(in, nodeName(k), filepath.Join(in.home(), "data", nodeName(k)), p.sql, append([]string{
		// Without a binary log the other nodes get what ROLLBACK TO SAVEPOINT has undone.
		"--log-bin=binlog", "--log-slave-updates=ON",
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

// Repair implements successor. The killed node gets its data from the node that is not in
// charge, which takes no statements meanwhile. It starts after the others have agreed that it was gone: one of twenty
// nodes that came back before left the cluster without a majority.
func (g galera) Repair(ctx context.Context, in *instance) error {
	heir := g.inCharge(in)
	lost, donor := (heir+galeraNodes-1)%galeraNodes, (heir+1)%galeraNodes
	if err := g.synced(ctx, in, heir, in.lastPortOf(fmt.Sprint("sql", heir)), galeraNodes-1); err != nil {
		return err
	}
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
	return g.synced(ctx, in, lost, p.sql, galeraNodes)
}

// folder makes a folder that belongs to the server's user.
func (in *instance) folder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return handOver(path)
}

// synced waits until node k belongs to the cluster, which has so many nodes then.
func (g galera) synced(ctx context.Context, in *instance, k, port, nodes int) error {
	client, err := g.unpacked("mariadb")
	if err != nil {
		return err
	}
	want := fmt.Sprintf("%d Synced", nodes)
	state, end := "", time.Now().Add(90*time.Second)
	for {
		cmd := exec.CommandContext(ctx, client, "--no-defaults", "--connect-timeout=5", "-h", "127.0.0.1", "-P", fmt.Sprint(port), "-u", "root", "-N", "-B", "-e",
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
