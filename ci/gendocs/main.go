// Command gendocs writes the generated parts of docs/: the table of covered
// cases from the tests' comments, the table of configuration keys and that of what
// each system can do. Run it in the module's root:
//
//	go run ./ci/gendocs           writes the files
//	go run ./ci/gendocs --check   exits 1 when a file is out of date
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/shellstead/shellstead/ci/internal/document"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit 1 when a file is out of date")
	flag.Parse()
	stale, err := generate(".", *check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
	if *check && len(stale) > 0 {
		fmt.Fprintln(os.Stderr, "gendocs: out of date, run go run ./ci/gendocs:", stale)
		os.Exit(1)
	}
}

// generate brings the documents under root up to date, or only looks with
// check, and returns those that were not.
func generate(root string, check bool) (stale []string, err error) {
	cases, err := casesDocument(root)
	if err != nil {
		return nil, err
	}
	recorded, err := os.ReadFile(filepath.Join(root, capabilitiesFile))
	if err != nil {
		return nil, err
	}
	capabilities, all, err := capabilitiesOf(recorded)
	if err != nil {
		return nil, err
	}
	documents := map[string]func(old []byte) ([]byte, error){
		capabilitiesFile:    func([]byte) ([]byte, error) { return capabilities, nil },
		"docs/platforms.md": func(old []byte) ([]byte, error) { return platformsDocument(old, all) },
		"docs/cases.md":     func([]byte) ([]byte, error) { return cases, nil },
		"docs/config.md":    func(old []byte) ([]byte, error) { return document.Replace(old, "config keys", configTable()) },
	}
	for name, content := range documents {
		file := filepath.Join(root, name)
		old, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		want, err := content(old)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(old, want) {
			continue
		}
		stale = append(stale, name)
		if check {
			continue
		}
		if err := os.WriteFile(file, want, 0o644); err != nil {
			return nil, err
		}
	}
	return stale, nil
}
