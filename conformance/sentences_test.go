package conformance

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// requiredIDs are the sentences that must not be lost, whatever is added.
const requiredIDs = `
	I1 I2 I3 I4 I5 I6 RA RB RC
	D01 D02 D03 D04 D05 D06 D07 D08 D09 D10 D11 D12 D13 D14 D15
	O01 O02 O03 O04 O05 O06 O07 O08
	G01 G02 G03 G04 G05 G06 G07 G08 G09
	P01 P02 P03 P04 P05 P06 P07 P08 P09 P10 P11 P12 P13
	T01 T02 T03 T04 T05 T06
	E01 E02 E03 E04 E05 E06 E07 E08 E09 E10
	R01 R02 R03
	Q03 Q04
	N01 N02 N03 N04 N05 N06 N07 N08
	L01 L02 L03 L04 L05
	K01 K02 K03
	F01 F02 F03
	C01 C02 C03 C04 C05 C06 C07 C08
	X11 X12 X13 X14 X15 X20
	B01 B02 B03 B04 B05 B06 B07 B08 B09 B10 B11 B12 B13`

// TestSemanticsPage: docs/semantics.md is what the sentences make it.
func TestSemanticsPage(t *testing.T) {
	const page = "../docs/semantics.md"
	want := semanticsPage()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run UPDATE=1 go test -run TestSemanticsPage ./conformance", page)
	}
}

// semanticsPage is docs/semantics.md.
func semanticsPage() string {
	var page strings.Builder
	page.WriteString(semanticsIntro)
	for _, s := range sections {
		fmt.Fprintf(&page, "\n## %s\n\n", s.title)
		for _, s := range s.sentences {
			fmt.Fprintf(&page, "- **%s** %s\n", s.ID, s.Text)
		}
	}
	return page.String()
}

func TestSentencesAreChecked(t *testing.T) {
	ids := make(map[string]bool)
	for _, s := range Sentences {
		if ids[s.ID] {
			t.Errorf("there are two sentences %s", s.ID)
		}
		ids[s.ID] = true
	}
	for _, id := range strings.Fields(requiredIDs) {
		if !ids[id] {
			t.Errorf("the sentence %s is not there", id)
		}
	}

	names := make(map[string]bool)
	checked := make(map[string]int)
	for _, c := range checks {
		if !ids[c.ID] {
			t.Errorf("the check %q is of %s, which is no sentence", c.Name, c.ID)
		}
		if c.Name == "" || names[c.Name] {
			t.Errorf("the name %q of a check of %s is empty or taken", c.Name, c.ID)
		}
		if strings.Contains(c.Name, "/") {
			t.Errorf("the name %q has a slash, which -run would take for a subtest", c.Name)
		}
		if c.Run == nil {
			t.Errorf("the check %q does nothing", c.Name)
		}
		names[c.Name] = true
		checked[c.ID]++
	}
	for _, s := range Sentences {
		if checked[s.ID] == 0 {
			t.Errorf("nothing checks %s %s", s.ID, s.Text)
		}
	}
	if n := len(allChecks()); n != len(checks) {
		t.Errorf("Checks returns %d checks of %d", n, len(checks))
	}
	t.Logf("%d sentences, %d checks: %v", len(Sentences), len(checks), slices.Sorted(maps.Keys(checked)))
}

// TestGroups: each check is in one group, and a group has the checks of one sentence.
func TestGroups(t *testing.T) {
	var got []string
	for group := range groupsOf(nil) {
		for _, c := range group {
			got = append(got, c.ID+"/"+c.Name)
			if c.ID != group[0].ID {
				t.Errorf("%s is in the group of %s", c.ID, group[0].ID)
			}
		}
	}
	var want []string
	for _, c := range allChecks() {
		want = append(want, c.ID+"/"+c.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d checks in groups, want all %d in their order", len(got), len(want))
	}
}
