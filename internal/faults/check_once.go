package main

// onces finds keys that two transactions found new and committed, and keys that one found known although none had done so.
func (j *judge) onces() {
	committed := make(map[string][]message)
	noted := make(map[message]bool)
	note := func(m message) {
		if key := j.once[m]; key != "" && !noted[m] {
			noted[m] = true
			committed[key] = append(committed[key], m)
		}
	}
	for _, e := range j.rows.effects {
		note(message{e.Stream, e.Seq})
	}
	for m, p := range j.messages {
		if p.state == sent {
			note(m)
		}
	}
	for key, list := range committed {
		if len(list) > 1 {
			j.problem(&j.Doubled, "the key %q was new for %v", key, list)
		}
	}
	for _, e := range j.history {
		if e.Kind == known && committed[e.Name] == nil {
			j.problem(&j.Broken, "the key %q was known, and no transaction that committed had found it new", e.Name)
		}
	}
}
