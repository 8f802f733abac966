//go:build windows || linux

package conpty

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Case: K16 (UserExistsError/conpty)
func TestCompleteEnv(t *testing.T) {
	host := func(name string) (string, bool) {
		v, ok := map[string]string{"SYSTEMROOT": `C:\Windows`, "COMSPEC": `C:\Windows\cmd.exe`}[name]
		return v, ok
	}
	for _, tt := range []struct{ in, want []string }{
		{nil, []string{`COMSPEC=C:\Windows\cmd.exe`, `SYSTEMROOT=C:\Windows`}},
		{[]string{"b=1", "A=2", "B=3", "=C:=C:\\x", "=c:=C:\\y"},
			[]string{`=c:=C:\y`, "A=2", "B=3", `COMSPEC=C:\Windows\cmd.exe`, `SYSTEMROOT=C:\Windows`}},
		{[]string{"SystemRoot=D:\\W", "comspec="}, []string{"comspec=", "SystemRoot=D:\\W"}},
		{[]string{"no-sign", "\xed\xa0\x80=\xff"}, []string{`COMSPEC=C:\Windows\cmd.exe`, "no-sign", `SYSTEMROOT=C:\Windows`, "\xed\xa0\x80=\xff"}},
	} {
		assert.Equal(t, tt.want, completeEnv(tt.in, host), "%q", tt.in)
	}
	assert.Equal(t, "2", envValue([]string{"Path=1", "PATH=2", "PATHX=3"}, "Path"))
	assert.Empty(t, envValue([]string{"PATH"}, "PATH"))
}
