package jsonl

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// How ids become names.
//
// Case: reference 3.3 #82
func TestSessionFolder(t *testing.T) {
	for id, want := range map[string]string{
		"20260102-030405-0a1b2c": "20260102-030405-0a1b2c",
		"a/b":                    "a~002Fb",
		"a~b":                    "a~007Eb",
		"/etc/passwd":            "~002Fetc~002Fpasswd",
		"\x00":                   "~0000",
		".":                      "~002E",
		"..":                     "~002E~002E",
		".a..b":                  ".a..b",
		"a..":                    "a~002E~002E",
		"aB":                     "a~0042",
		"😀":                      "~D83D~DE00",
		"\xed\xa0\x80":           "~xED~xA0~x80", // a lone surrogate is no UTF-8
		"\xed\xa0\x81":           "~xED~xA0~x81",
		"nul":                    "~006Eul",
		"com7.txt":               "~0063om7.txt",
		"com":                    "com",
		"a b":                    "a~0020b",
		"a:b":                    "a~003Ab",
	} {
		assert.Equal(t, want, sessionFolder(id), "%q", id)
	}
	long := sessionFolder(strings.Repeat("x", 256))
	assert.Len(t, long, 255)
	assert.Equal(t, strings.Repeat("x", 189)+"~h", long[:191])
	assert.Equal(t, strings.Repeat("x", 255), sessionFolder(strings.Repeat("x", 255)))
}

// How working directories become names.
//
// Case: reference 3.3 #82
func TestProjectFolder(t *testing.T) {
	for cwd, want := range map[string]string{
		"":                  "_no-cwd",
		"/":                 "--root--",
		"/root":             "--~0072oot--",
		`C:\work\agent`:     "--C-work-agent--",
		"C:/work/agent":     "--C-work-agent--",
		"/开发/~agent":        "--~5F00~53D1-~007Eagent--",
		"/home/u/my-app":    "--home-u-my~002Dapp--",
		"/home/u/my/app":    "--home-u-my-app--",
		`/a\b:c`:            "--a~005Cb~003Ac--",
		`\\server\share\x`:  "--~005Cserver-share-x--",
		"/home/U/v1.2_beta": "--home-U-v1.2_beta--",
		"/with space":       "--with~0020space--",
	} {
		assert.Equal(t, want, projectFolder(cwd), "%q", cwd)
	}
	assert.Len(t, projectFolder("/"+strings.Repeat("x", 1000)), 255)
	assert.NotEqual(t, projectFolder("/"+strings.Repeat("x", 1000)), projectFolder("/"+strings.Repeat("x", 1001)))
}

// Every name is one that any file system takes, and two ids have two names on a
// file system that ignores case.
func FuzzSessionFolder(f *testing.F) {
	f.Add("a/b", "a~002Fb")
	f.Add("A", "a")
	f.Add("a", "a.")
	f.Add("\xff", "\u00ff")
	f.Add(strings.Repeat("x", 300), strings.Repeat("X", 300))
	f.Add("nul", "~006Eul")
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == "" || b == "" {
			return
		}
		nameA, nameB := sessionFolder(a), sessionFolder(b)
		checkName(t, nameA)
		if a != b && strings.EqualFold(nameA, nameB) {
			t.Errorf("%q and %q are both %q", a, b, nameA)
		}
	})
}

// Two clean absolute paths have two names.
func FuzzProjectFolder(f *testing.F) {
	f.Add("/a/b", "/a-b")
	f.Add("/", "/root")
	f.Add("/a//b", "/a/b")
	f.Add("/a:b", `/a\b`)
	f.Add("/"+strings.Repeat("a-", 300), "/"+strings.Repeat("a/", 300))
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = path.Clean("/"+a), path.Clean("/"+b)
		nameA, nameB := projectFolder(a), projectFolder(b)
		checkName(t, nameA)
		if a != b && nameA == nameB {
			t.Errorf("%q and %q are both %q", a, b, nameA)
		}
	})
}

func checkName(t *testing.T, name string) {
	t.Helper()
	if len(name) == 0 || len(name) > 255 || strings.Trim(name, ".") == "" || strings.HasSuffix(name, ".") {
		t.Errorf("%q is no usable name", name)
	}
	for _, r := range name {
		if r >= utf8.RuneSelf || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~", r) {
			t.Errorf("%q contains %q", name, r)
		}
	}
	if reserved(name) {
		t.Errorf("%q is a device", name)
	}
}
