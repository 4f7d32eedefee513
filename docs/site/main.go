// Command site writes the documentation as a website: static files, with a search that works offline.
//
//	go run . -out ../../.cache/site
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
)

func main() {
	root := flag.String("root", "../..", "the `folder` of the repository")
	out := flag.String("out", "../../.cache/site", "the `folder` to write to; what is in it is removed")
	flag.Parse()
	pages, err := build(*root)
	if err == nil {
		err = os.RemoveAll(*out)
	}
	if err == nil {
		err = write(pages, *out)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d pages: %s/index.html\n", len(pages), *out)
}
