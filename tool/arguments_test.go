package tool_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shellstead/shellstead/terminals"
	"github.com/shellstead/shellstead/tool"
)

type arguments struct {
	Text   *string  `json:"text"`
	Submit bool     `json:"submit"`
	Count  int      `json:"count"`
	Ratio  float64  `json:"ratio"`
	Names  []string `json:"names"`
	Inner  struct {
		Key string `json:"key"`
	} `json:"inner"`
}

func TestDecode(t *testing.T) {
	var got arguments
	assert.NoError(t, tool.Decode(json.RawMessage(` {"text": "a\u00e9\ud83e\udd89\\ud800\n", "count": 3, "more": {}} `), &got))
	assert.Equal(t, "aé🦉\\ud800\n", *got.Text)
	assert.Equal(t, 3, got.Count)
	for _, none := range []string{"", "  ", "{}", "null"} {
		got = arguments{}
		assert.NoError(t, tool.Decode(json.RawMessage(none), &got))
		assert.Equal(t, arguments{}, got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	cases := map[string]string{
		`{"text": 5}`:              `"text" must be a string, not a number`,
		`{"text": ["a"]}`:          `"text" must be a string, not an array`,
		`{"submit": "yes"}`:        `"submit" must be a boolean, not a string`,
		`{"count": "3"}`:           `"count" must be an integer, not a string`,
		`{"count": 1.5}`:           `"count" must be an integer, not a number 1.5`,
		`{"ratio": true}`:          `"ratio" must be a number, not a bool`,
		`{"names": {}}`:            `"names" must be an array, not an object`,
		`{"inner": 1}`:             `"inner" must be an object, not a number`,
		`{"inner": {"key": 1}}`:    `"inner.key" must be a string, not a number`,
		`["a"]`:                    `the arguments must be a JSON object, not an array`,
		`"a"`:                      `the arguments must be a JSON object, not a string`,
		`{"text": "a"`:             `the arguments are not valid JSON: they end in the middle`,
		`{"text": a}`:              `the arguments are not valid JSON at byte 10: invalid character 'a' looking for beginning of value`,
		`{"text": "a"} {}`:         `the arguments must be one JSON object and nothing after it`,
		"{\"text\": \"a\xff\"}":    `the arguments are not valid UTF-8 at byte 11; send text as UTF-8`,
		`{"text": "\ud83e"}`:       `the arguments have half a surrogate pair at byte 10; send both halves or the character itself`,
		`{"text": "\ud83e\u0041"}`: `the arguments have half a surrogate pair at byte 10; send both halves or the character itself`,
		`{"text": "\\\udd89"}`:     `the arguments have half a surrogate pair at byte 12; send both halves or the character itself`,
		`{"text": "\u00`:           `the arguments are not valid JSON: they end in the middle`,
		`{"text": "\`:              `the arguments are not valid JSON: they end in the middle`,
	}
	for raw, want := range cases {
		err := tool.Decode(json.RawMessage(raw), &arguments{})
		assert.EqualError(t, err, want, raw)
		assert.ErrorIs(t, err, terminals.InvalidArgument)
	}
}

type picky struct{}

func (*picky) UnmarshalJSON([]byte) error { return errors.New("not today") }

func TestDecodePassesOtherErrorsOn(t *testing.T) {
	err := tool.Decode(json.RawMessage(`{}`), &picky{})
	assert.EqualError(t, err, "the arguments cannot be read: not today")
}

func TestMissing(t *testing.T) {
	err := tool.Missing("command")
	assert.EqualError(t, err, `"command" is required`)
	assert.ErrorIs(t, err, terminals.InvalidArgument)
}
