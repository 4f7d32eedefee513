package consoletest

import (
	"net/url"
)

// Empty says what each view shows of an empty store.
var Empty = map[string]string{
	"/": "No queue is defined yet", "/conversations": "No conversation is open", "/parked": "No group is parked", "/dead": "There are no dead letters",
	"/plans": "There is no plan", "/recurring": "There is no recurring job", "/locks": "No application lock is held", "/workers": "No worker runs",
	"/catalog": "Nothing is defined yet", "/doctor": "Nothing stands in the way", "/why": "Give the id of", "/search": "Give an id",
	"/search?q=x": "Nothing was found", "/locks?prefix=x": "No lock has this prefix", "/parked?reason=x": "No blocked group fits", "/dead?type=x": "No dead letter fits",
	"/conversations?after=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": "There are no later conversations", "/why?what=0195e0a0-5f3e-7000-8000-3c8e2b1f0a11": "nothing with this id waits",
}

// Pages are all pages about what Fill has made, with some texts that each must have.
func Pages(f Filled, say Texts) map[string][]string {
	q := func(view string, params ...string) string {
		v := url.Values{}
		for i := 0; i < len(params); i += 2 {
			v.Set(params[i], params[i+1])
		}
		return "/" + view + "?" + v.Encode()
	}
	orders, mail := say("orders"), say("mail")
	return map[string][]string{
		"/":                      {orders, mail, "1 group in " + mail + " is parked", "1 dead letter of " + mail, "is disabled"},
		q("queue", "name", mail): {say("customer-7"), "promoted 100", "parked", "deferred for another", say("no such address")},
		q("queue", "name", mail, "state", "held"):                       {"No group is held"},
		q("queue", "name", mail, "state", "parked"):                     {say("customer") + "0"},
		q("queue", "name", orders):                                      {"held by shop-1/4711", "lease ends in"},
		q("group", "queue", mail, "id", f.Parked.String()):              {say("no such address"), "Look at the first 50"},
		q("group", "queue", mail, "id", f.Parked.String(), "peek", "1"): {say("Welcome"), "Bodies are not shown", say("no such address")},
		q("group", "queue", mail, "id", f.Keyed.String(), "peek", "1"):  {say("Welcome"), say("customer-7")},
		q("group", "queue", orders, "id", f.Held.String(), "peek", "1"): {"A receiver holds the group now", say("Shop")},
		"/conversations": {say("Shop"), say("Billing"), say("Orders"), "conversing"},
		q("conversation", "id", f.Handle.String()):              {say("Shop"), say("Billing"), say("Orders"), "initiator", "target"},
		q("conversation", "id", f.Handle.String(), "kept", "1"): {say("Order"), say("trace"), say("abc"), "sent"},
		"/parked": {say("customer") + "0", say("customer") + "2", say("no such address")},
		q("parked", "queue", mail, "state", "deferred"): {say("customer") + "2"},
		"/dead": {say("gone for good"), say("Welcome"), f.Dead.String()},
		q("dead", "type", say("Welcome"), "reason", "GONE"): {f.Dead.String()},
		"/plans":                            {say("nightly"), "halted", say("the month's end"), say("the disk is full")},
		q("plan", "name", say("nightly")):   {"Phase 100", "Phase 200", "the plan is halted", say("extract"), say("report"), say("the disk is full"), "<svg"},
		"/recurring":                        {"digest", "0 7 * * * Europe/Berlin", "up to 1 min later", say("Welcome")},
		"/locks":                            {say("stock/7"), say("ann"), say("bob"), "waits: Shared", "Exclusive"},
		"/workers":                          {"No worker serves queue " + mail},
		"/catalog":                          {say("Order"), say("Orders"), say("Billing"), "to level 50", say("important")},
		"/doctor":                           {"group.parked", "queue.disabled", "plan.halted"},
		q("why", "what", f.Parked.String()): {"group.parked", say("no such address")},
		q("why", "what", f.Task.String()):   {"task.over"},
		q("why", "what", f.Dead.String()):   {"message.dead", say("gone for good")},
		q("search", "q", f.Handle.String()): {"conversation?id=", "Why is it stuck?"},
		q("search", "q", f.Dead.String()):   {"dead letter"},
		q("search", "q", say("customer-7")): {"key"},
		q("search", "q", "nightly"):         {say("nightly")},
		q("search", "q", say("trace")):      {"waiting message", say("abc"), say("Order")},
	}
}

// Hostile are texts that mean something where they must not.
var Hostile = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`' autofocus onfocus='alert(1)`,
	`javascript:alert(1)//`,
	`</title></svg><svg onload=alert(1)>`,
	`{{.Console}} ${x} <!-- -->]]>`,
	"a\revent: refused\rdata: b\r\r",
	"%s%d&amp;lt;&#60;../..?name=x#y",
	"\u202eright\u2066 to left\u0000",
}
