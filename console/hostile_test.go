package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley/console"
)

// hostile are texts that mean something where they must not.
var hostile = []string{
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

// TestHostileTexts: whatever programs write, no page becomes another one by it.
func TestHostileTexts(t *testing.T) {
	for i, text := range hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := open(t, "memory")
			say := func(what string) string { return what + strings.ReplaceAll(text, "\x00", "") }
			f := fill(t, b, say)
			s := serve(t, b, &console.Options{Redact: func(_, _ string, body []byte) string { return string(body) }})
			for path := range pagesOf(f, say) {
				page := s.page(path)
				for _, tag := range regexp.MustCompile(`<(script|img|svg on|style|iframe|object|base)\b[^>]*>`).FindAllString(page, -1) {
					if !strings.Contains(tag, "static/console.js") {
						t.Errorf("%s has %s", path, tag)
					}
				}
				if m := regexp.MustCompile(`<[^>]* on\w+\s*=`).FindString(stripQuoted(page)); m != "" {
					t.Errorf("%s has a handler: %s", path, m)
				}
				if m := regexp.MustCompile(`(?i)(href|src|action)="\s*javascript:`).FindString(page); m != "" {
					t.Errorf("%s has a link that runs: %s", path, m)
				}
				if strings.Contains(page, "ZgotmplZ") {
					t.Errorf("%s has a value that its template cannot place", path)
				}
			}
		})
	}
}

// stripQuoted removes the values of attributes.
func stripQuoted(page string) string {
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, `""`)
}
