package conformance

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The report as JUnit's XML, which CI servers read. A check is a test case of the class that its
// sentence's number names.
type (
	junitSuite struct {
		XMLName    xml.Name        `xml:"testsuite"`
		Name       string          `xml:"name,attr"`
		Time       string          `xml:"timestamp,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class      string          `xml:"classname,attr"`
		Name       string          `xml:"name,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Failure    *junitText      `xml:"failure"`
		Error      *junitText      `xml:"error"`
		Skipped    *junitText      `xml:"skipped"`
		Log        string          `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// junit returns the report as XML. The encoder replaces what XML has no characters for.
func (p *Report) junit() ([]byte, error) {
	suite := junitSuite{
		Name: "Parley conformance: " + p.Engine + " " + p.Version, Time: p.At.Format("2006-01-02T15:04:05"),
		Tests: len(p.Checks), Failures: p.Failed, Skipped: p.Skipped,
		Properties: []junitProperty{
			{"parley", p.Program}, {"go", p.Go}, {"system", p.System}, {"cpus", fmt.Sprint(p.CPUs)},
			{"engine", p.Engine}, {"version", p.Version},
		},
	}
	for _, k := range slices.Sorted(maps.Keys(p.Settings)) {
		suite.Properties = append(suite.Properties, junitProperty{"setting." + k, p.Settings[k]})
	}
	for _, w := range p.Warnings {
		suite.Properties = append(suite.Properties, junitProperty{"warning", w})
	}
	for _, problem := range p.Problems {
		suite.Properties = append(suite.Properties, junitProperty{"problem", problem})
	}
	for _, c := range p.Checks {
		one := junitCase{
			Class: "parley." + c.ID, Name: c.Check, Time: fmt.Sprintf("%.3f", c.Seconds),
			Properties: []junitProperty{{"sentence", c.Sentence}}, Log: strings.Join(c.Log, "\n"),
		}
		switch c.Result {
		case "failed":
			text := strings.Join(append([]string{c.Text, "calls that led to it:"}, c.History...), "\n  ")
			one.Failure = &junitText{c.ID + " " + c.Sentence, text}
		case "skipped":
			one.Skipped = &junitText{Message: c.Text}
		}
		suite.Cases = append(suite.Cases, one)
	}
	if p.Error != "" {
		suite.Tests, suite.Errors = suite.Tests+1, 1
		suite.Cases = append(suite.Cases, junitCase{Class: "parley", Name: "open", Error: &junitText{Message: p.Error}})
	}
	data, err := xml.MarshalIndent(suite, "", "\t")
	return append([]byte(xml.Header), data...), err
}
