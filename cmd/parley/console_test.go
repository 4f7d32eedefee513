package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley/internal/slow"
)

// TestConsole: the command serves the console until it is told to stop, and asks browsers elsewhere for a token.
func TestConsole(t *testing.T) {
	db, _ := database(t)
	for _, test := range []struct {
		args  []string
		token bool
	}{{[]string{"--addr", "127.0.0.1:0"}, false}, {[]string{"--addr", "0.0.0.0:0", "--bodies", "--json"}, true}, {[]string{"--addr", "127.0.0.1:0", "--write", "--json"}, true}} {
		ctx, stop := context.WithCancel(t.Context())
		out, w := io.Pipe()
		over := make(chan int, 1)
		go func() {
			over <- run(ctx, append([]string{"console", "--db", db}, test.args...), w, io.Discard)
			w.Close()
		}()
		var says served
		if test.token {
			if err := json.NewDecoder(out).Decode(&says); err != nil {
				t.Fatal(err)
			}
		} else {
			line := make([]byte, 200)
			n, err := out.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			says.URL = strings.TrimSpace(string(line[:n]))
		}
		go io.Copy(io.Discard, out)
		if (says.Token != "") != test.token {
			t.Errorf("%v: %+v", test.args, says)
		}
		url := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1").Replace(says.URL)
		answer, err := http.Get(url + "queue?name=work")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(text), "Work") {
			t.Errorf("%v: %s, %v\n%s", test.args, answer.Status, err, text)
		}
		stop()
		select {
		case code := <-over:
			if code != 0 {
				t.Errorf("%v: exit code %d", test.args, code)
			}
		case <-time.After(slow.By(20 * time.Second)):
			t.Fatal("the command does not stop")
		}
	}
	if code, _, errs := tool(t, "console", "--db", db, "--addr", "nowhere"); code != 1 || !strings.Contains(errs, "nowhere") {
		t.Errorf("a wrong address: exit code %d, %s", code, errs)
	}
}
