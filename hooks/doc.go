// Package hooks runs a person's own commands before and after a tool call, with
// the payloads and the answers of Claude Code's and Codex's hooks, so that the
// same scripts serve.
//
// A hook reads one JSON object on its standard input. What it exits with
// decides:
//
//   - 0: the call goes on. Where standard output is a JSON object, it is an
//     answer: it can block, replace the call's input (before) or replace its
//     result (after). Anything else that is printed is ignored.
//   - 2: the call is blocked, or its result withheld; standard error is the
//     reason, and the model reads it.
//   - anything else, a time-out, a program that cannot be started and an answer
//     that cannot be read are failures of the hook. They are logged, and the call
//     goes on unless the hook says that its failure blocks.
//
// These members of an answer are understood: decision ("block") with reason;
// continue (false) with stopReason; and in hookSpecificOutput
// permissionDecision ("deny", and "ask", as there is nobody to ask) with
// permissionDecisionReason, updatedInput, updatedToolOutput and
// updatedMCPToolOutput.
package hooks
