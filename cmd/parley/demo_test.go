package main

import (
	"strings"
	"testing"
)

func TestDemoMailer(t *testing.T) {
	out := works(t, "demo", "mailer", "-mails", "60", "-takes", "1ms", "-fails", "0.1")
	if !strings.Contains(out, " 0 handed over twice") || !strings.Contains(out, "given up") {
		t.Errorf("the demo prints\n%s", out)
	}
}
