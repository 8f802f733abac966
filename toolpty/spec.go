package toolpty

import (
	"encoding/json"

	"github.com/shellstead/shellstead/tool"
)

// What a model reads. The texts are stable, so that a client's cache of the tool
// list stays valid.
const (
	openDescription = "Open a terminal session: a live shell or program that you type into and that keeps its state between calls. " +
		"Use one only where state or typed input is needed (a REPL, a debugger, a login, an installer): what is typed into it is harder to audit than one command. " +
		"A session belongs to one agent; nobody else can use it. " +
		"Close what you opened with terminal_close. " +
		"The variables $DSH_* describe this session to its programs."
	sendDescription = "Type text into a terminal session and wait until the program there reads again. " +
		"Enter follows the text unless submit is false, which is for control characters and single keys. " +
		"The result has what was printed since, the echo of the text included, and why the call returned: " +
		"stdin_read is proved, inferred_idle is a guess from silence, timeout says that the program still works, session_exit that the session's own program ended. " +
		"A program that waits for input is named with what it takes: line, secret (a line that is not shown), " +
		"key (single keys, or lines in an editor of its own, as most REPLs have) or continuation (the rest of an unfinished command). " +
		"After a guess or a timeout read on with terminal_read, or send an empty text with submit false to wait again."
	backgroundDescription = " With run_in_background the call returns at once with the id of a task for task_output."
	readDescription       = "Read what a terminal session has printed, without typing anything: a page of its retained output, from the newest line back."
	signalDescription     = "Send a signal to the program in the foreground of a terminal session; SIGINT is what Ctrl-C does. " +
		"SIGKILL is refused while that is the session's own shell: close the session instead."
	closeDescription = "Close a terminal session: end its program and everything that it started, and wait until nothing of it is left."
	listDescription  = "List your terminal sessions, whether their programs still run, and the exit codes of those that do not."
)

const schemaHead = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "properties": {`

const sessionProperty = `
    "sessionId": {
      "type": "string",
      "minLength": 1,
      "description": "The session's id, as terminal_open returned it."
    }`

const openSchema = schemaHead + `
    "type": {
      "type": "string",
      "minLength": 1,
      "description": "The type of terminal, usually shell."
    },
    "name": {
      "type": "string",
      "minLength": 1,
      "description": "A name to show; no two of your sessions have the same."
    },
    "cwd": {
      "type": "string",
      "description": "The folder to start in; your working directory unless given."
    }
  },
  "required": ["type"]
}`

const (
	sendSchemaHead = schemaHead + sessionProperty + `,
    "text": {
      "type": "string",
      "description": "What to type; may be empty."
    },
    "submit": {
      "type": "boolean",
      "default": true,
      "description": "Press Enter after the text."
    }`
	backgroundProperty = `,
    "run_in_background": {
      "type": "boolean",
      "default": false,
      "description": "Return at once and wait in a background task."
    }`
	sendSchemaTail = `
  },
  "required": ["sessionId", "text"]
}`
)

const readSchema = schemaHead + sessionProperty + `,
    "offset": {
      "type": "integer",
      "minimum": 0,
      "default": 0,
      "description": "How many of the newest lines to skip."
    },
    "count": {
      "type": "integer",
      "minimum": 1,
      "default": 500,
      "description": "How many lines to return."
    }
  },
  "required": ["sessionId"]
}`

const signalSchema = schemaHead + sessionProperty + `,
    "signal": {
      "enum": ["SIGINT", "SIGTERM", "SIGKILL", "SIGTSTP", "SIGHUP"],
      "description": "The signal's name."
    }
  },
  "required": ["sessionId", "signal"]
}`

const closeSchema = schemaHead + sessionProperty + `
  },
  "required": ["sessionId"]
}`

const listSchema = schemaHead + `}
}`

const statusSchema = `{
  "type": "object",
  "properties": {
    "kind": { "enum": ["running", "exited"] },
    "exitCode": { "type": ["integer", "null"] },
    "signal": { "type": ["string", "null"] }
  },
  "required": ["kind"]
}`

const sessionProperties = `
    "sessionId": { "type": "string" },
    "name": { "type": "string" },
    "type": { "type": "string" },
    "pid": { "type": "integer" },
    "status": ` + statusSchema

const openResultSchema = schemaHead + sessionProperties + `,
    "motd": {
      "type": "string",
      "description": "What the program printed until it was ready."
    }
  },
  "required": ["sessionId", "type", "status", "motd"]
}`

const (
	sendResultHead = schemaHead + `
    "viewport": {
      "type": "string",
      "description": "What was printed since the text was typed, as plain text."
    },
    "truncated": {
      "type": "boolean",
      "description": "Whether the beginning of the viewport was dropped."
    },
    "waitReason": { "enum": ["stdin_read", "inferred_idle", "timeout", "session_exit"] },
    "sessionStatus": ` + statusSchema + `,
    "fullScreen": {
      "type": "boolean",
      "description": "Whether the program draws on the whole screen."
    },
    "needsInput": {
      "type": "object",
      "properties": {
        "kind": { "enum": ["line", "secret", "key", "continuation"] },
        "prompt": { "type": "string" },
        "program": { "type": "string" },
        "pid": { "type": "integer" }
      },
      "required": ["kind", "prompt", "program", "pid"],
      "description": "The program that provably waits for input."
    },
    "command": {
      "type": "object",
      "properties": {
        "exitCode": { "type": ["integer", "null"] }
      },
      "required": ["exitCode"],
      "description": "The command that was answered, when it completed."
    }`
	foregroundRequired = `["viewport", "truncated", "waitReason", "sessionStatus"]`
	sendResultSchema   = sendResultHead + `
  },
  "required": ` + foregroundRequired + `
}`
	backgroundResultSchema = sendResultHead + `,
    "taskId": {
      "type": "string",
      "description": "The background task, of a background send."
    }
  },
  "oneOf": [
    { "required": ` + foregroundRequired + ` },
    { "required": ["taskId"] }
  ]
}`
)

const readResultSchema = schemaHead + `
    "text": { "type": "string" },
    "totalLines": { "type": "integer", "minimum": 0 },
    "lineBegin": { "type": "integer", "minimum": 0 },
    "lineEnd": { "type": "integer", "minimum": 0 },
    "truncated": {
      "type": "boolean",
      "description": "Whether the page was cut or old output was dropped."
    }
  },
  "required": ["text", "totalLines", "lineBegin", "lineEnd", "truncated"]
}`

const signalResultSchema = schemaHead + `
    "delivered": { "type": "boolean" },
    "targetPgid": { "type": "integer" }
  },
  "required": ["delivered", "targetPgid"]
}`

const closeResultSchema = schemaHead + `
    "sessionId": { "type": "string" },
    "outcome": { "enum": ["closed", "already-closing"] },
    "killed": {
      "type": "boolean",
      "description": "Whether this call closed it."
    }
  },
  "required": ["sessionId", "outcome", "killed"]
}`

const listResultSchema = schemaHead + `
    "sessions": {
      "type": "array",
      "items": {
        "type": "object",
        "properties": {` + sessionProperties + `
        },
        "required": ["sessionId", "type", "status"]
      }
    }
  },
  "required": ["sessions"]
}`

// specs returns the six in the package's order.
func specs(background bool) []tool.Spec {
	sendIn, sendOut, sendText := sendSchemaHead, sendResultSchema, sendDescription
	if background {
		sendIn, sendOut, sendText = sendIn+backgroundProperty, backgroundResultSchema, sendText+backgroundDescription
	}
	return []tool.Spec{
		{
			Name: OpenTool, Title: "Open a terminal", Description: openDescription,
			InputSchema: schema(openSchema), OutputSchema: schema(openResultSchema), OpenWorld: true,
		},
		{
			Name: SendTool, Title: "Type into a terminal", Description: sendText,
			InputSchema: schema(sendIn + sendSchemaTail), OutputSchema: schema(sendOut), Destructive: true, OpenWorld: true,
		},
		{
			Name: ReadTool, Title: "Read a terminal", Description: readDescription,
			InputSchema: schema(readSchema), OutputSchema: schema(readResultSchema), ReadOnly: true,
		},
		{
			Name: SignalTool, Title: "Signal a terminal's program", Description: signalDescription,
			InputSchema: schema(signalSchema), OutputSchema: schema(signalResultSchema), Destructive: true,
		},
		{
			Name: CloseTool, Title: "Close a terminal", Description: closeDescription,
			InputSchema: schema(closeSchema), OutputSchema: schema(closeResultSchema), Destructive: true,
		},
		{
			Name: ListTool, Title: "List terminals", Description: listDescription,
			InputSchema: schema(listSchema), OutputSchema: schema(listResultSchema), ReadOnly: true,
		},
	}
}

func schema(text string) json.RawMessage { return json.RawMessage(text) }
