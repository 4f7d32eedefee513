package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// pluginMistakes are the 35 deviations with which a plugin that was written from the documents alone once passed
// all checks, and for each the check that now catches it. TestMutants proves that.
var pluginMistakes = []struct{ says, by string }{
	{"a message that is gone becomes a dead letter", "a dead letter is of a message that is there"},
	{"Close leaves transactions open", "closing a handle rolls back"},
	{"a job ignores its limit", "a job keeps to its limit"},
	{"a store says nothing of itself", "a store says what it is"},
	{"a plan is shown as halted while tasks of its phase start", "a plan halts at the end of the phase"},
	{"a dead task halts its own phase", "a plan halts at the end of the phase"},
	{"a key has the rank of its first waiting post", "a key keeps the rank of its first post"},
	{"a store with a single writer says that a group is busy", "a group that another receiver leases is refused at once"},
	{"EndOfStream is sent again on the next dialog", "the end of a stream is not sent again"},
	{"an end does not say whose queue was told", "an end says what it did"},
	{"an end does not say that the peer had ended", "an end says what it did"},
	{"an end does not say that both sides have ended", "an end says what it did"},
	{"conversations are listed from the first one on", "lists come in pages"},
	{"all withheld streams are listed", "lists come in pages"},
	{"tasks are listed from the first one on", "tasks are listed in pages"},
	{"tasks are listed whether they run or not", "tasks are listed in pages"},
	{"the age of a queue is lost", "ages and counts of what waits"},
	{"the age of a group is lost", "ages and counts of what waits"},
	{"what is due has been waiting for no time", "what jobs have left undone"},
	{"the priority of a group is lost", "ages and counts of what waits"},
	{"what waits for a side is not counted", "ages and counts of what waits"},
	{"the time since which a stream waits is lost", "ages and counts of what waits"},
	{"a timer is not shown", "ages and counts of what waits"},
	{"the age of a conversation is lost", "ages and counts of what waits"},
	{"the age of a dead letter is lost", "ages of what has failed or is not yet due"},
	{"the end of a worker's record is lost", "a record of a reader says when it ends"},
	{"the time at which a message was stored is lost", "ages and counts of what waits"},
	{"the time at which the message of a dead letter was stored is lost", "ages of what has failed or is not yet due"},
	{"the time at which a retained message was stored is lost", "ages of what has failed or is not yet due"},
	{"the time since which a group is parked is lost", "ages of what has failed or is not yet due"},
	{"the end of a lease is not shown", "ages and counts of what waits"},
	{"a change of the catalog counts twice", "the version of the catalog"},
	{"a worker's own readers count as dead", "a worker's own readers are alive"},
	{"the age of a group is that of its best conversation", "the age of a group is that of its oldest message"},
	{"closing the last handle removes the store", "everything is closed and opened again"},
}

// TestPluginMistakes: testdata/mistakes.txt has each of them with its sentence and its check.
func TestPluginMistakes(t *testing.T) {
	const file = "testdata/mistakes.txt"
	want := pluginMistakesPage(t)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run UPDATE=1 go test -run TestPluginMistakes ./conformance", file)
	}
}

func pluginMistakesPage(t *testing.T) string {
	var page strings.Builder
	all := mutants()
	for i, p := range pluginMistakes {
		at := slices.IndexFunc(all, func(m mutant) bool { return m.says == p.says })
		if at < 0 {
			t.Fatalf("no mutant says that %s", p.says)
		}
		id := all[at].breaks
		check := slices.IndexFunc(checks, func(c check) bool { return c.ID == id && c.Name == p.by })
		if check < 0 {
			t.Fatalf("%s has no check %q, which is to catch that %s", id, p.by, p.says)
		}
		fmt.Fprintf(&page, "%2d %s\n\tcaught by: %s/%s (%s)\n\tbreaks: %s\n", i+1, p.says, id, p.by, checks[check].file, sentence(id))
	}
	return page.String()
}
