package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/terminals"
)

// What a send prints can be read as it comes, and nothing of it is lost or told
// twice at its end.
func TestSendOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := ready(t, terminals.Interactive)
		x := f.send(context.Background(), "make")
		output := func(want string) {
			t.Helper()
			text, truncated := x.Output()
			assert.Equal(t, want, text)
			assert.False(t, truncated)
		}
		output("")
		f.dev.run()
		f.dev.say("make\r\none\r\n10%")
		output("make\none\n10%")
		output("")
		f.dev.say("\r20%")
		output("20%")
		f.dev.say("\r\ntwo\r\n")
		f.dev.home()
		f.dev.say(f.mark("D;1;0;/") + f.prompt(1))
		assert.Equal(t, "make\none\n20%\ntwo\n$ ", ends(t, x, terminals.StdinRead).Viewport)
		f.dev.say("[1]+  Done\r\n")
		output("\ntwo\n$ ")
		output("")

		x = f.send(context.Background(), "true")
		f.dev.say("true\r\n" + f.prompt(2))
		ends(t, x, terminals.StdinRead)
		output("true\n$ ")
		output("")
		f.free()
	})
}
