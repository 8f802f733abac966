package screen

import (
	"bytes"
	"fmt"
	"testing"
)

// chunk is what a terminal gives at most at a time.
const chunk = 64 << 10

func benchmark(b *testing.B, data []byte) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	s := New(Config{})
	for b.Loop() {
		for p := data; len(p) > 0; {
			n := min(len(p), chunk)
			s.Write(p[:n])
			p = p[n:]
		}
	}
}

func BenchmarkPlain(b *testing.B) {
	var data bytes.Buffer
	for i := 0; data.Len() < 4<<20; i++ {
		fmt.Fprintf(&data, "%07d the quick brown fox jumps over the lazy dog and goes on to the next line\r\n", i)
	}
	benchmark(b, data.Bytes())
}

func BenchmarkNumbers(b *testing.B) {
	var data bytes.Buffer
	for i := range 500000 {
		fmt.Fprintf(&data, "%d\n", i)
	}
	benchmark(b, data.Bytes())
}

func BenchmarkColoured(b *testing.B) {
	var data bytes.Buffer
	for i := 0; data.Len() < 4<<20; i++ {
		fmt.Fprintf(&data, "\x1b[2m12:00:%02d\x1b[0m \x1b[1;32mINFO\x1b[0m compile \x1b[38;5;208mpkg%d\x1b[0m/file.go \x1b[36m%dms\x1b[0m\r\n", i%60, i, i%977)
	}
	benchmark(b, data.Bytes())
}

func BenchmarkOneHugeLine(b *testing.B) {
	benchmark(b, bytes.Repeat([]byte("0123456789abcdef"), 1<<18))
}

func BenchmarkChinese(b *testing.B) {
	benchmark(b, bytes.Repeat([]byte("编译完成，没有发现错误。\r\n"), 1<<16))
}

func BenchmarkProgress(b *testing.B) {
	var data bytes.Buffer
	for i := 0; data.Len() < 4<<20; i++ {
		fmt.Fprintf(&data, "\r[%-40s] %3d%%", "####################"[:i%20], i%100)
	}
	benchmark(b, data.Bytes())
}

func BenchmarkBinary(b *testing.B) {
	data := make([]byte, 4<<20)
	x := uint32(1)
	for i := range data {
		x = x*1664525 + 1013904223
		data[i] = byte(x >> 24)
	}
	benchmark(b, data)
}

func BenchmarkSplitter(b *testing.B) {
	data := bytes.Repeat([]byte("\x1b[32mok\x1b[0m  some/package/path  0.123s\n"), 1<<15)
	s := NewSplitter([]byte("\x1b]7771;0123456789abcdef0123456789abcdef;"), []byte("\x07"), 512)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		for p := data; len(p) > 0; {
			n := min(len(p), chunk)
			s.Write(p[:n], func([]byte) {}, func([]byte) {})
			p = p[n:]
		}
	}
}
