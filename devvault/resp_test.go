package devvault

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

func TestReply(t *testing.T) {
	for text, want := range map[string]string{
		"+OK\r\n":                             "OK",
		":7\r\n":                              "7",
		"$5\r\nhello\r\n":                     "hello",
		"$-1\r\n":                             "<nil>",
		"*-1\r\n":                             "<nil>",
		"*3\r\n$1\r\na\r\n:2\r\n*1\r\n+c\r\n": "[a 2 [c]]",
		"-WRONGPASS no\r\n":                   "error: WRONGPASS no",
		"$5\r\nhel":                           "error: reading Redis's answer: unexpected EOF",
		"\r\n":                                "error: reading Redis's answer: an empty line",
		"$x\r\n":                              "error: reading Redis's answer: it is not RESP",
		"$99999999999\r\n":                    "error: reading Redis's answer: it is not RESP, or too large",
		strings.Repeat("*1\r\n", 20):          "error: reading Redis's answer: it is not RESP, or too large",
		"HTTP/1.1 400 Bad Request\r\n":        "error: reading Redis's answer: it is not RESP",
	} {
		c := redisConn{r: bufio.NewReader(strings.NewReader(text))}
		got, err := c.reply(0)
		shown := fmt.Sprint(got)
		if err != nil {
			shown = "error: " + err.Error()
		}
		if shown != want {
			t.Errorf("%q: %s, want %s", text, shown, want)
		}
	}
}
