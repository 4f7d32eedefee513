package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Ports come from below the range that systems use for outgoing connections. Otherwise such a
// connection could take a server's port while the server is down.
const (
	firstPort = 20000
	portCount = 10000
)

// port returns the instance's port of that name. It is the same as last time
// unless something else listens there now. A server with several ports gives
// each a name.
func (in *instance) port(ctx context.Context, name string) (int, error) {
	// Instances choose one after the other: a port that is free now may
	// already be another's choice.
	cache := filepath.Dir(in.dir)
	choosing, err := lock(ctx, filepath.Join(cache, "ports.lock"))
	if err != nil {
		return 0, err
	}
	defer choosing.Close()
	file := "port-" + name
	if port, err := strconv.Atoi(in.read(file)); err == nil && portFree(port) {
		return port, nil
	}
	taken := make(map[string]bool)
	files, err := filepath.Glob(filepath.Join(cache, "*", "port-*"))
	if err != nil {
		return 0, err
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return 0, err
		}
		taken[strings.TrimSpace(string(text))] = true
	}
	// The folder's name decides where the search begins, so that a port
	// mostly survives the loss of its file.
	h := fnv.New32a()
	h.Write([]byte(in.file(file)))
	for i := range portCount {
		port := firstPort + (int(h.Sum32()%portCount)+i)%portCount
		if !taken[strconv.Itoa(port)] && portFree(port) {
			return port, in.write(file, strconv.Itoa(port))
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

// lastPortOf returns the instance's port of that name, on which something may listen.
func (in *instance) lastPortOf(name string) int {
	port, _ := strconv.Atoi(in.read("port-" + name))
	return port
}

// lastPort returns the instance's port of that name as soon as it is free. A killed process keeps
// its port a moment longer than the process is visible.
func (in *instance) lastPort(ctx context.Context, name string) (port int, err error) {
	port = in.lastPortOf(name)
	if !gone(ctx, 10*time.Second, func() bool { return !portFree(port) }) {
		err = fmt.Errorf("port %d is still in use", port)
	}
	return port, err
}

// lostPort says whether something else listens on a port of the instance,
// whose server does not run.
func (in *instance) lostPort() bool {
	files, _ := filepath.Glob(in.file("port-*"))
	for _, f := range files {
		if port, err := strconv.Atoi(in.read(filepath.Base(f))); err == nil && !portFree(port) {
			return true
		}
	}
	return false
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
