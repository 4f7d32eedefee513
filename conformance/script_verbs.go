package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/parleymq/parley"
	"github.com/parleymq/parley/internal/slow"
)

// verbs are what a script can do. A verb takes its words from the step; what it leaves, or
// leaves of what is expected, is a mistake in the script.
var verbs = map[string]func(s *script, st *scriptStep) error{}

func init() {
	maps.Copy(verbs, map[string]func(s *script, st *scriptStep) error{
		// transaction t [on b], broker b [wait 1s]: from now on steps may begin with t: and b:. The
		// option wait is how long b waits for a group.
		"transaction": func(s *script, st *scriptStep) error {
			name := st.next()
			b := s.B
			if on, ok := st.option("on"); ok {
				b = s.brokers[on]
			}
			tx, err := b.Begin(s.Ctx)
			if err == nil {
				s.Cleanup(func() { tx.Rollback(s.Ctx) })
				s.txs[name] = tx
			}
			return err
		},
		"broker": func(s *script, st *scriptStep) error {
			was := s.B.Options()
			s.brokers[st.next()] = s.Broker(&parley.Options{
				NoMaintenance: was.NoMaintenance, Poll: was.Poll, GroupWait: s.duration("wait"),
			})
			return nil
		},
		"commit": func(s *script, st *scriptStep) error {
			name := st.next()
			defer delete(s.txs, name)
			return s.txs[name].Commit(s.Ctx)
		},
		// rollback t, rollback r, or t: rollback to savepoint
		"rollback": func(s *script, st *scriptStep) error {
			if to, ok := st.option("to"); ok {
				return s.in(func(tx *parley.Tx) error { return tx.RollbackTo(s.Ctx, to) })
			}
			name := st.next()
			if tx := s.txs[name]; tx != nil {
				delete(s.txs, name)
				tx.Rollback(s.Ctx)
				return nil
			}
			st.args = append(st.args, name)
			return s.mustDelivery().Rollback(s.Ctx)
		},
		"savepoint": func(s *script, st *scriptStep) error {
			return s.in(func(tx *parley.Tx) error { return tx.Savepoint(s.Ctx, st.next()) })
		},
		"release": func(s *script, st *scriptStep) error {
			return s.in(func(tx *parley.Tx) error { return tx.Release(s.Ctx, st.next()) })
		},

		// begin d [from S] [to S] [contract C] [lifetime 1h] [related d] [group g] [bodies]
		"begin": func(s *script, st *scriptStep) error {
			name, from, to := st.next(), s.Client, s.Server
			o := parley.DialogOptions{Contract: s.Contract, Lifetime: s.duration("lifetime")}
			for option, set := range map[string]func(string){
				"from": func(v string) { from = s.name(v) }, "to": func(v string) { to = s.name(v) },
				"contract": func(v string) { o.Contract = s.name(v) },
				"related":  func(v string) { o.RelatedConversation = s.side(v).handle },
				"group":    func(v string) { o.RelatedGroup = s.id(v) },
			} {
				if v, ok := st.option(option); ok {
					set(v)
				}
			}
			return s.in(func(tx *parley.Tx) error {
				c, err := tx.Begin(s.Ctx, from, to, &o)
				if err != nil {
					if c != nil {
						s.failf("a conversation was begun all the same")
					}
					return err
				}
				s.vars[name] = side{handle: c.Handle()}
				return s.sendAll(c, s.Ask)
			})
		},
		// send d [type] bodies: the type is Ask for the side that began, and Tell for the other.
		"send": func(s *script, st *scriptStep) error {
			to, typ := s.side(st.next()), s.Ask
			if to.target {
				typ = s.Tell
			}
			return s.in(func(tx *parley.Tx) error { return s.sendAll(tx.Conversation(to.handle), typ) })
		},
		// sendto d e type body: one body for several conversations.
		"sendto": func(s *script, st *scriptStep) error {
			body, typ := s.quoted(st.args[len(st.args)-1]), s.name(st.args[len(st.args)-2])
			st.args = st.args[:len(st.args)-2]
			all := s.sides()
			return s.in(func(tx *parley.Tx) error {
				var to []*parley.Conversation
				for _, h := range all {
					to = append(to, tx.Conversation(h))
				}
				return tx.SendTo(s.Ctx, to, typ, []byte(body))
			})
		},
		// sendbatch d body e body: several messages of type Any, or of types given before the bodies.
		"sendbatch": func(s *script, st *scriptStep) error {
			return s.in(func(tx *parley.Tx) error {
				var batch []parley.Sending
				for len(st.args) > 0 {
					c := tx.Conversation(s.side(st.next()).handle)
					p := parley.Payload{Type: s.Any}
					if !strings.HasPrefix(st.args[0], `"`) {
						p.Type = s.name(st.next())
					}
					p.Body = []byte(s.quoted(st.next()))
					batch = append(batch, parley.Sending{To: c, Payload: p})
				}
				return tx.SendBatch(s.Ctx, batch)
			})
		},
		// reply r [type] bodies, finish r [with 55 "text"]: by the first message of a delivery.
		"reply": func(s *script, st *scriptStep) error {
			c, err := s.mustDelivery().Messages[0].On(s.Ctx)
			if err != nil {
				return err
			}
			return s.sendAll(c, s.Tell)
		},
		"finish": func(s *script, st *scriptStep) error {
			m := s.mustDelivery().Messages[0]
			failure := s.failure()
			if failure == nil {
				return m.End(s.Ctx)
			}
			c, err := m.On(s.Ctx)
			if err != nil {
				return err
			}
			return c.EndWithError(s.Ctx, failure.Code, failure.Text)
		},

		// receive SQ [max 1] [of d] [group g] [choose g] [by lease] [wait 1s|now] [as r]: in hand until it is settled.
		"receive": receiveVerb,
		// take SQ [the same]: received and acknowledged until all came that are expected.
		"take": func(s *script, st *scriptStep) error {
			queue, as, o := s.receiving()
			ms := dlgTake(s.as(), queue, len(splitTokens(st.want, ",")), &o)
			s.match(ms)
			s.set(as, ms)
			return nil
		},
		"drain": func(s *script, st *scriptStep) error {
			for len(st.args) > 0 {
				s.as().Drain(s.name(st.next()))
			}
			return nil
		},
		// nothing SQ [of d]: now. quiet SQ CQ: nor in the next moments.
		"nothing": func(s *script, st *scriptStep) error {
			queue, _, o := s.receiving()
			s.as().Nothing(queue, &o)
			return nil
		},
		"quiet": func(s *script, st *scriptStep) error {
			var queues []string
			for len(st.args) > 0 {
				queues = append(queues, s.name(st.next()))
			}
			dlgQuiet(s.as(), queues...)
			return nil
		},
		"ack": func(s *script, st *scriptStep) error { return s.mustDelivery().Ack(s.Ctx) },
		"close": func(s *script, st *scriptStep) error { // a delivery or a broker
			if b := s.brokers[st.args[0]]; b != nil {
				st.next()
				return b.Close()
			}
			return s.mustDelivery().Close()
		},
		"return": func(s *script, st *scriptStep) error { return s.mustDelivery().Return(s.Ctx) },
		"defer": func(s *script, st *scriptStep) error {
			after := s.duration("for")
			return s.mustDelivery().Defer(s.Ctx, after)
		},
		"park": func(s *script, st *scriptStep) error {
			d := s.mustDelivery()
			if len(st.args) > 0 {
				return d.Park(s.Ctx, errors.New(s.quoted(st.next())))
			}
			return d.Park(s.Ctx, nil)
		},
		"more": func(s *script, st *scriptStep) error {
			d := s.mustDelivery()
			n, _ := strconv.Atoi(st.next())
			ms, err := d.More(s.Ctx, n)
			if err == nil {
				s.match(ms)
			}
			return err
		},

		// end d [with 55 "text"], cleanup d
		"end": func(s *script, st *scriptStep) error {
			failure := s.failure()
			for _, h := range s.sides() {
				err := s.in(func(tx *parley.Tx) error {
					if failure == nil {
						return tx.Conversation(h).End(s.Ctx)
					}
					return tx.Conversation(h).EndWithError(s.Ctx, failure.Code, failure.Text)
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
		"cleanup": func(s *script, st *scriptStep) error {
			h := s.side(st.next()).handle
			return s.in(func(tx *parley.Tx) error { return tx.Conversation(h).Cleanup(s.Ctx) })
		},
		// gone d d.peer: perhaps after the clean-up that every process does.
		"gone": func(s *script, st *scriptStep) error {
			dlgGone(s.as(), s.sides()...)
			return nil
		},
		"timer": func(s *script, st *scriptStep) error {
			h, d := s.side(st.next()).handle, s.value(st.next())
			if d == "0" {
				d = time.Duration(0)
			}
			return s.in(func(tx *parley.Tx) error { return tx.Conversation(h).SetTimer(s.Ctx, d.(time.Duration)) })
		},
		"move": func(s *script, st *scriptStep) error {
			to, _ := st.option("to")
			h, g := s.side(st.next()).handle, s.id(to)
			return s.in(func(tx *parley.Tx) error { return tx.Conversation(h).Move(s.Ctx, g) })
		},
		// let p d.peer: another name for a side.
		"let": func(s *script, st *scriptStep) error {
			name := st.next()
			s.vars[name] = s.side(st.next())
			return nil
		},
		// group g is a new id; group g at SQ [of d] takes one by GetGroup.
		"group": func(s *script, st *scriptStep) error {
			name := st.next()
			queue, ok := st.option("at")
			if !ok {
				s.vars[name] = parley.NewID()
				return nil
			}
			st.args = append([]string{queue}, st.args...)
			queue, _, o := s.receiving()
			return s.in(func(tx *parley.Tx) error {
				g, err := tx.GetGroup(s.Ctx, queue, &o)
				s.vars[name] = g
				return err
			})
		},

		// post SQ [as p] [key k] [unique v] [after 1s|due 1s] [priority 1] [type T] [retried] body
		"post":      postVerb,
		"postbatch": postBatchVerb,
		"cancel": func(s *script, st *scriptStep) error {
			on, ok := st.option("at")
			if !ok {
				on = "SQ"
			}
			id := s.id(st.next())
			return s.in(func(tx *parley.Tx) error { return tx.CancelPost(s.Ctx, s.name(on), id) })
		},
		// once "key" new|old
		"once": func(s *script, st *scriptStep) error {
			key, want := s.Name(s.quoted(st.next())), st.next()
			return s.in(func(tx *parley.Tx) error {
				fresh, err := tx.Once(s.Ctx, key)
				if err == nil && fresh != (want == "new") {
					s.failf("the key is new: %t", fresh)
				}
				return err
			})
		},

		// promote g [level 7] [sticky] [until-empty], promote key k [in CQ], demote g, unpark g
		"promote": func(s *script, st *scriptStep) error {
			var o []parley.PromoteOption
			if level, ok := st.option("level"); ok {
				n, _ := strconv.Atoi(level)
				o = append(o, parley.PromoteLevel(n))
			}
			if st.flag("sticky") {
				o = append(o, parley.Sticky())
			}
			if st.flag("until-empty") {
				o = append(o, parley.UntilEmpty())
			}
			if key, ok := st.option("key"); ok {
				in, ok := st.option("in")
				if !ok {
					in = "SQ"
				}
				return s.in(func(tx *parley.Tx) error { return tx.PromoteKey(s.Ctx, s.name(in), key, o...) })
			}
			g := s.id(st.next())
			return s.in(func(tx *parley.Tx) error { return tx.Promote(s.Ctx, g, o...) })
		},
		"demote": func(s *script, st *scriptStep) error {
			g := s.id(st.next())
			if tx := s.open(); tx != nil {
				return tx.Demote(s.Ctx, g)
			}
			return s.broker().Demote(s.Ctx, g)
		},
		"unpark": func(s *script, st *scriptStep) error { return s.broker().Admin().Unpark(s.Ctx, s.id(st.next())) },
		"disable": func(s *script, st *scriptStep) error {
			return s.broker().Admin().DisableQueue(s.Ctx, s.name(st.next()))
		},
		"enable": func(s *script, st *scriptStep) error { return s.broker().Admin().EnableQueue(s.Ctx, s.name(st.next())) },
		// define and redefine: service S on Q [lists C], contract C with T, type T [XML], queue Q
		// [retention] [keep 1h], rule R level 1 [contract C] [local S] [remote S]
		"define":   func(s *script, st *scriptStep) error { return s.broker().Define(s.Ctx, s.catalog()) },
		"redefine": func(s *script, st *scriptStep) error { return s.broker().Redefine(s.Ctx, s.catalog()) },

		// equal and differ compare two values or more.
		"equal": func(s *script, st *scriptStep) error {
			if first, other, ok := s.compared(); !ok {
				s.failf("they are %.300q and %.300q", first, other)
			}
			return nil
		},
		"differ": func(s *script, st *scriptStep) error {
			if first, _, ok := s.compared(); ok {
				s.failf("they are both %.300q", first)
			}
			return nil
		},
		// depth SQ 2 [now]: so many messages wait, now or when a claim has removed what it meets.
		"depth": func(s *script, st *scriptStep) error {
			test := dlgDepth
			if st.flag("now") {
				test = dlgDepthNow
			}
			queue := s.name(st.next())
			n, err := strconv.Atoi(st.next())
			test(s.as(), queue, n)
			return err
		},
		// withheld d 3 [texts], withheld d none [soon]
		"withheld": func(s *script, st *scriptStep) error {
			h := s.side(st.next()).handle
			soon, want := st.flag("soon"), st.next()
			if soon {
				s.Soon(5*time.Second, func() bool { return dlgWithheld(s.as(), h) == nil })
			}
			stream, got := dlgWithheld(s.as(), h), "none"
			if stream != nil {
				got = fmt.Sprint(stream.Count)
			}
			if got != want {
				s.failf("withheld: %+v, want %s", stream, want)
			}
			if stream == nil {
				return nil
			}
			if ep := s.status(h); stream.From.Service != ep.Service || stream.From.FarService != ep.FarService {
				s.failf("withheld: %+v, want it from %q to %q", stream, ep.Service, ep.FarService)
			}
			for len(st.args) > 0 {
				if text := s.text(st.next()); !strings.Contains(stream.Status, text) {
					s.failf("what is said of it, %q, does not name %q", stream.Status, text)
				}
			}
			return nil
		},
		// copies d [as in r] [texts], as "sent 0 body" and "received 0 body"; those received are of the
		// messages of r
		"copies": func(s *script, st *scriptStep) error {
			h := s.side(st.next()).handle
			var want []string
			if name, ok := st.option("in"); ok {
				st.flag("as")
				retSame(s.as(), h, s.delivery(name).Messages)
			}
			for len(st.args) > 0 {
				want = append(want, s.quoted(st.next()))
			}
			dlgSame(s.env, "copies", retCopies(s.as(), h), want)
			return nil
		},
		"pause": func(s *script, st *scriptStep) error {
			d, err := time.ParseDuration(st.next())
			time.Sleep(d)
			return err
		},
		// line a b: conversations with one message each, "a" and "b"; the names are those of their groups.
		"line": func(s *script, st *scriptStep) error {
			for len(st.args) > 0 {
				name := st.next()
				s.vars[name] = prioLine(s.as(), name)[0]
			}
			return nil
		},
		// order SQ bodies: received one by one in this order, by each way of holding in turn.
		"order": func(s *script, st *scriptStep) error {
			queue := s.name(st.next())
			var want []string
			for len(st.args) > 0 {
				want = append(want, s.quoted(st.next()))
			}
			prioOrder(s.as(), queue, "order", want...)
			return nil
		},
	})
}

// sendAll sends what is left of the step's words: a type, perhaps, and bodies.
func (s *script) sendAll(c *parley.Conversation, typ string) error {
	for len(s.step.args) > 0 {
		word := s.step.next()
		if !strings.HasPrefix(word, `"`) && word != "nil" {
			typ = s.name(word)
			continue
		}
		if err := c.Send(s.Ctx, typ, s.body(word)); err != nil {
			s.step.args = nil
			return err
		}
	}
	return nil
}

// failure takes the words that make an end one with an error; nil if there are none.
func (s *script) failure() *parley.DialogError {
	code, ok := s.step.option("with")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(code)
	s.Must(err)
	last := len(s.step.args) - 1
	text := s.quoted(s.step.args[last])
	s.step.args = s.step.args[:last]
	return &parley.DialogError{Code: n, Text: text}
}

// receiving takes the words that say what is received.
func (s *script) receiving() (queue, as string, o parley.ReceiveOptions) {
	st := s.step
	as, _ = st.option("as")
	if n, ok := st.option("max"); ok {
		o.MaxMessages, _ = strconv.Atoi(n)
	}
	if v, ok := st.option("of"); ok {
		o.Conversation = s.side(v).handle
	}
	if v, ok := st.option("group"); ok {
		o.Group = s.id(v)
	}
	if v, ok := st.option("by"); ok {
		o.Hold = map[string]parley.Hold{"transaction": parley.HoldTransaction, "lease": parley.HoldLease}[v]
	}
	if v, ok := st.option("choose"); ok {
		id := s.id(v)
		o.Choose = func(context.Context, iter.Seq[parley.GroupStatus]) (parley.ID, bool) { return id, true }
	}
	if st.flag("released") {
		o.Release = parley.BeforeWork
	}
	if _, ok := st.option("in"); ok { // in any order
		st.anyOrder = st.flag("order")
	}
	o.Wait = s.duration("wait")
	return s.name(st.next()), as, o
}

func receiveVerb(s *script, st *scriptStep) error {
	queue, as, o := s.receiving()
	if tx := s.open(); tx != nil {
		ms, err := tx.Receive(s.Ctx, queue, &o)
		if err == nil {
			s.match(ms)
			s.set(as, ms)
		}
		return err
	}
	comes := !st.flag("now") && o.Wait == 0 && (len(st.want) == 0 || scriptErrors[st.want[0]] == nil)
	if comes {
		o.Wait = slow.By(15 * time.Second)
	}
	start := time.Now()
	d, err := s.broker().Receive(s.Ctx, queue, &o)
	if took := time.Since(start); took > o.Wait+slow.By(invPatience) {
		s.late()
		s.failf("it took %v", took)
	}
	if comes && errors.Is(err, parley.ErrNoMessage) {
		s.late()
	}
	if err != nil {
		return err
	}
	s.Cleanup(func() { d.Close() })
	for _, m := range d.Messages {
		if m.Group != d.Group {
			s.failf("a delivery of group %s has a message of group %s", d.Group, m.Group)
		}
	}
	s.match(d.Messages)
	s.set(as, d)
	return nil
}

// compared tells whether all values of the step are equal, and two that are not.
func (s *script) compared() (first, other string, equal bool) {
	st := s.step
	first = s.text(st.next())
	st.result = first
	for len(st.args) > 0 {
		if other = s.text(st.next()); other != first {
			st.args = nil
			return first, other, false
		}
	}
	return first, first, true
}
