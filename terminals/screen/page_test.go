package screen

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shellstead/shellstead/terminals"
)

func TestPage(t *testing.T) {
	type page = terminals.Page
	const five = "1\n2\n3\n4\n5\n"
	for name, tt := range map[string]struct {
		config                  Config
		in                      string
		offset, count, maxBytes int
		want                    page
	}{
		"nothing":              {Config{}, "", 0, 500, all, page{}},
		"all":                  {Config{}, five, 0, 500, all, page{Text: "1\n2\n3\n4\n5", TotalLines: 5, LineEnd: 5}},
		"open_line":            {Config{}, five + "6", 0, 2, all, page{Text: "5\n6", TotalLines: 6, LineEnd: 2}},
		"newest":               {Config{}, five, 0, 1, all, page{Text: "5", TotalLines: 5, LineEnd: 1}},
		"older":                {Config{}, five, 1, 2, all, page{Text: "3\n4", TotalLines: 5, LineBegin: 1, LineEnd: 3}},
		"oldest_and_beyond":    {Config{}, five, 3, 9, all, page{Text: "1\n2", TotalLines: 5, LineBegin: 3, LineEnd: 5}},
		"just_beyond":          {Config{}, five, 5, 9, all, page{TotalLines: 5, LineBegin: 5, LineEnd: 5}},
		"far_beyond":           {Config{}, five, 999, 1, all, page{TotalLines: 5, LineBegin: 999, LineEnd: 999}},
		"huge_numbers":         {Config{}, five, math.MaxInt, math.MaxInt, math.MaxInt, page{TotalLines: 5, LineBegin: math.MaxInt, LineEnd: math.MaxInt}},
		"huge_count":           {Config{}, five, 4, math.MaxInt, math.MaxInt, page{Text: "1", TotalLines: 5, LineBegin: 4, LineEnd: 5}},
		"empty_lines":          {Config{}, "\n\n\n", 0, 2, all, page{Text: "\n", TotalLines: 3, LineEnd: 2}},
		"one_empty_line":       {Config{}, "\n", 0, 2, all, page{TotalLines: 1, LineEnd: 1}},
		"line_under_way":       {Config{}, "1\nabc\rX", 0, 9, all, page{Text: "1\nXbc", TotalLines: 2, LineEnd: 2}},
		"erased_line":          {Config{}, "1\nabc\r\x1b[K", 0, 9, all, page{Text: "1", TotalLines: 1, LineEnd: 1}},
		"cut_between_lines":    {Config{}, five, 0, 9, 5, page{Text: "3\n4\n5", TotalLines: 5, LineEnd: 3, Truncated: true}},
		"cut_inside_a_line":    {Config{}, "one\ntwo\nthree\n", 0, 9, 11, page{Text: "two\nthree", TotalLines: 3, LineEnd: 2, Truncated: true}},
		"cut_at_a_line_end":    {Config{}, "one\ntwo\nthree\n", 0, 9, 6, page{Text: "three", TotalLines: 3, LineEnd: 1, Truncated: true}},
		"cut_in_the_last_line": {Config{}, "one\ntwo\nthree\n", 0, 9, 3, page{Text: "ree", TotalLines: 3, LineEnd: 1, Truncated: true}},
		"cut_before_the_last":  {Config{}, "one\n\n", 0, 9, 1, page{Text: "", TotalLines: 2, LineEnd: 1, Truncated: true}},
		"cut_under_way":        {Config{}, "1\n一二\rX", 0, 9, 4, page{Text: "X二", TotalLines: 2, LineEnd: 1, Truncated: true}},
		"cut_right_of_cursor":  {Config{}, "1\n一二\rX", 0, 9, 3, page{Text: "二", TotalLines: 2, LineEnd: 1, Truncated: true}},
		"no_bytes":             {Config{}, "1\n2\n", 0, 9, 0, page{TotalLines: 2, LineEnd: 1, Truncated: true}},
		"row_45":               {Config{Lines: 3, Bytes: 12}, "一\n二\n三\n四", 0, 500, 6, page{Text: "四", TotalLines: 3, LineEnd: 1, Truncated: true}},
		"row_45_next":          {Config{Lines: 3, Bytes: 12}, "一\n二\n三\n四", 1, 500, 6, page{Text: "三", TotalLines: 3, LineBegin: 1, LineEnd: 2, Truncated: true}},
		"row_45_beyond":        {Config{Lines: 3, Bytes: 12}, "一\n二\n三\n四", 999, 500, 6, page{TotalLines: 3, LineBegin: 999, LineEnd: 999, Truncated: true}},
		"row_45_code_point":    {Config{}, "一", 0, 500, 1, page{TotalLines: 1, LineEnd: 1, Truncated: true}},
		"lines_dropped":        {Config{Lines: 2}, five, 0, 9, all, page{Text: "4\n5", TotalLines: 2, LineEnd: 2, Truncated: true}},
		"open_line_counts":     {Config{Lines: 2}, five + "6", 0, 9, all, page{Text: "5\n6", TotalLines: 2, LineEnd: 2, Truncated: true}},
		"one_line":             {Config{Lines: 1}, five + "6", 0, 9, all, page{Text: "6", TotalLines: 1, LineEnd: 1, Truncated: true}},
		"whole_lines_dropped":  {Config{Bytes: 10}, "one\ntwo\nthree\n", 0, 9, all, page{Text: "two\nthree", TotalLines: 2, LineEnd: 2, Truncated: true}},
		"no_partial_line":      {Config{Bytes: 9}, "one\ntwo\nthree\n", 0, 9, all, page{Text: "three", TotalLines: 1, LineEnd: 1, Truncated: true}},
		"huge_line_46":         {Config{Bytes: 8}, "0123456789abcdef\n$ ", 0, 9, all, page{Text: "bcdef\n$ ", TotalLines: 2, LineEnd: 2, Truncated: true}},
		"huge_open_line":       {Config{Bytes: 8}, "a\nb\n0123456789abcdef", 0, 9, all, page{Text: "89abcdef", TotalLines: 1, LineEnd: 1, Truncated: true}},
		"huge_open_wide_line":  {Config{Bytes: 8}, "一二三四", 0, 9, all, page{Text: "三四", TotalLines: 1, LineEnd: 1, Truncated: true}},
		"huge_line_rewritten":  {Config{Bytes: 8}, "0123456789abcdef\rXY", 0, 9, all, page{Text: "XYabcdef", TotalLines: 1, LineEnd: 1, Truncated: true}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.in}, strings.Split(tt.in, "")} {
				got, err := through(tt.config, pieces...).Page(tt.offset, tt.count, tt.maxBytes)
				require.NoError(t, err)
				assert.Equal(t, tt.want, got)
			}
		})
	}
}

func TestPageRefusesImpossibleNumbers(t *testing.T) {
	s := through(Config{}, "text\n")
	for _, tt := range []struct {
		offset, count int
		names         string
	}{{-1, 1, "offset"}, {math.MinInt, 1, "offset"}, {0, 0, "count"}, {0, -1, "count"}} {
		page, err := s.Page(tt.offset, tt.count, all)
		require.ErrorIs(t, err, terminals.InvalidArgument)
		assert.ErrorContains(t, err, tt.names)
		assert.Zero(t, page)
	}
}

// Paging from LineEnd to LineEnd reads everything once, over many blocks and
// with pages cut by bytes.
func TestPagesJoin(t *testing.T) {
	var in strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&in, "%d %s\n", i, strings.Repeat("一", i%70))
	}
	s := through(Config{Lines: 100000, Bytes: 8 << 20}, cutEvery(in.String(), 100007)...) // over the ends of blocks
	require.Greater(t, len(s.ring.blocks), 20)
	for _, tt := range []struct{ count, maxBytes int }{{500, all}, {7000, 9999}, {77, 1000}} {
		var pages []string
		for offset := 0; ; {
			page, err := s.Page(offset, tt.count, tt.maxBytes)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Text), tt.maxBytes)
			if page.LineEnd == offset {
				break
			}
			require.Equal(t, 30000, page.TotalLines)
			pages = append(pages, page.Text)
			offset = page.LineEnd
		}
		var joined strings.Builder
		for i := len(pages) - 1; i >= 0; i-- {
			joined.WriteString(pages[i] + "\n")
		}
		require.Equal(t, in.String(), joined.String())
	}
}
