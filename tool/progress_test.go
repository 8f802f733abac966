package tool_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/tool"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		type report struct {
			at   time.Duration
			text string
		}
		var got []report
		p := tool.NewProgress(func(text string) { got = append(got, report{time.Since(began), text}) })
		defer p.Stop()
		say := func(text string) {
			p.Write([]byte(text))
			time.Sleep(100 * time.Millisecond)
		}
		for _, text := range []string{"one\n", "two\n", "\x1b[31mthree\x1b[0m\n", "four\n"} {
			say(text)
		}
		time.Sleep(time.Hour) // silence reports nothing
		say("\x1b[0m")        // nor does what has no text
		time.Sleep(time.Second)
		say(strings.Repeat("一", 1000))
		say("x")
		time.Sleep(time.Second)
		say("never shown")
		p.Stop()
		p.Write([]byte("too late"))
		time.Sleep(time.Second)

		assert.Len(t, got, 3)
		assert.Equal(t, []report{
			{250 * time.Millisecond, "one\ntwo\nthree\n"},
			{550 * time.Millisecond, "four\n"},
		}, got[:2])
		assert.Equal(t, strings.Repeat("一", 682)+"x", got[2].text, "the end of what is new, whole characters")
	})
}

// A report that is slow delays reports, not the output, and Stop waits for it.
func TestSlowReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reporting := false
		var reports int
		p := tool.NewProgress(func(string) {
			assert.False(t, reporting, "one at a time")
			reporting = true
			time.Sleep(time.Second)
			reporting = false
			reports++
		})
		began := time.Now()
		for range 30 {
			p.Write([]byte("x"))
			time.Sleep(50 * time.Millisecond)
		}
		assert.Equal(t, 1500*time.Millisecond, time.Since(began))
		p.Stop()
		assert.False(t, reporting)
		assert.Equal(t, 2250*time.Millisecond, time.Since(began), "the one under way has ended")
		assert.Equal(t, 2, reports)
	})
}
