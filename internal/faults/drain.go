package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/doctor"
	"github.com/parleymq/parley/phases"
)

// drain waits until nothing is left. It reports what is left if nothing is settled for longer than
// patience, or if all of it takes five times as long. A slow machine may take its time, but not
// stand still.
func drain(ctx context.Context, b *parley.Broker, patience time.Duration) (left []string, err error) {
	begun, last, moved := time.Now(), int64(-1), time.Now()
	for ; ; time.Sleep(100 * time.Millisecond) {
		some, err := isLeft(ctx, b)
		if err == nil && !some {
			return nil, nil
		}
		if n, err := lastEffect(ctx, b); err == nil && n != last {
			last, moved = n, time.Now()
		}
		switch {
		case time.Since(moved) < patience && time.Since(begun) < 5*patience:
		case err != nil:
			return nil, err
		default:
			return tellLeft(ctx, b)
		}
	}
}

// isLeft says whether messages, conversations, tasks or dead letters are left.
func isLeft(ctx context.Context, b *parley.Broker) (bool, error) {
	queues, err := b.Admin().Queues(ctx)
	if err != nil {
		return false, err
	}
	for _, q := range queues {
		if waiting(q) > 0 {
			return true, nil
		}
	}
	conversations, err := b.Admin().Conversations(ctx, parley.ConversationQuery{Limit: 1})
	if err != nil || len(conversations) > 0 {
		return true, err
	}
	dead, err := b.Admin().DeadLetters(ctx, "", parley.Place{}, 1)
	if err != nil || len(dead) > 0 {
		return true, err
	}
	tasks, err := unfinished(ctx, b)
	return len(tasks) > 0, err
}

func waiting(q parley.QueueStatus) int {
	return q.Depth + q.Delayed + q.Leased + q.Deferred + q.Parked + q.Withheld
}

// unfinished returns the schedules with tasks that are not done.
func unfinished(ctx context.Context, b *parley.Broker) (list []phases.Status, err error) {
	all, err := phases.List(ctx, b)
	for _, s := range all {
		for state, n := range s.Counts {
			if n > 0 && state != phases.StateDone {
				list = append(list, s)
				break
			}
		}
	}
	return list, err
}

// shown is how many things of a kind are told about.
const shown = 5

// tellLeft says what is left, where, in which state and why.
func tellLeft(ctx context.Context, b *parley.Broker) (left []string, err error) {
	queues, err := b.Admin().Queues(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		if waiting(q) == 0 {
			continue
		}
		left = append(left, fmt.Sprintf("queue %q was not empty at the end: %+v", q.Name, q))
		groups, err := b.Admin().Groups(ctx, q.Name, parley.Place{}, shown)
		if err != nil {
			return left, err
		}
		for _, g := range groups {
			left = append(left, fmt.Sprintf("group %+v%s%s", g,
				tellMessage(ctx, b, q.Name, g), diagnose(ctx, b, g.Group.String())))
		}
		left = append(left, diagnose(ctx, b, q.Name))
	}
	conversations, err := b.Admin().Conversations(ctx, parley.ConversationQuery{Limit: shown})
	if err != nil {
		return left, err
	}
	for _, c := range conversations {
		left = append(left, fmt.Sprintf("conversation was left: %+v%s", c, diagnose(ctx, b, c.Handle.String())))
	}
	dead, err := b.Admin().DeadLetters(ctx, "", parley.Place{}, shown)
	if err != nil {
		return left, err
	}
	for _, d := range dead {
		left = append(left, fmt.Sprintf("dead letter %v: %s", d.Message.ID, d.Reason))
	}
	tasks, err := unfinished(ctx, b)
	for _, s := range tasks[:min(shown, len(tasks))] {
		left = append(left, fmt.Sprintf("schedule was left: %+v%s", s, diagnose(ctx, b, s.Name)))
	}
	return left, err
}

// tellMessage tells of the first message of a group that is parked or deferred.
func tellMessage(ctx context.Context, b *parley.Broker, queue string, g parley.GroupStatus) string {
	if g.State != "parked" && g.State != "deferred" {
		return ""
	}
	list, err := b.Admin().PeekParked(ctx, queue, g.Group, 1)
	if err != nil || len(list) == 0 {
		return fmt.Sprint(" without a message to be seen: ", err)
	}
	m := list[0]
	return fmt.Sprintf(" message %v, type %s, body %s, attempt %d, redelivered %t, last error %q",
		m.ID, m.Type, m.Body, m.Attempt, m.Redelivered, m.LastError)
}

// diagnose returns what the library itself says.
func diagnose(ctx context.Context, b *parley.Broker, what string) string {
	findings, err := doctor.Diagnose(ctx, b, what)
	var text strings.Builder
	for _, f := range findings {
		if f.Code != "worker.dead" { // many were killed
			fmt.Fprintf(&text, "; %s %s: %s", f.Code, f.Object, f.Text)
		}
	}
	if err != nil {
		fmt.Fprintf(&text, "; diagnosis: %v", err)
	}
	return text.String()
}
