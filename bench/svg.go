package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// draw makes a picture of the results: a panel of bars for each row that several
// systems did.
func draw(r *report) []byte {
	type panel struct {
		title string
		bars  []*result
	}
	var panels []*panel
	at := map[string]*panel{}
	for _, x := range r.Results {
		if len(x.Values) == 0 {
			continue
		}
		key := x.Engine + "/" + x.Row
		if at[key] == nil {
			at[key] = &panel{title: x.Engine + ": " + x.What + " (" + x.Unit + ")"}
			panels = append(panels, at[key])
		}
		at[key].bars = append(at[key].bars, x)
	}
	const width, left, step, right = 820, 150, 18, 90
	var b bytes.Buffer
	y := 0
	for _, p := range panels {
		if len(p.bars) < 2 {
			continue
		}
		y += 34
		fmt.Fprintf(&b, `<text x="8" y="%d" class="t">%s</text>`+"\n", y, escape(p.title))
		most := 0.0
		for _, x := range p.bars {
			most = max(most, x.Max)
		}
		scale := func(v float64) float64 { return v / max(most, 1e-9) * (width - left - right) }
		for _, x := range p.bars {
			y += step
			class := "o"
			if len(x.System) >= 6 && x.System[:6] == "parley" {
				class = "p"
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" class="n">%s</text>`, left-6, y, escape(x.System))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="12" class="%s"/>`, left, y-10, scale(x.Median), class)
			fmt.Fprintf(&b, `<path d="M%.1f %dH%.1f" class="r"/>`, left+scale(x.Min), y-4, left+scale(x.Max))
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", left+scale(x.Max)+6, y, number(x.Median))
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">
<style>text{fill:#333}.t{font-weight:bold;font-size:12px}.n{text-anchor:end}.p{fill:#2b6cb0}.o{fill:#b8c2cc}.r{stroke:#333;stroke-width:1}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, y+20)
	out.Write(b.Bytes())
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s))
	return b.String()
}
