package console_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is a fault in what guards the console.
type mutant struct{ name, file, old, new string }

var mutants = []mutant{
	{"any name is known", "guard.go", `if h.hosts[name] || `, `if true || `},
	{"an address is not known by a token", "guard.go", `h.opt.Token != "" && len(h.opt.Hosts) == 0 && ownAddress(name)`, `false`},
	{"people act without Write", "guard.go", `case !a.looks() && !h.opt.Write:`, `case false:`},
	{"Authorize is not asked", "guard.go", `return h.opt.Authorize(r, a, target)`, `return nil`},
	{"Authorize is not told of what", "guard.go", `return h.opt.Authorize(r, a, target)`, `return h.opt.Authorize(r, a, "")`},
	{"a refusal is no end", "guard.go", "	h.problem(w, r, status, err)\n	return false", "	_ = status\n	return true"},
	{"a person on this machine acts without the token", "guard.go", `local(r) && a.looks()`, `local(r)`},
	{"a proxy on this machine is this machine", "guard.go", `if r.Header.Get(name) != "" {`, `if name == "" {`},
	{"all machines are this one", "guard.go", `addr.Addr().Unmap().IsLoopback()`, `addr.IsValid()`},
	{"any cookie is the token's", "guard.go", `return h.session[c.Value]`, `return c != nil`},
	{"any token will do", "guard.go", `!= 1 {
		return ""`, `== 2 {
		return ""`},
	{"the token can be entered twice", "guard.go", "	h.token = \"\"\n", ""},
	{"an empty token will do when it was entered", "guard.go", `if h.token == "" || `, `if `},
	{"scripts read the cookie", "guard.go", `Name: cookieName, Value: session, HttpOnly: true`, `Name: cookieName, Value: session`},
	{"other sites send the cookie", "guard.go", `Value: session, HttpOnly: true, SameSite: http.SameSiteStrictMode`, `Value: session, HttpOnly: true`},
	{"the way back leads to other sites", "guard.go", `if err == nil && u.Scheme == "" && u.Host == "" && u.User == nil {`, `if true { return link }; if err == nil {`},
	{"the theme is changed without a look", "guard.go", "	if !h.allowed(w, r, View, \"\") {\n		return\n	}\n	r.Body", "	r.Body"},
	{"names of hosts are not looked at", "console.go", `if err := h.knownHost(r); err != nil {`, `if err := h.knownHost(r); false {`},
	{"forms of other sites are taken", "console.go", `if err := h.cross.Check(r); err != nil {`, `if err := h.cross.Check(r); false {`},
	{"there is no policy", "console.go", `	head.Set("Content-Security-Policy", policy)` + "\n", ``},
	{"scripts may stand in a page", "console.go", `script-src 'self';`, `script-src 'self' 'unsafe-inline';`},
	{"pages can be framed", "console.go", `frame-ancestors 'none'`, `frame-ancestors *`},
	{"pages are kept", "console.go", `	head.Set("Cache-Control", "no-store")` + "\n", ``},
	{"a page that is not there does not ask", "console.go", `if h.allowed(w, r, View, "") {
			h.problem(w, r, http.StatusNotFound`, `{
			h.problem(w, r, http.StatusNotFound`},
	{"pages do not ask", "page.go", "	if !h.allowed(w, r, a, target) {\n		return\n	}\n	p, err := h.soon", "	_, _ = a, target\n	p, err := h.soon"},
	{"parts and streams do not ask", "page.go", `return v, q, h.allowed(w, r, a, target)`, `_, _ = a, target; return v, q, true`},
	{"a look at messages is a look", "page.go", `v.peek != "" && q.Get(v.peek) != ""`, `false`},
	{"metrics do not ask", "metrics.go", `if !h.allowed(w, r, View, "") {`, `if false {`},
	{"an open stream is not asked about again", "live.go", `if err := h.may(r, a, target); err != nil {`, `if err := h.may(r, a, target); false {`},
	{"a line of a text becomes one of the stream", "live.go", `data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))`, `_ = 0`},
	{"the page that asks is not asked about", "act.go", "	if !h.allowed(w, r, v.action, target) {\n		return\n	}\n	ctx, cancel := context.WithTimeout(r.Context()", "	ctx, cancel := context.WithTimeout(r.Context()"},
	{"actions do not ask", "act.go", "	if !h.allowed(w, r, v.action, target) {\n		return\n	}\n	if v.lost", "	_ = target\n	if v.lost"},
	{"people need not be sure", "act.go", `if v.lost && r.PostForm.Get("sure") == "" {`, `if false {`},
	{"another verb's right will do", "act.go", `"discard": {action: Discard`, `"discard": {action: Retry`},
	{"a link acts", "console.go", `h.mux.HandleFunc("GET /act", h.confirm)`, `h.mux.HandleFunc("GET /act", func(w http.ResponseWriter, r *http.Request) { r.Method = "POST"; _ = r.ParseForm(); r.PostForm = r.Form; h.act(w, r) })`},
	{"what cannot be recorded is done", "audit.go", `return "", "", fmt.Errorf("nothing was done`, `_ = fmt.Errorf("nothing was done`},
	{"the end is not recorded", "audit.go", "	if h.opt.Audit != nil {\n		if err := h.opt.Audit(ctx, r, a); err != nil { // it", "	if false {\n		if err := h.opt.Audit(ctx, r, a); err != nil { // it"},
	{"actions are not in the log", "audit.go", `h.log.Info("parley: console: a person acted", append(attrs, "said", a.Said)...)`, `_ = attrs`},
	{"failed actions are not in the log", "audit.go", `h.log.Warn("parley: console: a person's action failed", append(attrs, "error", a.Err)...)`, `_ = attrs`},
	{"what is recorded changes later", "act.go", `on := maps.Clone(q)`, `on := maps.Clone(q); on = q`},
	{"a slice begins again", "act.go", `on.Set("after", next)`, `on.Set("after", "")`},
	{"a slice does all", "many.go", `if last != "" && time.Now().After(end) {`, `if last != "" && end.IsZero() {`},
	{"all groups are retried", "many.go", `if last = afterBlocked(g); contains(g.Reason, q.Get("reason")) {`, `if last = afterBlocked(g); true {`},
	{"all dead letters are requeued", "many.go", `fits(x, q.Get("type"), q.Get("reason")) && `, ``},
	{"messages of conversations are posted", "many.go", ` && x.Message.Conversation.IsZero() {`, ` {`},
	{"pages that only look offer actions", "page.go", `"writes": func() bool { return writes }`, `"writes": func() bool { return true }`},
	{"types of files are guessed", "console.go", `	head.Set("X-Content-Type-Options", "nosniff")` + "\n", ``},
	{"other sites get addresses", "console.go", `"same-origin") // with no-referrer`, `"unsafe-url") // with no-referrer`},
	{"other sites open pages", "console.go", `	head.Set("Cross-Origin-Opener-Policy", "same-origin")` + "\n", ``},
	{"other sites load parts", "console.go", `	head.Set("Cross-Origin-Resource-Policy", "same-origin")` + "\n", ``},
	{"pages load from everywhere", "console.go", `default-src 'none'`, `default-src *`},
	{"forms lead everywhere", "console.go", `form-action 'self'; `, ``},
	{"a page changes where links lead", "console.go", `base-uri 'none'; `, ``},
	{"the token's cookie goes over plain HTTP", "guard.go", `Value: session, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil`, `Value: session, HttpOnly: true, SameSite: http.SameSiteStrictMode`},
	{"bodies of dead letters are shown whole", "failures.go", `Body: h.redacted(x.Queue, m.Type, m.Body)`, `Body: string(m.Body)`},
	{"bodies of messages are shown whole", "queue.go", `x.Body = h.redacted(queue, m.Type, m.Body)`, `x.Body = string(m.Body)`},
	{"bodies of kept messages are shown whole", "queue.go", `Body: h.redacted(s.Queue, m.Type, m.Body)`, `Body: string(m.Body)`},
	{"bodies are shown by default", "queue.go", "	if h.opt.Redact == nil {\n		return \"\"", "	if h.opt.Redact == nil {\n		return string(body)"},
	{"a group is moved whatever its state", "move.go", `case list[from].State != "ready":`, `case false:`},
	{"a group is moved before a group that is gone", "move.go", "	case to < 0:\n", "	case to < -1:\n"},
}

// TestMutants: the tests of the console find each fault in what guards it. It takes minutes, so it runs when it is asked
// for by name, as make verify-mutants does.
func TestMutants(t *testing.T) {
	if !strings.Contains(flag.Lookup("test.run").Value.String(), "Mutants") {
		t.Skip("-run Mutants runs it")
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(text), m.old); n != 1 {
				t.Fatalf("%s has %d places for it, want 1", m.file, n)
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			here := must(filepath.Abs(m.file))
			list := must(json.Marshal(map[string]map[string]string{"Replace": {here: changed}}))
			if err := os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, list, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-failfast", "-timeout=90s", "-skip=^TestMutants$", "-overlay", overlay, ".")
			out, err := cmd.CombinedOutput()
			switch {
			case strings.Contains(string(out), "[build failed]"):
				t.Errorf("it does not compile:\n%s", out)
			case err == nil:
				t.Error("no test finds it")
			case !strings.Contains(string(out), "--- FAIL"):
				t.Errorf("no test fails:\n%s", out)
			}
		})
	}
}
