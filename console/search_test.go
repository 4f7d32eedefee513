package console_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
	"github.com/parleymq/parley/internal/sure"
)

// failing has a queue with dead letters and parked groups.
func failing(t *testing.T, b *parley.Broker, posts []parley.Posting, end func(*parley.Message) error) {
	t.Helper()
	ctx := t.Context()
	if err := b.Define(ctx, parley.Catalog{Types: []parley.MessageType{{Name: "Welcome"}}, Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	must(b.PostBatch(ctx, "mail", posts))
	w := sure.Of(b.NewWorker("mail", parley.HandlerFunc(func(_ context.Context, m *parley.Message) error { return end(m) }), &parley.WorkerOptions{MaxReaders: 1}))
	if err := w.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// follow collects what a pattern finds on a page and those behind it.
func (s *site) follow(path string, pattern *regexp.Regexp) (found []string, pages int) {
	s.t.Helper()
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`)
	for ; path != ""; pages++ {
		page := mainOf(s.page(path))
		for _, m := range pattern.FindAllStringSubmatch(page, -1) {
			found = append(found, m[1])
		}
		path = ""
		if m := next.FindStringSubmatch(page); m != nil {
			path = "/" + html.UnescapeString(m[1])
		}
	}
	return found, pages
}

// TestSearchErrors: a search finds dead letters by type, key, header, error and whole ids, and blocked groups by their error.
// Its links lead to what it has found.
func TestSearchErrors(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			b := open(t, store)
			var posts []parley.Posting
			for i := range 7 {
				posts = append(posts, parley.Posting{Payload: parley.Payload{Type: []string{"", "Welcome"}[i%2], Headers: map[string]string{"trace": fmt.Sprint("span-", i)}},
					Options: []parley.PostOption{parley.Key(fmt.Sprint("customer-", i))}})
			}
			failing(t, b, posts, func(m *parley.Message) error {
				if m.Key == "customer-6" {
					return parley.Park(errors.New("no such address"))
				}
				return parley.DeadLetter(errors.New("gone for good, said " + m.Key))
			})
			parked := must(b.Admin().Parked(t.Context(), "mail", parley.Place{}, 1))[0].Group
			letters := must(b.Admin().DeadSummaries(t.Context(), "mail", parley.Place{}, 10))
			s := serve(t, b, nil)
			rows := regexp.MustCompile(`(?s)<tr data-row>.*?href="([^"]*)"`)
			for query, want := range map[string]int{"GONE": 6, "said customer-3": 1, "span-4": 1, "TRACE: span-5": 1, "customer-2": 1, "welc": 4, "no such address": 1, "nothing of it": 0,
				parked.String(): 2, letters[3].Message.ID.String(): 2, letters[0].Message.Group.String(): 2, "0": 1} {
				links, _ := s.follow("/search?"+url.Values{"q": {query}}.Encode(), rows)
				slices.Sort(links)
				links = slices.Compact(links) // behind what an id has, the search can go on, and finds it again
				if len(links) != want {
					t.Errorf("%q finds %v, want %d", query, links, want)
				}
				for _, link := range links {
					if page := s.page("/" + strings.ReplaceAll(link, "&amp;", "&")); strings.HasPrefix(link, "dead?after") && query == "span-4" {
						if first := regexp.MustCompile(`<tr data-row id="d([^"]*)"`).FindStringSubmatch(page); first == nil || first[1] != letters[1].Message.ID.String() {
							t.Errorf("%s leads to %v, want %s", link, first, letters[1].Message.ID)
						}
					}
				}
			}
		})
	}
}

// TestSearchWaiting: a search finds messages that wait, are delayed or withheld, by type, header and whole ID, and not by
// their bodies. Its links lead to where they are.
func TestSearchWaiting(t *testing.T) {
	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			b := open(t, store)
			f := consoletest.Fill(t, b, consoletest.Plain)
			ctx := t.Context()
			post := func(trace string, o ...parley.PostOption) parley.ID {
				return must(b.Post(ctx, "mail", parley.Payload{Type: "Welcome", Headers: map[string]string{"trace": trace, "shard": "7"}, Body: []byte("secret body")}, o...))
			}
			keyed, alone, delayed := post("span-keyed", parley.Key("k")), post("span-alone"), post("span-delayed", parley.After(time.Hour))
			var withheld parley.ID // for a service that is not there yet
			must(0, b.InTx(ctx, func(tx *parley.Tx) error {
				c, err := tx.Begin(ctx, "Shop", "Warehouse", &parley.DialogOptions{Contract: "Orders"})
				if err != nil {
					return err
				}
				withheld = c.Handle()
				return c.SendPayload(ctx, parley.Payload{Type: "Order", Body: []byte("{}"), Headers: map[string]string{"trace": "span-withheld"}})
			}))
			s := serve(t, b, nil)
			rows := regexp.MustCompile(`(?s)<tr data-row><td class="name"><a href="([^"]*)">([^<]*)</a>`)
			find := func(query string) map[string]string {
				links := make(map[string]string)
				for path := "/search?" + (url.Values{"q": {query}}).Encode(); path != ""; {
					page := mainOf(s.page(path))
					for _, m := range rows.FindAllStringSubmatch(page, -1) {
						links[strings.ReplaceAll(m[1], "&amp;", "&")] = m[2]
					}
					path = ""
					if m := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(page); m != nil {
						path = "/" + html.UnescapeString(m[1])
					}
				}
				return links
			}
			for query, want := range map[string]string{"SPAN-keyed": keyed.String(), "trace: span-alone": alone.String(), "span-delayed": delayed.String(), keyed.String(): keyed.String()} {
				links := find(query)
				if !slices.Contains(slices.Collect(maps.Values(links)), want) {
					t.Errorf("%q finds %v, want %s", query, links, want)
				}
				for link := range links {
					if page := s.page("/" + link); strings.HasPrefix(link, "group?") && !strings.Contains(page, `>mail</a>`) {
						t.Errorf("%q leads to %s:\n%s", query, link, mainOf(page))
					}
				}
			}
			if links := find("span-withheld"); len(links) != 1 || links["conversation?id="+withheld.String()] == "" {
				t.Errorf("a withheld message is found at %v, want the conversation of %s", links, withheld)
			}
			if links := find("shard"); len(links) != 3 {
				t.Errorf("the name of a header finds %v, want three messages", links)
			}
			if links := find("order"); links["group?id="+must(b.Admin().Conversations(ctx, parley.ConversationQuery{Handle: f.Handle}))[1].Group.String()+"&queue=orders"] == "" {
				t.Errorf("a type finds %v, want the group of a message that waits", links)
			}
			if links := find("secret body"); len(links) > 0 {
				t.Errorf("a body is found: %v", links)
			}
		})
	}
}

// TestSearchManyWaiting: a search among messages of few groups shows some, goes on from there, and finds each once.
func TestSearchManyWaiting(t *testing.T) {
	b := open(t, "memory")
	if err := b.Define(t.Context(), parley.Catalog{Queues: []parley.Queue{{Name: "mail"}}}); err != nil {
		t.Fatal(err)
	}
	posts := make([]parley.Posting, 2600)
	for i := range posts {
		posts[i] = parley.Posting{Payload: parley.Payload{Headers: map[string]string{"batch": []string{"even", "odd"}[i%20/19]}}, Options: []parley.PostOption{parley.Key("only")}}
	}
	must(b.PostBatch(t.Context(), "mail", posts))
	s := serve(t, b, nil)
	ids := regexp.MustCompile(`data-row><td class="name"><a href="group[^"]*">([0-9a-f-]{36})</a>`)
	for query, want := range map[string]int{"batch: odd": 130, "batch: even": 2470, "none has it": 0} {
		found, pages := s.follow("/search?"+url.Values{"q": {query}}.Encode(), ids)
		different := slices.Compact(slices.Sorted(slices.Values(found)))
		if len(found) != want || len(different) != want || pages < want/50 {
			t.Errorf("%q finds %d, of them %d different, on %d pages, want %d", query, len(found), len(different), pages, want)
		}
	}
}

// TestFarDeadLetters: a search and a verb reach dead letters behind those at which a page looks, and each once.
func TestFarDeadLetters(t *testing.T) {
	b := open(t, "memory")
	posts := make([]parley.Posting, 1300)
	for i := range posts {
		posts[i].Options = []parley.PostOption{parley.Key(fmt.Sprint("k", i))}
	}
	failing(t, b, posts, func(m *parley.Message) error {
		if m.Key == "k3" || m.Key == "k60" {
			return parley.DeadLetter(errors.New("odd"))
		}
		return parley.DeadLetter(errors.New("even"))
	})
	s := writer(t, b, console.Options{})
	ids := regexp.MustCompile(`data-row><td class="name"><a href="dead[^"]*">([^<]*)</a>`)
	if found, pages := s.follow("/search?q=odd", ids); len(found) != 2 || pages != 1 {
		t.Errorf("found are %v on %d pages", found, pages)
	} else {
		for _, id := range found {
			if answer, text := s.confirmed("act?do=requeue&queue=mail&id=" + id); answer.StatusCode != http.StatusSeeOther {
				t.Errorf("%s is not requeued: %s\n%s", id, answer.Status, mainOf(text))
			}
		}
	}
	found, pages := s.follow("/search?q=even", ids)
	seen := make(map[string]bool)
	for _, id := range found {
		seen[id] = true
	}
	if len(found) != 1298 || len(seen) != 1298 || pages < 1298/50 {
		t.Errorf("%d are found on %d pages, of them %d different", len(found), pages, len(seen))
	}
	if n := must(b.Admin().Queues(t.Context(), "mail"))[0].Depth; n != 2 {
		t.Errorf("%d messages wait again, want 2", n)
	}
}

// TestParkedPages: all blocked groups are found on the pages of a filter, each once.
func TestParkedPages(t *testing.T) {
	b := open(t, "memory")
	posts := make([]parley.Posting, 900)
	for i := range posts {
		posts[i].Options = []parley.PostOption{parley.Key(fmt.Sprint("k", i))}
	}
	failing(t, b, posts, func(m *parley.Message) error {
		switch m.Key[len(m.Key)-1] {
		case '1':
			return parley.Defer(1 << 40)
		case '2':
			return parley.Park(errors.New("other"))
		}
		return parley.Park(errors.New("even"))
	})
	s := serve(t, b, nil)
	names := regexp.MustCompile(`<td class="name"><a href="group[^"]*">(k\d+)</a>`)
	for path, want := range map[string][2]int{"/parked": {900, 9}, "/parked?reason=even": {720, 15}, "/parked?state=deferred": {90, 1}, "/parked?reason=other": {90, 2}} {
		found, pages := s.follow(path, names)
		seen := make(map[string]bool)
		for _, name := range found {
			seen[name] = true
		}
		if len(found) != want[0] || len(seen) != want[0] || pages != want[1] {
			t.Errorf("%s: %d groups, of them %d different, on %d pages, want %v", path, len(found), len(seen), pages, want)
		}
	}
}
