package parleytest

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/backend"
)

// Sent is a message that was posted or sent, as its receiver sees it.
type Sent struct {
	*parley.Message
	// Delay is the delay with which it was posted, and Unique its Unique value, if Kit.Broker posted it.
	Delay  time.Duration
	Unique string
	// State says of a message that waits whether it is "ready", "delayed", "deferred" or "parked".
	State string

	queue int64
}

// copy returns one with a Message of its own.
func (s *Sent) copy() Sent {
	c, m := *s, *s.Message
	c.Message = &m
	return c
}

func (s Sent) String() string {
	text := fmt.Sprintf("%s %.200s", s.Type, s.Body)
	if !utf8.Valid(s.Body) {
		text = fmt.Sprintf("%s (%d bytes)", s.Type, len(s.Body))
	}
	for _, v := range []struct{ name, value string }{
		{"queue", s.Queue}, {"key", s.Key}, {"unique", s.Unique},
		{"from", s.FarService}, {"to", s.Service}, {"headers", backend.EncodeHeaders(s.Headers)}, {"last error", s.LastError},
	} {
		if v.value != "" {
			text += fmt.Sprintf(", %s %q", v.name, v.value)
		}
	}
	if s.Delay > 0 {
		text += fmt.Sprintf(", after %v", s.Delay)
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.State != "" && s.State != "ready" {
		text += ", " + s.State
	}
	return text
}

// list shows messages after a title, if there are any.
func list(title string, all []Sent) string {
	var s []string
	for _, one := range all {
		s = append(s, "\t"+one.String())
	}
	if len(s) == 0 {
		return ""
	}
	return title + strings.Join(s, "\n")
}

// Posted returns the messages that wait in a queue, posts and those of conversations, without receiving them. Ready
// ones come first, in the order in which they would be received, then deferred and parked ones, then delayed posts of
// Kit.Broker. It does not see what a receiver has in hand, nor what is not committed. The queue must be enabled.
func (k *Kit) Posted(queue string) []Sent {
	k.t.Helper()
	var all []Sent
	errStays := errors.New("the messages stay")
	err := k.Broker.InTx(k.own, func(tx *parley.Tx) error {
		for {
			messages, err := tx.Receive(k.own, queue, &parley.ReceiveOptions{MaxMessages: 1000, MaxBytes: 64 << 20})
			if errors.Is(err, parley.ErrNoMessage) {
				return errStays
			} else if err != nil {
				return err
			}
			all = append(all, k.waiting(messages, "ready")...)
		}
	})
	if !errors.Is(err, errStays) {
		k.must("look into a queue", err)
	}
	groups, err := k.Broker.Admin().Groups(k.own, queue, parley.Place{}, 1000)
	k.must("look at the groups of a queue", err)
	for _, g := range groups {
		if g.State == "deferred" || g.State == "parked" {
			messages, err := k.Broker.Admin().PeekParked(k.own, queue, g.Group, 1000)
			k.must("look at a group that is "+g.State, err)
			all = append(all, k.waiting(messages, g.State)...)
		}
	}
	return append(all, k.delayed(queue)...)
}

// waiting adds what the kit knows of messages that wait.
func (k *Kit) waiting(messages []*parley.Message, state string) (all []Sent) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for _, m := range messages {
		s := Sent{Message: m, State: state}
		for _, p := range k.store.posts {
			if p.ID == m.ID {
				s.Delay, s.Unique = p.Delay, p.Unique
			}
		}
		all = append(all, s)
	}
	return all
}

// delayed returns the posts of the kit's Broker that join a queue later.
func (k *Kit) delayed(queue string) (all []Sent) {
	k.t.Helper()
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	for _, p := range k.store.posts {
		if p.Delay == 0 {
			continue
		}
		is, err := k.Broker.PostStatus(k.own, queue, p.ID)
		if !errors.Is(err, parley.ErrNotPending) {
			k.must("look at a post", err)
		}
		if err == nil && is.State == "delayed" {
			s := p.copy()
			s.State, s.Queue = is.State, queue
			all = append(all, s)
		}
	}
	return all
}

// Filter chooses messages.
type Filter struct {
	text string
	is   func(Sent) bool
}

// Where chooses messages by a function; text is for failures.
func Where(text string, is func(Sent) bool) Filter { return Filter{text, is} }

// Type chooses messages of a type.
func Type(name string) Filter {
	return Where("type "+name, func(s Sent) bool { return s.Type == name })
}

// Key chooses posts with a key.
func Key(key string) Filter {
	return Where(fmt.Sprintf("key %q", key), func(s Sent) bool { return s.Key == key })
}

// Unique chooses posts with a Unique value.
func Unique(value string) Filter {
	return Where(fmt.Sprintf("unique %q", value), func(s Sent) bool { return s.Unique == value })
}

// After chooses posts by the delay with which they were posted, give or take a second; zero: without delay.
func After(d time.Duration) Filter {
	return Where(fmt.Sprintf("after %v", d), func(s Sent) bool {
		return (s.Delay > 0) == (d > 0) && (s.Delay-d).Abs() <= time.Second
	})
}

// From chooses messages that a service has sent on a conversation.
func From(service string) Filter {
	return Where(fmt.Sprintf("from %q", service), func(s Sent) bool { return s.FarService == service })
}

// Value chooses messages of a type whose body is v, as reflect.DeepEqual compares.
func Value[T any](typ parley.Typed[T], v T) Filter {
	return Where(fmt.Sprintf("%s %+v", typ.Name(), v), func(s Sent) bool {
		got, err := typ.Decode(s.Message)
		return err == nil && reflect.DeepEqual(got, v)
	})
}

// AssertPosted fails the test if no waiting message of the queue matches all filters, and shows the waiting
// messages. It reports whether one matches.
func (k *Kit) AssertPosted(queue string, f ...Filter) bool {
	k.t.Helper()
	all := k.Posted(queue)
	if len(choose(all, f)) > 0 {
		return true
	}
	k.t.Errorf("parleytest: no message in queue %q%s%s", queue, describe(f), dump(all))
	return false
}

// AssertNotPosted fails the test if a waiting message of the queue matches all filters.
func (k *Kit) AssertNotPosted(queue string, f ...Filter) bool {
	k.t.Helper()
	all := k.Posted(queue)
	chosen := choose(all, f)
	if len(chosen) == 0 {
		return true
	}
	k.t.Errorf("parleytest: %d messages in queue %q%s, want none%s", len(chosen), queue, describe(f), dump(all))
	return false
}

// RequirePosted returns the one waiting message of a type that matches all filters, with its decoded body. The test
// ends if there is none or more than one.
func RequirePosted[T any](k *Kit, queue string, typ parley.Typed[T], f ...Filter) (v T, s Sent) {
	k.t.Helper()
	f = append([]Filter{Type(typ.Name())}, f...)
	all := k.Posted(queue)
	chosen := choose(all, f)
	if len(chosen) != 1 {
		k.t.Fatalf("parleytest: %d messages in queue %q%s, want one%s", len(chosen), queue, describe(f), dump(all))
	}
	v, err := typ.Decode(chosen[0].Message)
	k.must("read a message", err)
	return v, chosen[0]
}

// choose returns the messages that all filters choose.
func choose(all []Sent, f []Filter) (chosen []Sent) {
next:
	for _, s := range all {
		for _, one := range f {
			if !one.is(s) {
				continue next
			}
		}
		chosen = append(chosen, s)
	}
	return chosen
}

func describe(f []Filter) string {
	var s []string
	for _, one := range f {
		s = append(s, one.text)
	}
	if len(s) == 0 {
		return ""
	}
	return " with " + strings.Join(s, ", ")
}

// dump shows the messages of a queue.
func dump(all []Sent) string { return cmp.Or(list("\nThere are:\n", all), "\nNothing waits there.") }
