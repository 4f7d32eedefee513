package console_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/parleymq/parley/console"
	"github.com/parleymq/parley/internal/consoletest"
)

// TestHostileTexts: whatever programs write, no page becomes another one by it.
func TestHostileTexts(t *testing.T) {
	for i, text := range consoletest.Hostile {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := open(t, "memory")
			say := func(what string) string { return what + strings.ReplaceAll(text, "\x00", "") }
			f := consoletest.Fill(t, b, say)
			s := serve(t, b, &console.Options{Redact: func(_, _ string, body []byte) string { return string(body) }})
			for path := range consoletest.Pages(f, say) {
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
