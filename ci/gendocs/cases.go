package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A case comment is a line
//
//	// Case: T29, F42 (herdrdev/herdr#2862) F43
//
// above a test function or inside one, for instance above a row of its table:
// ids, separated by spaces or commas, each followed by its public source in
// parentheses where it has one. It belongs to the test function that it stands
// above or in.
const caseMark = "// Case: "

var (
	caseForm = regexp.MustCompile(`^(reference [0-9.]+ #[0-9]+|[A-Z]+[0-9]+[a-z]?)(?: \(([^()]+)\))?(?:,? +|$)`)
	letters  = regexp.MustCompile(`^[^0-9]*`)
	digits   = regexp.MustCompile(`[0-9]+`)
)

// covered is one case with the tests that cover it.
type covered struct {
	id      string
	sources []string
	tests   []string
}

// casesDocument reads every test under root.
func casesDocument(root string) ([]byte, error) {
	found := map[string]*covered{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		return scanCases(path, filepath.ToSlash(rel), found)
	})
	if err != nil {
		return nil, err
	}
	return renderCases(found), nil
}

// scanCases adds the cases of one file of the package in folder.
func scanCases(path, folder string, found map[string]*covered) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(comment.Text, caseMark)
			if !ok {
				continue
			}
			where := files.Position(comment.Pos())
			references, err := parseCase(text)
			if err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
			test := enclosingTest(file, group)
			if test == "" {
				return fmt.Errorf("%s: the comment %q is neither in nor directly above a test function", where, comment.Text)
			}
			for _, r := range references {
				c := found[r.id]
				if c == nil {
					c = &covered{id: r.id}
					found[r.id] = c
				}
				c.tests = addOnce(c.tests, folder+": "+test)
				if r.source != "" {
					c.sources = addOnce(c.sources, r.source)
				}
			}
		}
	}
	return nil
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// reference is one id of a case comment.
type reference struct{ id, source string }

// parseCase reads what stands after "Case: ".
func parseCase(text string) ([]reference, error) {
	var found []reference
	for rest := strings.TrimSpace(text); ; {
		m := caseForm.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("malformed case comment %q at %q: write ids, each with its source in parentheses where it has one", text, rest)
		}
		found = append(found, reference{id: m[1], source: m[2]})
		if rest = rest[len(m[0]):]; rest == "" && !strings.HasSuffix(m[0], " ") {
			return found, nil
		}
	}
}

// enclosingTest names the test function that group stands in or above.
func enclosingTest(file *ast.File, group *ast.CommentGroup) string {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Recv != nil || !isTest(fn.Name.Name) {
			continue
		}
		if fn.Doc == group || (fn.Pos() <= group.Pos() && group.End() <= fn.End()) {
			return fn.Name.Name
		}
	}
	return ""
}

func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// byID orders letters first, then numbers by value: F9 before F42 before T1.
func byID(a, b *covered) int {
	if c := cmp.Compare(letters.FindString(a.id), letters.FindString(b.id)); c != 0 {
		return c
	}
	an, bn := digits.FindAllString(a.id, -1), digits.FindAllString(b.id, -1)
	if c := slices.CompareFunc(an, bn, func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	}); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

func renderCases(found map[string]*covered) []byte {
	all := make([]*covered, 0, len(found))
	for _, c := range found {
		all = append(all, c)
	}
	slices.SortFunc(all, byID)
	var out bytes.Buffer
	out.WriteString(`# Covered cases

Each case is a failure that users of terminals, shells and agent tools met, or a
fact about a platform that a naive implementation gets wrong. The ids are this
project's own; the source is public, ` + "`repository#number`" + `, where there is one.
The table is generated from the tests' comments by ` + "`go run ./ci/gendocs`" + `
([convention](../ci/README.md#case-comments)).

`)
	fmt.Fprintf(&out, "%d cases.\n\n| case | source | tests |\n|---|---|---|\n", len(all))
	for _, c := range all {
		slices.Sort(c.sources)
		slices.Sort(c.tests)
		tests := make([]string, len(c.tests))
		for i, test := range c.tests {
			folder, name, _ := strings.Cut(test, ": ")
			tests[i] = fmt.Sprintf("[%s](../%s) `%s`", folder, folder, name)
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", c.id, escapeCell(strings.Join(c.sources, "; ")), strings.Join(tests, "<br>"))
	}
	return out.Bytes()
}

func escapeCell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
