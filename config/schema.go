package config

import (
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is the type of a value.
type kind int

const (
	number      kind = iota // a whole number between min and max
	boolean                 // true or false
	text                    // one string
	choice                  // one of choices
	texts                   // a list of strings
	environment             // a mapping of names to strings
)

// key describes one key.
type key struct {
	name     string
	kind     kind
	min, max int64
	unit     string
	choices  []string
	def      any // nil: decided while loading

	// refuse returns what is wrong with a value of the right type, or "".
	refuse func(string) string

	doc string
}

// section is a mapping of keys and further sections.
type section struct {
	name     string
	keys     []key
	sections []section
}

// Bounds that only keep arithmetic and memory sane.
const (
	maxMillis  = 7 * 24 * 60 * 60 * 1000 // a week
	maxConfirm = 60 * 1000               // a longer wait is found by the timeout
	maxMemory  = 1 << 30
	maxOutput  = 16 << 20 // a result is held in memory and sent in one message
	maxFile    = 1 << 40
	maxHook    = 60 * 60 * 1000 // the model waits for it
)

func millis(name string, def int64, doc string) key {
	return key{name: name, kind: number, min: 1, max: maxMillis, unit: "ms", def: def, doc: doc}
}

func count(name string, def, limit int64, unit, doc string) key {
	return key{name: name, kind: number, min: 1, max: limit, unit: unit, def: def, doc: doc}
}

// backendKeys are the keys of one entry of backends.
var backendKeys = []key{
	{name: "type", kind: text, refuse: refuseType, doc: "the name that tools and callers use for this kind of terminal"},
	{name: "driver", kind: choice, choices: []string{"posix", "conpty"}, doc: "where the terminal lives; by operating system"},
	{name: "shellDialect", kind: choice, choices: []string{"bash", "pwsh", NoDialect}, doc: "the language that the shell speaks; bash, on Windows pwsh"},
	{name: "shellPath", kind: text, def: "", refuse: refuseProgram, doc: "the shell's program: an absolute path or a name in PATH; empty: by dialect (pwsh, then pwsh-preview)"},
	{name: "shellArgs", kind: texts, def: []string{}, refuse: refuseNUL, doc: "replaces the shell's own arguments; empty: by dialect"},
	{name: "transport", kind: choice, choices: []string{"channel", TypedTransport}, def: "channel", doc: "how commands reach a pwsh: by a private pipe, or typed on its terminal where there can be none"},
	{name: "env", kind: environment, def: []string{}, refuse: refuseNUL, doc: "added to the environment of this backend's shells; may restore what is scrubbed"},
	{name: "init", kind: text, def: "", refuse: refuseNUL, doc: "run once in each new shell before its first command"},
	count("rows", 40, 32767, "rows", "height of the terminal"),
	count("cols", 160, 32767, "columns", "width of the terminal"),
	count("scrollbackLines", 10000, 10_000_000, "lines", "lines that are retained"),
	count("scrollbackMaxBytes", 4194304, maxMemory, "bytes", "bytes that are retained"),
	count("maxReadBytes", 262144, maxMemory, "bytes", "largest page or viewport; at most scrollbackMaxBytes"),
	millis("pollIntervalMs", 50, "longest pause between two probes while a send is undecided"),
	millis("exactProbeAfterMs", 150, "earliest moment at which a wait that was never seen left may count"),
	millis("idleSilenceMs", 3000, "silence that counts as idle where nothing can be proved"),
	millis("handoffGraceMs", 500, "added to idleSilenceMs once a prompt was seen; at least pollIntervalMs"),
	millis("timeoutMs", 30000, "bound of one send and of a shell's start"),
	millis("disposeGraceMs", 3000, "longest wait at each step of ending a process tree"),
}

func commandKeys(backend string) []key {
	return []key{
		{name: "backendType", kind: text, def: backend, refuse: refuseType, doc: "the backend whose shells the tool uses"},
		millis("timeoutMs", 300000, "wall clock of one command"),
		count("maxOutputChars", 16000, maxOutput, "characters", "output that a result retains"),
		{name: "description", kind: text, def: "", refuse: refuseNUL, doc: "what a model reads about the tool; empty: the tool's own"},
		{name: "onTimeout", kind: choice, choices: []string{"reset", "interrupt"}, def: "reset", doc: "what a timeout does: start over, or stop the program and keep a shell that proves ready"},
		{name: "clip", kind: choice, choices: []string{"head", "middle"}, def: "head", doc: "which part of long output is retained: its beginning, or both ends"},
		{name: "prestart", kind: boolean, doc: "start the shell when its owner connects; true in shellstead mcp, otherwise false"},
		count("waitConfirmMs", 250, maxConfirm, "ms", "how long a read of the terminal must stay blocked before it counts as waiting"),
		{name: "spill", kind: boolean, def: true, doc: "keep the whole of clipped output in a file"},
		{name: "spillDir", kind: text, def: "", refuse: refuseRelative, doc: "absolute folder for these files; empty: a private folder under the temp folder"},
		count("spillMaxBytes", 268435456, maxFile, "bytes", "largest such file"),
	}
}

// hookKeys are the keys of one entry of hooks.
var hookKeys = []key{
	{name: "event", kind: choice, choices: []string{"PreToolUse", "PostToolUse"}, doc: "when it runs: before a tool call, or after it and before the model gets the result; required"},
	{name: "matcher", kind: text, def: "", refuse: refusePattern, doc: "a regular expression that matches the whole name of the tools it runs for; empty or *: every tool"},
	{name: "command", kind: texts, refuse: refuseNUL, doc: "the program and its arguments, which no shell reads; required"},
	{name: "format", kind: choice, choices: []string{"claude-code", "codex"}, def: "claude-code", doc: "whose hooks it is written for: the payload that it reads"},
	{name: "timeoutMs", kind: number, min: 1, max: maxHook, unit: "ms", def: int64(60000), doc: "when it is killed, which is a failure"},
	{name: "onFailure", kind: choice, choices: []string{"allow", "block"}, def: "allow", doc: "what its failure does to the call"},
}

// root is the whole configuration but backends and hooks, which are lists.
var root = section{
	keys: []key{
		{name: "dshHome", kind: text, refuse: refuseNUL, doc: "the home folder that shells see as $DSH_HOME; otherwise $DSH_HOME, then ~/.dsh"},
	},
	sections: []section{
		{name: "tools", sections: []section{
			{name: "bash", keys: commandKeys("bash")},
			{name: "pwsh", keys: commandKeys("pwsh")},
			{name: "terminal", keys: []key{
				{name: "enableRunInBackground", kind: boolean, def: true, doc: "offer background sends"},
				{name: "maxResultBytes", kind: number, min: 64, max: maxMemory, unit: "bytes", def: int64(262144), doc: "bound of every result's text"},
			}},
		}},
		{name: "sandbox", keys: []key{
			{name: "mode", kind: choice, choices: []string{ReadOnlyMode, WorkspaceWriteMode, FullAccessMode},
				doc: "what shells may change; workspace-write where a sandbox exists, otherwise danger-full-access, which confines nothing"},
			{name: "workspaceRoot", kind: text, def: ".", refuse: refuseNUL, doc: "the folder that a shell may write in workspace-write"},
			{name: "network", kind: boolean, def: false, doc: "whether confined shells have the network"},
			{name: "provider", kind: choice, choices: []string{AnyProvider, "bubblewrap", "landlock", "sandbox-exec"}, def: AnyProvider, doc: "what confines; auto: the first that works here"},
			{name: "writableRoots", kind: texts, def: []string{}, refuse: refuseNUL, doc: "further folders, files and sockets that a shell may write in workspace-write; ~ is the home folder"},
			{name: "protect", kind: texts, refuse: refuseNUL, doc: "paths in the workspace that stay read-only because other programs execute them; otherwise .git/hooks, .git/config, .envrc and .vscode/tasks.json"},
			{name: "denyRead", kind: texts, refuse: refuseNUL, doc: "paths that confined shells cannot read; otherwise the usual places of keys and tokens in the home folder"},
		}},
		{name: "session", keys: []key{
			{name: "persistence", kind: choice, choices: []string{NoLog, JSONLLog, SQLiteLog}, doc: "what keeps the log of a session: nothing, a file of its own, or one database; jsonl in shellstead mcp, otherwise none"},
			{name: "root", kind: text, def: "", refuse: refuseRelative, doc: "absolute folder for these logs; empty: the folder sessions in dshHome"},
			{name: "compress", kind: choice, choices: []string{"none", ZstdLog}, def: "none", doc: "how new jsonl logs are compressed; shells find the path of an uncompressed one as $DSH_SESSION_JSONL"},
		}},
	},
}

// notes are printed next to keys that are unset.
var notes = map[string]string{
	"sandbox.denyRead":    "unset: the usual places of keys and tokens",
	"sandbox.protect":     "unset: .git/hooks, .git/config, .envrc, .vscode/tasks.json",
	"session.persistence": "unset: jsonl in shellstead mcp, otherwise none",
	"tools.bash.prestart": "unset: true in shellstead mcp, otherwise false",
	"tools.pwsh.prestart": "unset: true in shellstead mcp, otherwise false",
}

// leaf is a key at its place.
type leaf struct {
	path string
	key  key
}

// fixedLeaves lists every key outside backends.
func fixedLeaves() []leaf {
	var leaves []leaf
	var walk func(prefix string, s section)
	walk = func(prefix string, s section) {
		for _, k := range s.keys {
			leaves = append(leaves, leaf{prefix + k.name, k})
		}
		for _, sub := range s.sections {
			walk(prefix+sub.name+".", sub)
		}
	}
	walk("", root)
	return leaves
}

// leaves lists every key, those of the known backends included.
func (l *loader) leaves() []leaf {
	leaves := fixedLeaves()
	for _, key := range l.order {
		for _, k := range backendKeys[1:] { // a type is declared, not set
			leaves = append(leaves, leaf{"backends." + l.types[key].name + "." + k.name, k})
		}
	}
	return leaves
}

// Key describes one key for documentation.
type Key struct {
	Path    string // "backends.TYPE.rows"
	Env     string // the environment variable that sets it; of an entry of hooks, the one that sets the whole list as YAML
	Want    string // "a whole number from 1 to 32767 (rows)"
	Default any    // nil when it is decided while loading
	Doc     string
}

// Keys lists every key of the configuration.
func Keys() []Key {
	leaves := fixedLeaves()
	for _, k := range backendKeys {
		leaves = append(leaves, leaf{"backends.TYPE." + k.name, k})
	}
	keys := make([]Key, len(leaves))
	for i, leaf := range leaves {
		keys[i] = described(leaf, EnvName(leaf.path))
	}
	for _, k := range hookKeys {
		keys = append(keys, described(leaf{"hooks[]." + k.name, k}, EnvName("hooks")))
	}
	return keys
}

func described(at leaf, env string) Key {
	return Key{Path: at.path, Env: env, Want: at.key.want(), Default: at.key.def, Doc: at.key.doc}
}

const envPrefix = "SHELLSTEAD_"

// EnvName is the environment variable that sets a key: the path in upper snake
// case, so SHELLSTEAD_TOOLS_BASH_TIMEOUT_MS for tools.bash.timeoutMs.
func EnvName(path string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	var previous rune
	for _, r := range path {
		switch {
		case r == '.' || r == '-':
			r = '_'
		case unicode.IsUpper(r) && unicode.IsLower(previous):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
		previous = r
	}
	return b.String()
}

// typeKey is the form in which a backend's type is compared. Types that differ
// in case or between - and _ alone would share their environment variables.
func typeKey(typ string) string {
	return strings.ReplaceAll(strings.ToLower(typ), "-", "_")
}

func refuseType(s string) string {
	const problem = "want a name of up to 64 letters, digits, - and _"
	if s == "" || len(s) > 64 {
		return problem
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '-' || c == '_'):
		default:
			return problem
		}
	}
	return ""
}

func refuseNUL(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return "want text without NUL bytes"
	}
	if !utf8.ValidString(s) {
		return "want valid UTF-8"
	}
	return ""
}

func refusePattern(s string) string {
	if problem := refuseNUL(s); problem != "" || s == "*" {
		return problem
	}
	if _, err := regexp.Compile(s); err != nil {
		return "want a regular expression: " + err.Error()
	}
	return ""
}

func refuseProgram(s string) string {
	if problem := refuseNUL(s); problem != "" {
		return problem
	}
	// A relative path would mean another program in every working directory.
	if s == "" || isAbs(s) || !strings.ContainsAny(s, `/\`) && s != "~" {
		return ""
	}
	return "want an absolute path, or a name without slashes to be looked up in PATH"
}

func refuseRelative(s string) string {
	if problem := refuseNUL(s); problem != "" {
		return problem
	}
	if s == "" || isAbs(s) {
		return ""
	}
	return "want an absolute path"
}

func isAbs(s string) bool { return filepath.IsAbs(s) || strings.HasPrefix(s, "/") }
