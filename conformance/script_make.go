package conformance

import (
	"strconv"
	"time"

	"github.com/parleymq/parley"
)

func postVerb(s *script, st *scriptStep) error {
	do := s.in
	if st.flag("retried") {
		do = func(f func(tx *parley.Tx) error) error { return queRetry(s.env, s.broker(), f) }
	}
	queue := s.name(st.next())
	p, as, key := s.posting()
	return do(func(tx *parley.Tx) error {
		id, err := tx.Post(s.Ctx, queue, p.Payload, p.Options...)
		s.set(as, post{queue, key, id})
		return err
	})
}

// postBatchVerb posts what is separated by commas in one call.
func postBatchVerb(s *script, st *scriptStep) error {
	queue := s.name(st.next())
	var batch []parley.Posting
	var posts []post
	var names []string
	for _, part := range splitTokens(st.args, ",") {
		st.args = part
		p, as, key := s.posting()
		batch, names, posts = append(batch, p), append(names, as), append(posts, post{queue, key, parley.ID{}})
	}
	return s.in(func(tx *parley.Tx) error {
		ids, err := tx.PostBatch(s.Ctx, queue, batch)
		for i, id := range ids {
			posts[i].id = id
			s.set(names[i], posts[i])
		}
		return err
	})
}

// posting takes the words that make a post.
func (s *script) posting() (p parley.Posting, as, key string) {
	st := s.step
	for option, make := range map[string]func(v string) parley.PostOption{
		"unique":   func(v string) parley.PostOption { return parley.Unique(s.unquoted(v)) },
		"priority": func(v string) parley.PostOption { n, _ := strconv.Atoi(v); return parley.Priority(n) },
		"after":    func(v string) parley.PostOption { return parley.After(s.value(v).(time.Duration)) },
		"due":      func(v string) parley.PostOption { return parley.At(time.Now().Add(s.value(v).(time.Duration))) },
		"raise":    func(string) parley.PostOption { return parley.RaiseKey() },
		"key":      func(v string) parley.PostOption { key = s.unquoted(v); return parley.Key(key) },
	} {
		if v, ok := st.option(option); ok {
			p.Options = append(p.Options, make(v))
		}
	}
	as, _ = st.option("as")
	if v, ok := st.option("type"); ok {
		p.Type = s.name(v)
	}
	p.Body = s.body(st.next())
	return p, as, key
}

// catalog makes a definition of the step's words.
func (s *script) catalog() (c parley.Catalog) {
	st := s.step
	kind, name := st.next(), s.name(st.next())
	named := func(option string) string {
		if v, ok := st.option(option); ok {
			return s.name(v)
		}
		return ""
	}
	switch kind {
	case "service":
		service := parley.Service{Name: name, Queue: named("on")}
		if contract := named("lists"); contract != "" {
			service.Contracts = []string{contract}
		}
		c.Services = []parley.Service{service}
	case "contract":
		entry := parley.ContractEntry{Type: named("with"), SentBy: parley.ByAny}
		c.Contracts = []parley.Contract{{Name: name, Messages: []parley.ContractEntry{entry}}}
	case "type":
		t := parley.MessageType{Name: name}
		if st.flag("XML") {
			t.Validation = parley.ValidationXML
		}
		c.Types = []parley.MessageType{t}
	case "queue":
		c.Queues = []parley.Queue{{Name: name, Retention: st.flag("retention"), KeepProcessed: s.duration("keep")}}
	case "rule":
		level, _ := st.option("level")
		n, _ := strconv.Atoi(level)
		c.Priorities = []parley.PriorityRule{
			{Name: name, Level: n, Contract: named("contract"), Local: named("local"), Remote: named("remote")}}
	default:
		s.failf("there is no definition of a %s", kind)
	}
	return c
}
