package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// mysqlGroup runs a replication group of three members of MySQL with a single primary. The address is
// that of the primary.
type mysqlGroup struct{ server mysql }

const (
	members   = 3
	groupName = "70617272-6c65-7900-0000-6d656d626572"
)

func memberName(k int) string { return fmt.Sprintf("member%d", k) }

func (g mysqlGroup) version() release { return g.server.release }

func (g mysqlGroup) Packages() []string { return g.server.Packages() }

func (g mysqlGroup) Find() error {
	for _, name := range []string{"mysqld", "mysql"} {
		if _, err := g.server.unpacked(name); err != nil {
			return err
		}
	}
	return nil
}

func (g mysqlGroup) Start(ctx context.Context, in *instance) (string, error) {
	for k := range members {
		for _, name := range []string{"sql", "group"} {
			if _, err := in.port(ctx, fmt.Sprint(name, k)); err != nil {
				return "", err
			}
		}
	}
	if err := in.folder(filepath.Join(in.home(), "data")); err != nil {
		return "", err
	}
	for k := range members {
		if err := g.server.init(ctx, in, g.data(in, k)); err != nil {
			return "", err
		}
		if err := g.member(ctx, in, k); err != nil {
			return "", err
		}
		join := "START GROUP_REPLICATION USER = 'root'"
		if k == 0 {
			join = "SET GLOBAL group_replication_bootstrap_group = ON; " + join +
				"; SET GLOBAL group_replication_bootstrap_group = OFF; CREATE DATABASE parley"
		}
		if _, err := g.query(ctx, in, k, join); err != nil {
			return "", err
		}
		if err := g.online(ctx, in, k, k+1); err != nil {
			return "", err
		}
	}
	return g.address(in, 0), in.write("primary", "0")
}

func (g mysqlGroup) data(in *instance, k int) string {
	return filepath.Join(in.home(), "data", memberName(k))
}

func (g mysqlGroup) address(in *instance, k int) string {
	return mysqlAddress(in.lastPortOf(fmt.Sprint("sql", k)))
}

// member starts a member's server, which does not belong to the group yet.
func (g mysqlGroup) member(ctx context.Context, in *instance, k int) error {
	var seeds []string
	for k := range members {
		seeds = append(seeds, fmt.Sprintf("127.0.0.1:%d", in.lastPortOf(fmt.Sprint("group", k))))
	}
	for _, name := range []string{"sql", "group"} {
		if _, err := in.lastPort(ctx, fmt.Sprint(name, k)); err != nil {
			return err
		}
	}
	port := in.lastPortOf(fmt.Sprint("sql", k))
	options := []string{
		fmt.Sprintf("--server-id=%d", k+1), "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--log-bin=binlog",
		"--report-host=127.0.0.1", fmt.Sprintf("--report-port=%d", port), "--plugin-load-add=group_replication.so",
		"--group-replication-group-name=" + groupName, "--group-replication-start-on-boot=OFF",
		"--group-replication-local-address=" + seeds[k], "--group-replication-group-seeds=" + strings.Join(seeds, ","),
		// Else the new primary answers before it has applied what the old one had confirmed.
		"--group-replication-consistency=BEFORE_ON_PRIMARY_FAILOVER"}
	if in.fast {
		options = append(options, "--sync-binlog=0")
	}
	return g.server.run(ctx, in, memberName(k), g.data(in, k), port, options...)
}

// query returns the values of a row, or of several, with blanks between.
func (g mysqlGroup) query(ctx context.Context, in *instance, k int, text string) (string, error) {
	client, err := g.server.unpacked("mysql")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, client, "--no-defaults", "--connect-timeout=5", "-h", "127.0.0.1", "-P",
		fmt.Sprint(in.lastPortOf(fmt.Sprint("sql", k))), "-u", "root", "-N", "-B", "-e", text)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", text, err, exit.Stderr)
	}
	return strings.Join(strings.Fields(string(out)), " "), err
}

// until asks a member until it gives the wanted answer.
func (g mysqlGroup) until(ctx context.Context, in *instance, k int, want, text string) error {
	for end := time.Now().Add(3 * time.Minute); ; {
		says, err := g.query(ctx, in, k, text)
		if err == nil && says == want {
			return nil
		}
		log := filepath.Join(in.home(), memberName(k)+".out")
		if in.pid(memberName(k)+".pid") == 0 {
			return fmt.Errorf("member %d has ended%s", k, tail(log))
		}
		if time.Now().After(end) || sleep(ctx, 100*time.Millisecond) != nil {
			return errors.Join(err, fmt.Errorf("member %d says %q and not %q%s", k, says, want, tail(log)))
		}
	}
}

// online waits until a member is in the group, of which so many members are online then.
func (g mysqlGroup) online(ctx context.Context, in *instance, k, count int) error {
	return g.until(ctx, in, k, fmt.Sprintf("%d 1", count),
		"SELECT count(*), coalesce(sum(member_id = @@server_uuid), 0) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'")
}

// primary is the member that was last in charge.
func (mysqlGroup) primary(in *instance) int {
	k, _ := strconv.Atoi(in.read("primary"))
	return k
}

// elected waits until the group has another primary than the old one, as member k sees it.
func (g mysqlGroup) elected(ctx context.Context, in *instance, old, k int) (string, error) {
	for end := time.Now().Add(2 * time.Minute); ; {
		port, err := g.query(ctx, in, k, "SELECT member_port FROM performance_schema.replication_group_members "+
			"WHERE member_role = 'PRIMARY' AND member_state = 'ONLINE'")
		for next := range members {
			if next == old || err != nil || port != fmt.Sprint(in.lastPortOf(fmt.Sprint("sql", next))) {
				continue
			}
			if err := g.until(ctx, in, next, "0", "SELECT @@super_read_only"); err != nil {
				return "", err
			}
			return g.address(in, next), in.write("primary", strconv.Itoa(next))
		}
		if time.Now().After(end) || sleep(ctx, 50*time.Millisecond) != nil {
			return "", errors.Join(err, fmt.Errorf("the group elects no primary: %q%s", port, tail(filepath.Join(in.home(), memberName(k)+".out"))))
		}
	}
}

// Failover implements successor.
func (g mysqlGroup) Failover(ctx context.Context, in *instance) (string, error) {
	lost := g.primary(in)
	if err := in.write("lost", strconv.Itoa(lost)); err != nil {
		return "", err
	}
	if err := in.killAll(ctx, memberName(lost)); err != nil {
		return "", err
	}
	return g.elected(ctx, in, lost, (lost+1)%members)
}

// Repair implements successor. The killed member joins again, and gets what it has missed.
func (g mysqlGroup) Repair(ctx context.Context, in *instance) error {
	lost, err := strconv.Atoi(in.read("lost"))
	if err != nil {
		return g.online(ctx, in, g.primary(in), members)
	}
	if err := g.member(ctx, in, lost); err != nil {
		return err
	}
	if _, err := g.query(ctx, in, lost, "START GROUP_REPLICATION USER = 'root'"); err != nil {
		return fmt.Errorf("%w%s", err, tail(filepath.Join(in.home(), memberName(lost)+".out")))
	}
	return errors.Join(g.online(ctx, in, lost, members), os.Remove(in.file("lost")))
}

// patience is for how many seconds a switchover waits for transactions before it ends their sessions. Without such a limit
// new transactions begin meanwhile, and it has taken 51 seconds.
const patience = 2

// Switchover implements switcher.
func (g mysqlGroup) Switchover(ctx context.Context, in *instance) (string, error) {
	old := g.primary(in)
	next := (old + 1) % members
	uuid, err := g.query(ctx, in, next, "SELECT @@server_uuid")
	if err != nil {
		return "", err
	}
	if _, err := g.query(ctx, in, next, fmt.Sprintf("SELECT group_replication_set_as_primary('%s', %d)", uuid, patience)); err != nil {
		return "", err
	}
	return g.elected(ctx, in, old, next)
}

// Running says whether any member is alive: what is left has to be stopped.
func (mysqlGroup) Running(in *instance) bool {
	for k := range members {
		if in.pid(memberName(k)+".pid") != 0 {
			return true
		}
	}
	return false
}

func (mysqlGroup) Stop(ctx context.Context, in *instance) error {
	var names []string
	for k := range members {
		names = append(names, memberName(k))
	}
	return in.killAll(ctx, names...)
}

func (mysqlGroup) Version(ctx context.Context, address string) (string, error) {
	version, err := greeting(ctx, address)
	return version + " in a group", err
}
