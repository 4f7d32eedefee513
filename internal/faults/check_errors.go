package main

import "path"

// overtaken finds entries that were handled behind the error which ended their conversation.
func (j *judge) overtaken() {
	over := make(map[string]bool)
	for _, e := range j.rows.effects {
		switch dialog, what := path.Split(e.Stream); what {
		case "error":
			over[dialog] = true
		case "entry":
			if over[dialog] {
				j.problem(&j.Broken, "%v was handled behind the error of its conversation", message{e.Stream, e.Seq})
			}
		}
	}
}
